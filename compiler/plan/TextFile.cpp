#include "compiler/plan/Files.h"

#include "compiler/Error.h"

#include <fstream>

namespace pdc {

std::string readTextFile(const std::filesystem::path &path) {
  constexpr uintmax_t kMostBytes = 256u << 20;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw Error(path.string() + (std::filesystem::is_directory(path, error)
                                     ? ": is a folder, expected a file"
                                 : std::filesystem::exists(path, error) ? ": is no regular file"
                                                                        : ": no such file"));
  if (std::filesystem::file_size(path, error) > kMostBytes || error)
    throw Error(path.string() + ": larger than 256 MB");
  std::ifstream stream(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream)
    throw Error(path.string() + ": cannot be read");
  return text;
}

void writeTextFile(const std::filesystem::path &path, const std::string &text) {
  std::ofstream stream(path, std::ios::binary);
  stream << text;
  stream.close();
  if (!stream)
    throw Error(path.string() + ": cannot be written");
}

} // namespace pdc
