#include "passes/AttentionHeads.h"

#include "compiler/operators/Rules.h"

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

using Sizes = DimensionFactors::Sizes;

/// Follows a value back through what only moves or scales its elements.
class RowsBehind {
public:
  RowsBehind(Value value, const DimensionFactors &factors, bool sharesHeads)
      : value(value), factors(factors), sharesHeads(sharesHeads) {}

  std::optional<HeadedRows> find() {
    std::optional<HeadedRows> found;
    if (llvm::is_contained(factors.sizes(), 0))
      return found;
    do {
      std::optional<HeadedRows> here = readable();
      if (here && (!found || hasMoved || (here->isAsItIs() && !found->isAsItIs())))
        found = here, hasMoved = false;
    } while (passScale() || passTransposition() || passView() || passRepetition());
    return found;
  }

private:
  /// Where sizes of 1 leave a choice, as the value's own shape has it, or rows before heads.
  std::optional<HeadedRows> readable() const {
    std::optional<HeadedRows> found;
    for (int64_t rowsFirst : {1, 0, 2})
      if (factors.lieAs(kAttentionOrders[rowsFirst]))
        if (HeadedRows rows{value, rowsFirst, scale, factors.sizes()}; !found || rows.isAsItIs())
          found = rows;
    return found;
  }

  bool passScale() {
    NodeOp node = value.getDefiningOp<NodeOp>();
    if (!node || (node.getOp() != "Mul" && node.getOp() != "Div"))
      return false;
    for (int i : {0, 1}) {
      std::optional<double> number = numberOf(node.getOperand(i));
      const bool divides = node.getOp() == "Div";
      if (!number || (divides && i == 0) || node.getOperand(1 - i).getType() != value.getType())
        continue;
      scale = divides ? scale / *number : scale * *number;
      value = node.getOperand(1 - i);
      return hasMoved = true;
    }
    return false;
  }

  bool passTransposition() {
    NodeOp node = maker(value, "Transpose");
    if (!node)
      return false;
    factors.passTransposition(permutationOf(node));
    value = node.getOperand(0);
    return hasMoved = true;
  }

  bool passView() {
    auto node = value.getDefiningOp<NodeOp>();
    if (!isViewNode(node) || shapeOf(node.getOperand(0)).empty() ||
        !factors.passView(shapeOf(node.getOperand(0))))
      return false;
    value = node.getOperand(0);
    return true;
  }

  /// A head that serves several.
  bool passRepetition() {
    NodeOp node = sharesHeads ? maker(value, "Expand") : NodeOp();
    if (!node || !factors.passRepetition(shapeOf(node.getOperand(0)), kHeads))
      return false;
    value = node.getOperand(0);
    return hasMoved = true;
  }

  Value value;
  DimensionFactors factors;
  bool sharesHeads;
  bool hasMoved = false; ///< other than as a view, since something was found
  double scale = 1;
};

/// How a product's operand or result of that shape lies. One that has a matrix for each head may
/// have other dimensions than [batch, heads]; one that heads or samples share has these.
std::optional<DimensionFactors> factorsOf(ArrayRef<int64_t> shape, const ScoreHeads &heads,
                                          bool isTurned) {
  SmallVector<int64_t, 4> dimensions = {kBatch, kHeads, kRows, kWidth};
  Sizes sizes = {heads.batch, heads.heads, shape.end()[-2], shape.back()};
  if (isTurned) {
    std::swap(dimensions[kRows], dimensions[kWidth]);
    std::swap(sizes[kRows], sizes[kWidth]);
  }
  ArrayRef<int64_t> leading = shape.drop_back(2);
  if (product(leading.vec()) == heads.all()) {
    DimensionFactors factors(sizes, dimensions);
    return factors.passView(shape) ? std::optional(factors) : std::nullopt;
  }
  if (leading.size() > 2)
    return std::nullopt;
  const std::array<int64_t, 2> all = {heads.batch, heads.heads};
  sizes[kBatch] = sizes[kHeads] = 1;
  for (auto [of, size, whole] :
       llvm::zip_equal(MutableArrayRef<int64_t>(sizes).take_front(2).take_back(leading.size()),
                       leading, ArrayRef<int64_t>(all).take_back(leading.size()))) {
    if (size != 1 && size != whole)
      return std::nullopt;
    of = size;
  }
  dimensions.erase(dimensions.begin(), dimensions.end() - int64_t(shape.size()));
  return DimensionFactors(sizes, dimensions);
}

bool areAllOne(ArrayRef<int64_t> sizes) {
  return llvm::all_of(sizes, [](int64_t size) { return size == 1; });
}

/// Repeats what has these sizes in dimensions of `whole`, unless it is one for all: it then has all
/// of its own, or, where those are taken in turn, all of those behind its first.
void repeatWhole(MutableArrayRef<int64_t> own, ArrayRef<int64_t> whole, bool inTurn) {
  if (areAllOne(own))
    return;
  size_t first = 0;
  while (inTurn && own[first] == 1)
    ++first;
  llvm::copy(whole.drop_front(first), own.begin() + int64_t(first));
}

} // namespace

