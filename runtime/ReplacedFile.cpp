#include "runtime/ReplacedFile.h"

namespace pdc::runtime {

namespace fs = std::filesystem;

ReplacedFile::ReplacedFile(const std::string &path, const std::string &ending) {
  std::error_code failed;
  target = fs::weakly_canonical(path, failed);
  if (failed)
    target = path;
  unfinished = target.string() + ending;
  file.open(unfinished, std::ios::binary);
  isThere = file.is_open();
}

ReplacedFile::~ReplacedFile() {
  std::error_code ignored;
  if (isThere)
    fs::remove(unfinished, ignored);
}

bool ReplacedFile::takePlace() {
  file.close();
  std::error_code failed;
  if (file)
    fs::rename(unfinished, target, failed);
  if (!file || failed)
    return false;
  isThere = false;
  return true;
}

} // namespace pdc::runtime
