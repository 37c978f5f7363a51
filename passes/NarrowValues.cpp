#include "passes/Nodes.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"
#include "passes/Values.h"

#include "compiler/devices/Device.h"
#include "compiler/operators/Rules.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <cmath>
#include <map>
#include <set>

namespace pdc {
#define GEN_PASS_DEF_NARROWVALUES
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// Narrows the values of one function, in its order.
class Narrowing {
public:
  Narrowing(func::FuncOp function, ElementType stored)
      : function(function), stored(stored), symbols(function->getParentOfType<ModuleOp>()),
        names(function) {}

  void run() {
    for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
      noteInputs(op);
      auto node = dyn_cast<NodeOp>(op);
      if (!node)
        widenOperands(&op, [](OpOperand &) { return false; });
      else if (!isConstant(node) && node.getOp() != "Cast")
        narrow(node);
    }
    // Gradients name the view that they come from.
    for (auto [view, shorter] : llvm::reverse(shortened))
      if (view.use_empty()) {
        shorter.setName(view.getName());
        view.erase();
      }
  }

private:
  void narrow(NodeOp node);
  bool needsRange(NodeOp node) const;
  bool needsDigits(NodeOp node) const;
  bool readsNumber(NodeOp node, llvm::function_ref<bool(double)> isOne) const;
  void noteInputs(Operation &op);
  bool isFused(OpOperand &operand);
  void widenOperands(Operation *op, llvm::function_ref<bool(OpOperand &)> except);
  Value narrowed(Value value);
  bool narrowView(Value value);
  bool isShortenedView(NodeOp view) const;
  Value widened(Value value, Operation *reader);
  Value cast(OpBuilder &builder, Value value, ElementType to, StringRef origin);

  bool has(Value value, ElementType element) const {
    return isa<RankedTensorType>(value.getType()) &&
           toTensorType(value.getType()).element == element;
  }

  func::FuncOp function;
  const ElementType stored;
  const SymbolTable symbols;
  NodeNames names;
  llvm::DenseMap<Value, Value> copies;
  SmallVector<std::pair<NodeOp, NodeOp>> shortened; ///< views, and those of short copies
  llvm::DenseSet<Value> ofInputs;                   ///< alone
  std::map<std::pair<void *, std::string>, Value> wide;
};

/// Kernels that take 16 bits get all of their operands so where they want that or where one of them
/// is; loops take what they find. What a node makes follows from its operator's rule.
void Narrowing::narrow(NodeOp node) {
  const NarrowKernel *kernel = findNarrowKernel(node.getOp());
  const bool mixes = takesAnyWidth(node.getOp()) && !needsRange(node);
  auto isTaken = [&](OpOperand &operand) {
    return mixes || (kernel && kernel->takes(operand.getOperandNumber()));
  };
  bool isNarrow = kernel && kernel->narrows;
  for (OpOperand &operand : node->getOpOperands())
    isNarrow |= isTaken(operand) && has(operand.get(), stored);
  isNarrow = isNarrow && !needsDigits(node);
  widenOperands(node, [&](OpOperand &operand) { return isNarrow && isTaken(operand); });
  if (!isNarrow)
    return;
  for (OpOperand &operand : node->getOpOperands())
    if (has(operand.get(), ElementType::f32) && isTaken(operand) && (!mixes || isFused(operand)))
      operand.set(narrowed(operand.get()));
  std::vector<pdc::TensorType> types = NodeFacts(node).infer();
  for (auto [number, result] : llvm::enumerate(node->getResults()))
    result.setType(toMlir(node.getContext(), types[number]));
}

/// Whether its loop stays f32: those that PyTorch's autocast keeps there, for range or digits,
/// under fp16 squares too, any with a finite constant that would be stored as infinity, as one that
/// masks, and what adds or picks numbers that are made of the inputs alone, which may mask as well.
bool Narrowing::needsRange(NodeOp node) const {
  static const std::set<StringRef> wide = {
      "Exp",        "Log",        "LogAtLeast",     "LogAtLeastGrad",
      "Softplus",   "Pow",        "PowGrad",        "PowExponentGrad",
      "WholePower", "Reciprocal", "ReciprocalGrad", "Tan",
      "Acos",       "Asin",       "Cosh",           "Sinh"};
  const bool isSquare = node.getOp() == "Mul" && node->getNumOperands() == 2 &&
                        node->getOperand(0) == node->getOperand(1);
  if (wide.contains(node.getOp()) || (isSquare && stored == ElementType::f16))
    return true;
  static const std::set<StringRef> masking = {"Add", "Sub", "Where"};
  if (masking.contains(node.getOp()) && llvm::any_of(node->getOperands(), [&](Value operand) {
        return has(operand, ElementType::f32) && ofInputs.contains(operand);
      }))
    return true;
  const double infinite = stored == ElementType::f16 ? 65520 : 0x1.ffp127;
  return readsNumber(
      node, [&](double value) { return std::isfinite(value) && std::abs(value) >= infinite; });
}