namespace pdc {

std::vector<int64_t> inOrder(ArrayRef<int64_t> sizes, ArrayRef<int64_t> order) {
  std::vector<int64_t> shape;
  for (int64_t d : order)
    shape.push_back(sizes[static_cast<size_t>(d)]);
  return shape;
}

std::vector<int64_t> inFour(ArrayRef<int64_t> shape) {
  std::vector<int64_t> four(4 - shape.size(), 1);
  llvm::append_range(four, shape);
  return four;
}

ScoreHeads::ScoreHeads(ArrayRef<int64_t> leading)
    : batch(leading.empty() ? 1 : product(leading.drop_back().vec())),
      heads(leading.empty() ? 1 : leading.back()) {}

std::optional<ScoreHeads::Form> ScoreHeads::form(ArrayRef<int64_t> shape, ArrayRef<int64_t> scores,
                                                 bool inTurn) const {
  ArrayRef<int64_t> leading = scores.drop_back(2);
  Form form{std::vector<int64_t>(scores.size() - shape.size(), 1), {1, 1}};
  llvm::append_range(form.repeated, shape);
  const MutableArrayRef<int64_t> own = MutableArrayRef<int64_t>(form.repeated).drop_back(2);
  const bool isForAll = areAllOne(own);
  if ((isForAll && leading.size() <= 2) || leading == ArrayRef{heads} ||
      leading == ArrayRef{batch, heads})
    return Form{shape.vec(), shape.vec()};
  // Those of samples stand before those of heads, unless one dimension is both.
  size_t ofSamples = 0;
  while (ofSamples < leading.size() && product(leading.drop_front(ofSamples).vec()) != heads)
    ++ofSamples;
  const auto samples = own.take_front(ofSamples), rest = own.drop_front(ofSamples);
  if (product(leading.drop_front(ofSamples).vec()) == heads) {
    repeatWhole(samples, leading.take_front(ofSamples), inTurn);
    repeatWhole(rest, leading.drop_front(ofSamples), false);
    form.viewed = {product(samples.vec()), product(rest.vec())};
  } else if (own == leading) {
    form.viewed = {batch, heads};
  } else if (!isForAll) {
    return std::nullopt;
  }
  llvm::append_range(form.viewed, ArrayRef(form.repeated).take_back(2));
  return form;
}

Value ScoreHeads::broadcast(NodeOp root, StringRef suffix, Value value, ArrayRef<int64_t> scores,
                            bool inTurn, NodeNames &names) const {
  const Form form = *this->form(shapeOf(value), scores, inTurn);
  OpBuilder builder(root);
  if (product(form.repeated) != product(shapeOf(value).vec())) {
    const std::string name = names.unique((root.getName() + suffix + "/repeated").str());
    Value shape = createNode(builder, root.getLoc(), "Constant", names.unique(name + "/shape"), {},
                             {{"value", pdc::Tensor::vector(form.repeated)}})
                      ->getResult(0);
    value = createNode(builder, root.getLoc(), "Expand", name, {value, shape}, {})->getResult(0);
  }
  return inShape(builder, root, suffix, value, form.viewed, names);
}

std::vector<int64_t> HeadedRows::shape() const {
  return inOrder(sizes, kAttentionOrders[rowsFirst]);
}

std::optional<HeadedRows> headedRowsBehind(Value operand, const ScoreHeads &heads, bool isTurned,
                                           bool sharesHeads) {
  const std::optional<DimensionFactors> factors = factorsOf(shapeOf(operand), heads, isTurned);
  return factors ? RowsBehind(operand, *factors, sharesHeads).find() : std::nullopt;
}

MixedValues MixedValues::behind(NodeOp root) {
  if (root.getOp() == "MatMul")
    return {root, {}};
  Value moved = root.getOperand(0);
  while (auto view = moved.getDefiningOp<NodeOp>()) {
    if (!isViewNode(view) || !moved.hasOneUse())
      break;
    moved = view.getOperand(0);
  }
  NodeOp product = moved.hasOneUse() ? maker(moved, "MatMul") : NodeOp();
  return {product, product ? root : NodeOp()};
}

std::optional<int64_t> MixedValues::order(const ScoreHeads &heads) const {
  if (!transposition)
    return 0;
  ArrayRef<int64_t> shape = shapeOf(NodeOp(product)->getResult(0));
  std::optional<DimensionFactors> factors = factorsOf(shape, heads, false);
  if (!factors || !factors->passView(shapeOf(NodeOp(transposition).getOperand(0))))
    return std::nullopt;
  factors->follow(permutationOf(transposition));
  for (int64_t rowsFirst : {1, 2})
    if (factors->lieAs(kAttentionOrders[rowsFirst]))
      return rowsFirst;
  return std::nullopt;
}

} // namespace pdc
