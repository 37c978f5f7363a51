#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace pdc::runtime {

/// A file that takes the place of what has its name once it is whole. A link stays one, to the new
/// file; what is never whole is taken away again.
class ReplacedFile {
public:
  /// `ending`: of the name that it has until then.
  explicit ReplacedFile(const std::string &path, const std::string &ending = ".part");
  ~ReplacedFile();
  ReplacedFile(const ReplacedFile &) = delete;
  ReplacedFile &operator=(const ReplacedFile &) = delete;

  std::ofstream &text() { return file; }
  /// False: it could not be written, and what was there stays.
  bool takePlace();

private:
  std::filesystem::path target, unfinished;
  std::ofstream file;
  bool isThere; ///< under the name that it has until it is whole
};

} // namespace pdc::runtime
