#include "tools/pdc/Location.h"

#include <filesystem>

namespace fs = std::filesystem;

namespace pdc {

std::string runtimePackage() {
  fs::path program = fs::read_symlink("/proc/self/exe");
  return program.parent_path().parent_path() / "lib" / "cmake" / "PdcRuntime";
}

} // namespace pdc