/// Whether it is a product with numbers that 16 bits would round, such as the sines of a Fourier
/// transform, whose sums have as many digits as these.
bool Narrowing::needsDigits(NodeOp node) const {
  static const std::set<StringRef> products = {"MatMul", "FusedMatMul", "Gemm"};
  const llvm::fltSemantics &format =
      stored == ElementType::f16 ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat();
  auto isRounded = [&](double value) {
    bool loses = false;
    llvm::APFloat number(value);
    number.convert(format, llvm::APFloat::rmNearestTiesToEven, &loses);
    return loses;
  };
  return products.contains(node.getOp()) && readsNumber(node, isRounded);
}

/// Whether one of the f32 constants that it reads holds such a number.
bool Narrowing::readsNumber(NodeOp node, llvm::function_ref<bool(double)> isOne) const {
  return llvm::any_of(node->getOperands(), [&](Value operand) {
    return has(operand, ElementType::f32) && isConstant(operand.getDefiningOp()) &&
           llvm::any_of(constantOf(operand)->data, isOne);
  });
}

/// What comes from inputs and constants alone; nobody knows how large it is.
void Narrowing::noteInputs(Operation &op) {
  bool isOfInputs = false;
  if (auto read = dyn_cast<ReadOp>(op)) {
    auto memory = symbols.lookup<MemoryOp>(read.getMemory());
    isOfInputs = memory && memory.getRole() == Role::Input;
  } else if (isa<NodeOp>(op)) {
    auto comesFromThem = [&](Value operand) { return ofInputs.contains(operand); };
    isOfInputs = llvm::any_of(op.getOperands(), comesFromThem) &&
                 llvm::all_of(op.getOperands(), [&](Value operand) {
                   return comesFromThem(operand) || !isa<RankedTensorType>(operand.getType()) ||
                          isConstant(operand.getDefiningOp());
                 });
  }
  if (isOfInputs)
    ofInputs.insert(op.result_begin(), op.result_end());
}

/// What a product's or a normalisation's kernel computes too has its type: a bias behind, a relu's
/// gradient in front. What was stored, as the larger of two, is compared with what it was made of
/// as that would have been stored.
bool Narrowing::isFused(OpOperand &operand) {
  auto add = dyn_cast<NodeOp>(operand.getOwner());
  if (add.getOp() == "ReluGrad" || add.getOp() == "Equal")
    return true;
  if (add.getOp() != "Add" || toTensorType(operand.get().getType()).rank() != 1)
    return false;
  auto other = add.getOperand(1 - operand.getOperandNumber()).getDefiningOp<NodeOp>();
  return other && (other.getOp() == "MatMul" || other.getOp() == "FusedMatMul") &&
         other->getResult(0).hasOneUse();
}

/// All but those for which `except` is true.
void Narrowing::widenOperands(Operation *op, llvm::function_ref<bool(OpOperand &)> except) {
  for (OpOperand &operand : op->getOpOperands())
    if (has(operand.get(), stored) && !except(operand))
      operand.set(widened(operand.get(), op));
}

static StringRef originOf(Operation *op) {
  auto node = dyn_cast_or_null<NodeOp>(op);
  return node && node.getOrigin() ? *node.getOrigin() : StringRef();
}

/// Whether all that reads it, through views as well, brings it to 16 bits or is a sum beside such.
static bool isReadNarrow(Value value) {
  return llvm::all_of(value.getUses(), [](OpOperand &use) {
    if (isViewNode(use.getOwner()))
      return use.getOperandNumber() == 0 && isReadNarrow(use.getOwner()->getResult(0));
    auto reader = dyn_cast<NodeOp>(use.getOwner());
    const NarrowKernel *kernel = reader ? findNarrowKernel(reader.getOp()) : nullptr;
    return kernel && (kernel->narrows || reader.getOp() == "ReduceSum") &&
           kernel->takes(use.getOperandNumber());
  });
}

