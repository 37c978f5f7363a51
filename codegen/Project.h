#pragma once

#include "compiler/ir/Pdc.h"
#include "compiler/plan/Plan.h"

#include <string>
#include <vector>

namespace pdc {

/// A file of the generated project: its name and all of its text.
struct ProjectFile {
  std::string name;
  std::string text;
};

/// The sources and the build files of a module at level 4: `stage_K.cpp` and its `main` per
/// program, `all_stages`, CMakeLists.txt, GNUmakefile and, if needed, constants.safetensors. The
/// same module and plan give the same bytes. `runtimePackage`: the folder where the project first
/// looks for the CMake package PdcRuntime.
std::vector<ProjectFile> printProject(mlir::ModuleOp module, const Plan &plan,
                                      llvm::StringRef runtimePackage);

} // namespace pdc
