#include "passes/RowStep.h"

#include "compiler/operators/Rules.h"

#include <algorithm>
#include <deque>

/// Numbers that count rows of which data select some: they come of Shape and Size, which are known
/// as if all were selected.

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

std::vector<NodeValue> RowStep::countRows() {
  const RowSelection selected = rows();
  const TensorType &x = view.input(0);
  Tensor factors = Tensor::zeros(typeOfResult());
  const int64_t rank = x.rank(), start = view.attributes.integer("start", 0);
  const int64_t place =
      selected.axis - std::clamp<int64_t>(start < 0 ? start + rank : start, 0, rank);
  if (view.op == "Size")
    factors.data[0] = static_cast<double>(x.elementCount() / selected.count);
  else if (place >= 0 && place < static_cast<int64_t>(factors.data.size()))
    factors.data[static_cast<size_t>(place)] = static_cast<double>(selected.inner);
  count(selected, std::move(factors));
  return {};
}

void RowStep::count(const RowSelection &selected, Tensor factors) {
  if (std::ranges::any_of(factors.data, [](double factor) { return factor != 0; }))
    all.counts[node.getResult(0)] = {selected, std::move(factors)};
}

const RowCount *RowStep::countIn(size_t operand) const {
  auto found = all.counts.find(node.getOperand(operand));
  return found == all.counts.end() ? nullptr : &found->second;
}

std::vector<NodeValue> RowStep::followCounts() {
  size_t first = 0;
  while (!countIn(first))
    ++first;
  const RowCount from = *countIn(first);
  const std::string_view op = view.op;
  static constexpr std::string_view moving[] = {"Concat",  "Gather", "Identity", "Mul",
                                                "Reshape", "Slice",  "Squeeze",  "Unsqueeze"};
  if (op == "Reshape" && countIn(1) && rowsOf(0)) {
    keep(reshapedRows());
    return {};
  }
  if ((op == "Expand" && countIn(1)) || op == "ConstantOfShape") {
    keepShape(from);
    return {};
  }
  if (op == "Slice" && countIn(2) && rowsOf(0)) {
    keep(slicedToEnd(from));
    return {};
  }
  const ElementType made = typeOfResult().element;
  if (op == "Cast" && isFloatingPoint(made))
    return {counted(from, typeOfResult())};
  const bool isWhole = made == ElementType::i64 || made == ElementType::i32;
  if (op == "Add" && isWhole)
    count(withMore(from), integersOf(typeOfResult().shape, {1}));
  else if (op == "ReduceProd" && !view.hasInput(1))
    count(from.rows, factorOfProduct(from));
  else if ((std::ranges::count(moving, op) > 0 || op == "Cast") && isWhole &&
           (first == 0 || op == "Concat" || op == "Mul"))
    count(from.rows, movedFactors(from));
  else
    refuseRows(node, from.rows, "computes with the number of");
  return {};
}

/// As many rows, and behind them as many more as are added, as where a Concat puts them there.
RowSelection RowStep::withMore(const RowCount &from) {
  const size_t other = countIn(0) ? 1 : 0;
  const std::optional<Tensor> more = constantOf(node.getOperand(other));
  const bool isNumber = typeOfResult().elementCount() == 1 && more && !countIn(other);
  if (!isNumber || from.factors.data[0] != 1 || from.rows.inner != 1 || more->data[0] < 1)
    refuseRows(node, from.rows, "computes with the number of");
  std::vector<NodeValue> parts;
  appendFlags(from.rows, parts);
  parts.push_back(allRows(static_cast<int64_t>(more->data[0])));
  return joined(parts);
}

/// What is made in the shape of selected rows is as many rows.
void RowStep::keepShape(const RowCount &from) {
  const std::vector<double> &factors = from.factors.data;
  const auto isCount = [](double factor) { return factor != 0; };
  if (std::ranges::count_if(factors, isCount) != 1)
    refuseRows(node, from.rows, "combines each with each of");
  const auto found = std::ranges::find_if(factors, isCount);
  RowSelection result = from.rows;
  result.axis = typeOfResult().rank() - (factors.end() - found);
  result.inner = static_cast<int64_t>(*found);
  if (const RowSelection *data = rowsOf(0)) {
    const RowSelection kept = aligned();
    if (kept.axis != result.axis || !haveSameMask(*data, result))
      refuseRows(node, from.rows, "combines each with each of");
  }
  keep(result);
}

