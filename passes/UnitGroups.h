#pragma once

#include "compiler/devices/Device.h"
#include "passes/Nodes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace pdc {

/// Nodes that will be one unit, in order of execution.
struct Group {
  llvm::SmallVector<ir::NodeOp> nodes;
  ir::Phase phase;
  ir::Rate rate;
  /// Node names joined, and the forward unit that this one is planned with.
  std::string name, origin;
};

/// Which unit of @train each of its nodes became part of, and where that unit stands.
struct UnitOrigins {
  struct Unit {
    std::string name;
    int position = 0;
  };
  llvm::StringMap<Unit> ofNode;
};

/// Decides which nodes of a function become one unit.
class UnitGroups {
public:
  UnitGroups(mlir::func::FuncOp function, UnitOrigins &origins, const DeviceOptions &options);
  /// Reports at the node that is wrong.
  mlir::LogicalResult form();
  /// In the order in which their units shall stand.
  llvm::ArrayRef<Group> inOrder() const { return ordered; }

private:
  bool isUnitNode(mlir::Operation *op);
  void place(ir::NodeOp node);
  bool append(ir::NodeOp node);
  bool append(ir::NodeOp node, int target);
  static bool isReader(mlir::Value value, ir::NodeOp node);
  void absorb(ir::NodeOp last);
  bool canRemake(mlir::Value value, ir::NodeOp reader);
  void remake(mlir::Value value, ir::NodeOp reader);
  void prepend(ir::NodeOp hero);
  bool arePlannedTogether(ir::NodeOp a, ir::NodeOp b);
  bool canWaitFor(const Group &group, ir::NodeOp node);
  std::string plannedWith(ir::NodeOp node);
  mlir::LogicalResult checkOrigins();
  void finish();
  std::string originOf(const Group &group, int depth = 0);
  std::string originOfReaders(const Group &prepared, int depth);
  void recordUnits();
  void findEvaluationOrigins();
  void planWithLatest(ir::NodeOp node, llvm::ArrayRef<mlir::Operation *> neighbours);

  mlir::func::FuncOp function;
  NodeNames names;
  UnitOrigins &origins;
  const DeviceOptions &options;
  bool isTrain;
  llvm::SmallVector<Group> groups;
  llvm::SmallVector<Group> ordered;
  llvm::DenseMap<mlir::Operation *, int> groupOf;
  llvm::StringMap<ir::NodeOp> nodeNamed;
  llvm::StringMap<llvm::SmallVector<ir::WeightVersionOp>> readsOf; ///< by memory
  /// @evaluate: the unit of @train that each node is planned with.
  llvm::StringMap<UnitOrigins::Unit> plannedUnit;
};

} // namespace pdc
