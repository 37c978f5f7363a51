#include "codegen/WriteFolder.h"

#include "compiler/Error.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <regex>
#include <set>
#include <unistd.h>

namespace fs = std::filesystem;

namespace pdc {

void writeFile(const fs::path &path, const std::string &text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file)
    throw Error("cannot write '" + path.string() + "'");
}

static bool sameBytes(const fs::path &a, const fs::path &b) {
  std::error_code missing;
  if (fs::file_size(a, missing) != fs::file_size(b, missing) || missing)
    return false;
  std::ifstream left(a, std::ios::binary), right(b, std::ios::binary);
  std::array<char, 1 << 16> x, y;
  while (left && right) {
    left.read(x.data(), x.size());
    right.read(y.data(), y.size());
    if (left.gcount() != right.gcount() ||
        !std::equal(x.data(), x.data() + left.gcount(), y.data()))
      return false;
  }
  return left.eof() && right.eof();
}

/// An empty folder beside `folder`, gone again when writing fails.
namespace {
class FolderBeside {
public:
  explicit FolderBeside(const fs::path &folder) {
    fs::path parent = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
    fs::create_directories(parent);
    std::string pattern = (parent / ("." + folder.filename().string() + ".XXXXXX")).string();
    if (!mkdtemp(pattern.data()))
      throw Error("cannot write into '" + parent.string() + "'");
    path = pattern;
    fs::permissions(path, fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec |
                              fs::perms::others_read | fs::perms::others_exec);
  }
  ~FolderBeside() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path path;
};
} // namespace

static bool isWrittenByPdc(const fs::path &folder) {
  return fs::is_directory(folder) && (fs::is_empty(folder) || fs::exists(folder / "plan.json"));
}

static void removeOldStages(const fs::path &folder, const std::set<std::string> &names) {
  static const std::regex stage("stage_[0-9]+(_main)?\\.(cpp|cu)");
  for (const fs::directory_entry &entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (std::regex_match(name, stage) && !names.contains(name))
      fs::remove(entry.path());
  }
}

static void replaceChanged(const fs::path &source, const fs::path &folder) {
  std::set<std::string> names;
  for (const fs::directory_entry &entry : fs::directory_iterator(source))
    names.insert(entry.path().filename().string());
  for (const std::string &name : names)
    if (!sameBytes(source / name, folder / name))
      fs::rename(source / name, folder / name);
  removeOldStages(folder, names);
}

void writeFolder(const fs::path &folder, const std::function<void(const fs::path &)> &fill) {
  fs::path target = folder.has_filename() ? folder : folder.parent_path();
  try {
    if (fs::exists(target) && !isWrittenByPdc(target))
      throw Error("'" + target.string() +
                  "' is there and was not written by pdc; choose another place with -o");
    FolderBeside beside(target);
    fill(beside.path);
    if (fs::exists(target))
      replaceChanged(beside.path, target);
    else
      fs::rename(beside.path, target);
  } catch (const fs::filesystem_error &error) {
    throw Error("cannot write '" + target.string() + "': " + error.code().message());
  }
}

} // namespace pdc
