#include "tools/pdc/AnnotatedPath.h"

#include "compiler/Error.h"

#include <filesystem>
#include <unistd.h>

namespace pdc {

/// Whether a path is this folder or lies in it, be they there or not.
static bool holds(const std::filesystem::path &folder, const std::filesystem::path &path) {
  std::error_code ignored;
  auto whole = [&](const std::filesystem::path &any) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(any), ignored);
  };
  std::filesystem::path inside = whole(path).lexically_relative(whole(folder));
  return !inside.empty() && *inside.begin() != "..";
}

void checkAnnotatedPath(const Options &options) {
  const std::filesystem::path path = options.annotated;
  const std::string where = "--annotated '" + options.annotated + "': ";
  std::error_code ignored;
  std::filesystem::file_status there = std::filesystem::symlink_status(path, ignored);
  if (is_directory(there) || holds(path, options.output))
    throw Error(where + "is a folder, expected the path of a file; add a name, as in stages.onnx");
  if (exists(there) && !is_regular_file(there))
    throw Error(where + "is " + (is_symlink(there) ? "a symbolic link" : "no regular file") +
                ", which would be replaced; expected a regular file or a new path");
  std::filesystem::path folder =
      path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const bool isThere = std::filesystem::is_directory(folder, ignored);
  if (!isThere && !holds(folder, options.output))
    throw Error(where + "there is no folder '" + folder.string() +
                "'; make it, or choose another place");
  if (isThere && access(folder.c_str(), W_OK) != 0)
    throw Error(where + "the folder '" + folder.string() +
                "' cannot be written; choose another place");
}

} // namespace pdc
