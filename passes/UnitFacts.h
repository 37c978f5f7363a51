#pragma once

#include "compiler/devices/Device.h"
#include "compiler/ir/Conversion.h"

#include <deque>

namespace pdc {

/// Nodes of one unit as compiler/devices sees them. Owns everything its view points to. Constants
/// that the nodes read stand before them in the view; other values from outside are its operands.
class UnitFacts {
public:
  /// A unit as it stands, operands in its own order and layouts.
  explicit UnitFacts(ir::UnitOp unit);
  /// Nodes that are no unit yet. `candidate`, if there is one, is not a node of the view, but what
  /// it reads is there, so that `describe` can name it.
  explicit UnitFacts(mlir::ArrayRef<ir::NodeOp> nodes, ir::NodeOp candidate = {});
  UnitFacts(const UnitFacts &) = delete;

  const UnitView &view() const { return unit; }
  UnitNode describe(ir::NodeOp node);

private:
  void addConstants(ir::NodeOp node);
  void add(ir::NodeOp node);
  UnitValue find(mlir::Value value);

  std::string name;
  UnitView unit;
  std::deque<Attributes> attributes;
  llvm::DenseMap<mlir::Value, UnitValue> known;
};

} // namespace pdc