/// Views of a value that has become shorter, some of which were visited before.
static void retypeViews(Value value) {
  for (Operation *user : value.getUsers())
    if (isViewNode(user) && user->getOperand(0) == value) {
      Value view = user->getResult(0);
      view.setType(toMlir(view.getContext(), NodeFacts(llvm::cast<NodeOp>(user)).infer()[0]));
      retypeViews(view);
    }
}

/// A view that nothing needs in f32 is one of 16 bits, so that what makes its operand may write
/// them: the gradient of scores, for the products and the bias that made them.
bool Narrowing::narrowView(Value value) {
  auto view = value.getDefiningOp<NodeOp>();
  if (!isShortenedView(view) || !isReadNarrow(value))
    return false;
  view->setOperand(0, narrowed(view->getOperand(0)));
  value.setType(toMlir(value.getContext(), NodeFacts(view).infer()[0]));
  retypeViews(value);
  return true;
}

/// Whether what the node makes is what it reads in f32 from another node, under another shape.
bool Narrowing::isShortenedView(NodeOp view) const {
  return isViewNode(view) && view->getOperand(0).getDefiningOp<NodeOp>() &&
         has(view->getOperand(0), ElementType::f32);
}

/// The short copy of a value, made where the value is; of a view, which is read in full as well, a
/// view of the short copy.
Value Narrowing::narrowed(Value value) {
  if (narrowView(value))
    return value;
  if (Value known = copies.lookup(value))
    return known;
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfterValue(value);
  auto view = value.getDefiningOp<NodeOp>();
  Value copy;
  if (isShortenedView(view)) {
    auto shorter = llvm::cast<NodeOp>(builder.clone(*view));
    shorter->setOperand(0, narrowed(view->getOperand(0)));
    shorter.setName(names.unique(view.getName() + "/" + llvm::StringRef(toString(stored))));
    shorter->getResult(0).setType(toMlir(value.getContext(), NodeFacts(shorter).infer()[0]));
    shortened.push_back({view, shorter});
    copy = shorter->getResult(0);
  } else {
    copy = cast(builder, value, stored, originOf(view));
  }
  return copies[value] = copy;
}

/// In f32, once for all readers that come from one forward node. For kernels that could do it
/// themselves once for all of them, since what makes the value may do it as well; but of a view,
/// which no kernel makes in f32, for each.
Value Narrowing::widened(Value value, Operation *reader) {
  StringRef origin = originOf(isa<NodeOp>(reader) ? reader : value.getDefiningOp());
  OpBuilder builder(reader);
  if (auto node = dyn_cast<NodeOp>(reader); node && widensItself(node.getOp())) {
    if (isViewNode(value.getDefiningOp()))
      return cast(builder, value, ElementType::f32, origin);
    origin = originOf(value.getDefiningOp());
  }
  Value &copy = wide[{value.getAsOpaquePointer(), origin.str()}];
  if (!copy)
    copy = cast(builder, value, ElementType::f32, origin);
  return copy;
}

static std::string nameOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto node = dyn_cast<NodeOp>(op))
    return node.getName().str();
  return op->getAttrOfType<FlatSymbolRefAttr>("memory").getValue().str();
}

Value Narrowing::cast(OpBuilder &builder, Value value, ElementType to, StringRef origin) {
  std::string name = names.unique(nameOf(value) + "/" + std::string(toString(to)));
  return createNode(builder, value.getLoc(), "Cast", name, value, {{"to", onnxType(to)}}, origin)
      .getResult(0);
}

struct NarrowValues : pdc::impl::NarrowValuesBase<NarrowValues> {
  using NarrowValuesBase::NarrowValuesBase;

  void runOnOperation() override {
    auto narrow = [&] {
      const ElementType stored = storedElement(precisionNamed(precision));
      if (stored != ElementType::f32)
        for (auto function : getOperation().getOps<func::FuncOp>())
          Narrowing(function, stored).run();
      return success();
    };
    if (failed(runChecked(getOperation(), narrow)))
      signalPassFailure();
  }
};

} // namespace
