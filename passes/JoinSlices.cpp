#include "passes/Composites.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"
#include "passes/Values.h"

#include "compiler/operators/Slice.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

#include <optional>

namespace pdc {
#define GEN_PASS_DEF_JOINSLICES
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// What a node takes of its operand: `size` elements from `start` of one dimension, all of the
/// others.
struct Part {
  NodeOp node;
  int64_t axis, start, size;
};

std::optional<Part> partOfSlice(NodeOp slice) {
  const NodeFacts facts(slice);
  const std::vector<int64_t> &shape = facts.view().input(0).shape;
  const SliceRange range = resolveSlice(facts.view(), shape, 1);
  std::optional<Part> part;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (range.step[d] != 1 || (part && range.count[d] != shape[d]))
      return std::nullopt;
    if (range.count[d] != shape[d])
      part = {slice, static_cast<int64_t>(d), range.start[d], range.count[d]};
  }
  return part;
}

/// A Gather of one constant index, which may do without the dimension.
std::optional<Part> partOfGather(NodeOp gather) {
  const NodeFacts facts(gather);
  const pdc::Tensor *index = facts.view().constant(1);
  if (!index || index->data.size() != 1)
    return std::nullopt;
  const std::vector<int64_t> &shape = facts.view().input(0).shape;
  const int64_t axis = axisOf(gather);
  const auto start = static_cast<int64_t>(index->data[0]);
  return Part{gather, axis, start < 0 ? start + shape[static_cast<size_t>(axis)] : start, 1};
}

std::optional<Part> partOf(NodeOp node) {
  if (!node.getOrigin().value_or("").empty())
    return std::nullopt;
  return node.getOp() == "Slice"    ? partOfSlice(node)
         : node.getOp() == "Gather" ? partOfGather(node)
                                    : std::nullopt;
}

using Parts = SmallVector<Part>;

/// The sizes of parts in the order in which they lie, where they are several and what one leaves
/// out others take; else none. Some may be there twice.
std::vector<int64_t> sizesOf(const Parts &parts, int64_t whole) {
  std::vector<int64_t> sizes;
  int64_t end = 0, start = 0; // of the part before
  for (const Part &part : parts) {
    if (!sizes.empty() && part.start == start && part.size == sizes.back())
      continue;
    if (part.start != end)
      return {};
    start = part.start, end = part.start + part.size;
    sizes.push_back(part.size);
  }
  return end == whole && sizes.size() > 1 ? sizes : std::vector<int64_t>();
}

/// Joins the slices of one function.
class SliceJoiner {
public:
  explicit SliceJoiner(func::FuncOp function)
      : function(function), symbols(function->getParentOfType<ModuleOp>()), names(function) {}

  void join() {
    llvm::MapVector<std::pair<Value, int64_t>, Parts> groups;
    for (Operation &op : function.getBody().front()) {
      auto node = dyn_cast<NodeOp>(op);
      if (isPreparedFrom(op))
        prepared.insert(op.result_begin(), op.result_end());
      // Empty ones divide nothing.
      if (std::optional<Part> part = node ? partOf(node) : std::nullopt; part && part->size > 0)
        groups[{node.getOperand(0), part->axis}].push_back(*part);
    }
    for (auto &[place, parts] : groups)
      joinGroup(place.second, parts);
  }

private:
  /// Whether what the operation makes changes with the weights alone.
  bool isPreparedFrom(Operation &op) const {
    if (isRead(&op))
      return symbols.lookup<MemoryOp>(memoryOf(&op).getAttr()).getRate() != Rate::Microbatch;
    auto isFixed = [&](Value value) {
      return prepared.contains(value) || isConstant(value.getDefiningOp()) ||
             value.getDefiningOp<AbsentOp>();
    };
    return isa<NodeOp>(op) && op.getNumOperands() > 0 && llvm::all_of(op.getOperands(), isFixed);
  }

  /// Layers of several stages may each take their own part of a weight: what is prepared is joined
  /// only where one node reads all parts.
  bool mayJoin(Value whole, const Parts &parts) const {
    llvm::SmallPtrSet<Operation *, 2> readers;
    for (const Part &part : parts)
      for (Operation *user : Operation::user_range(NodeOp(part.node)->getUsers()))
        readers.insert(user);
    return !prepared.contains(whole) || readers.size() == 1;
  }

  void joinGroup(int64_t axis, Parts &parts) {
    Part first = parts.front();             // in the block
    Value whole = first.node.getOperand(0); // itself a part, where a slice is sliced
    llvm::stable_sort(parts, [](const Part &a, const Part &b) {
      return std::pair(a.start, a.size) < std::pair(b.start, b.size);
    });
    const std::vector<int64_t> sizes = sizesOf(parts, shapeOf(whole)[static_cast<size_t>(axis)]);
    if (sizes.empty() || !mayJoin(whole, parts))
      return;
    OpBuilder builder(first.node);
    const std::string name = first.node.getName().str();
    const Location location = first.node.getLoc();
    NodeOp given = createNode(builder, location, "Constant", names.unique(name + "/sizes"), {},
                              {{"value", pdc::Tensor::vector(sizes)}});
    NodeOp split = createNode(builder, location, "Split", name, {whole, given->getResult(0)},
                              {{"axis", axis}}, "", sizes.size());
    if (prepared.contains(whole))
      prepared.insert(split->result_begin(), split->result_end());
    size_t number = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      number += i > 0 && parts[i].start != parts[i - 1].start;
      const bool isNamed = parts[i].node == first.node; // as the Split is now
      replace(parts[i].node, split->getResult(static_cast<unsigned>(number)),
              isNamed ? names.unique(name + "/part") : NodeOp(parts[i].node).getName().str());
    }
  }

  /// A node by the part that it took, in the node's shape.
  void replace(NodeOp node, Value part, const std::string &name) {
    Value result = node->getResult(0);
    if (part.getType() != result.getType()) {
      OpBuilder builder(node);
      part = reshaped(builder, node, name, part, toTensorType(result.getType()).shape, names);
    }
    if (prepared.erase(result))
      prepared.insert(part);
    result.replaceAllUsesWith(part);
    node.erase();
  }

  func::FuncOp function;
  SymbolTable symbols;
  NodeNames names;
  llvm::DenseSet<Value> prepared;
};

struct JoinSlices : pdc::impl::JoinSlicesBase<JoinSlices> {
  void runOnOperation() override {
    auto join = [&] {
      for (auto function : getOperation().getOps<func::FuncOp>())
        SliceJoiner(function).join();
      return success();
    };
    if (failed(runChecked(getOperation(), join)))
      signalPassFailure();
  }
};

} // namespace
