#include "tools/pdc/Location.h"

#include <filesystem>

namespace fs = std::filesystem;

namespace pdc {

RuntimeLocation runtimeLocation() {
  std::error_code error;
  fs::path program = fs::read_symlink("/proc/self/exe", error);
  fs::path package = program.parent_path().parent_path() / "lib" / "cmake" / "PdcRuntime";
  if (!error && fs::exists(package / "PdcRuntimeConfig.cmake"))
    return {"", package.string()};
  return {PDC_SOURCES, ""};
}

} // namespace pdc