/// Of as many rows as there are selected: all of them, as PyTorch's older exporter writes what a
/// scatter puts.
RowSelection RowStep::slicedToEnd(const RowCount &from) const {
  const RowSelection result = rows();
  RowSelection counted = from.rows;
  std::vector<int64_t> starts = knownIntegers(view, 1), axes(starts.size());
  for (size_t i = 0; i < axes.size(); ++i)
    axes[i] = static_cast<int64_t>(i);
  if (view.hasInput(3))
    axes = axesFromStart(view, knownIntegers(view, 3), rankOf(0));
  bool isWhole = !countIn(1) && typeOfResult() == view.input(0) && takesInOrder(result.axis);
  for (size_t i = 0; i < axes.size(); ++i) {
    counted.inner = static_cast<int64_t>(from.factors.data[i]);
    const bool isOfRows = axes[i] == result.axis && haveSameMask(result, counted);
    isWhole = isWhole && (isOfRows ? starts[i] == 0 : counted.inner == 0 && axes[i] != result.axis);
  }
  if (!isWhole)
    refuse("takes some by their places of");
  return result;
}

/// By the node itself, done with the factors.
Tensor RowStep::movedFactors(const RowCount &from) const {
  std::deque<Tensor> values;
  std::vector<const Tensor *> inputs;
  size_t scaled = 0;
  for (size_t i = 0; i < node.getNumOperands(); ++i) {
    std::optional<Tensor> value = constantOf(node.getOperand(i));
    if (const RowCount *mine = countIn(i)) {
      RowSelection others = mine->rows;
      others.inner = from.rows.inner;
      if (!haveSameMask(from.rows, others))
        refuseRows(node, from.rows, "computes, by two masks, with the number of");
      value = mine->factors;
      ++scaled;
    } else if (value && view.op == "Concat") {
      std::ranges::fill(value->data, 0);
    }
    const bool isUnknown = !value && !isa<NoneType>(node.getOperand(i).getType());
    if (isUnknown || (scaled > 1 && view.op != "Concat"))
      refuseRows(node, from.rows, "computes with the number of");
    inputs.push_back(value ? &values.emplace_back(std::move(*value)) : nullptr);
  }
  return facts.rules().evaluate(view, inputs).at(0);
}

/// Of all elements, of which one counts rows.
Tensor RowStep::factorOfProduct(const RowCount &from) const {
  const Tensor value = *constantOf(node.getOperand(0));
  Tensor factor = Tensor::zeros(typeOfResult());
  factor.data[0] = 1;
  size_t scaled = 0;
  for (size_t i = 0; i < value.data.size(); ++i) {
    const bool isCount = from.factors.data[i] != 0;
    factor.data[0] *= isCount ? from.factors.data[i] : value.data[i];
    scaled += isCount ? 1 : 0;
  }
  if (scaled != 1)
    refuseRows(node, from.rows, "computes with the number of");
  return factor;
}

/// The number itself, where the program runs.
NodeValue RowStep::counted(const RowCount &from, const TensorType &type) {
  Tensor factors = from.factors, others = *constantOf(node.getOperand(0));
  for (size_t i = 0; i < factors.data.size(); ++i)
    others.data[i] = factors.data[i] != 0 ? 0 : others.data[i];
  factors.type.element = others.type.element = ElementType::f32;
  RowSelection each = from.rows;
  each.axis = 0, each.inner = 1;
  NodeValue number =
      add(b, "Add", {add(b, "Mul", {countOf(each), b.constant(factors)}), b.constant(others)});
  return type.element == ElementType::f32
             ? number
             : add(b, "Cast", {number}, {{"to", onnxType(type.element)}});
}

} // namespace pdc
