#pragma once

#include "compiler/ir/Pdc.h"
#include "llvm/Support/raw_ostream.h"

#include <map>
#include <string>
#include <vector>

namespace pdc {

/// How C++ spells what a tensor holds: `float`, `int64_t`, ... A layout such as "u8:aBcd16b" names
/// the stored type itself.
std::string elementTypeText(mlir::Type type);
/// `f32[32,16,14,14] aBcd16b`: for the comment beside a tensor.
std::string shapeText(mlir::Type type);

/// One constant of the generated source: where a tensor lies in a copy of its region.
struct PlaceConstant {
  std::string name;
  int64_t offset = 0;
  mlir::Type type;
  /// The ONNX tensor's name where there is one.
  std::string tensor;
};

/// The places of a program by region, in order of their offsets. One name stands for one offset in
/// a region; anything else is a bug in name-values or assign-homes and throws Error.
class Places {
public:
  explicit Places(ir::ProgramOp program);

  void print(llvm::raw_ostream &os) const;
  /// `slots_0::relu1`.
  static std::string spell(llvm::StringRef region, llvm::StringRef name);
  /// `kSlots0`, the region's index in the table of regions.
  static std::string regionIndex(llvm::StringRef region);

private:
  void add(ir::HomeAttr home, llvm::StringRef name, mlir::Type type, llvm::StringRef tensor);

  std::vector<std::string> regions; ///< in the order of the program's list
  std::map<std::string, std::map<std::string, PlaceConstant>> constants;
};

/// The text of a mandatory string attribute; throws Error naming the operation when the pass that
/// sets it has not run.
llvm::StringRef requireText(mlir::Operation *op, llvm::StringRef attribute);
/// The home of a memory or of a unit's result; throws Error when assign-homes has not run.
ir::HomeAttr requireHome(ir::MemoryOp memory);
ir::HomeAttr requireHome(ir::UnitOp unit, unsigned result);
/// The C++ name of a unit's result.
llvm::StringRef resultName(ir::UnitOp unit, unsigned result);

} // namespace pdc
