#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

#include <algorithm>

/// pdc.MaskedScatter: the data with others in the places of a mask, row by row, as torch's
/// masked_scatter and `data[mask] = value` have it and exporters write by places that NonZero
/// finds.
namespace pdc {

namespace {

enum MaskedInput : size_t { kData, kMask, kSource, kCompact };

class MaskedScatter {
public:
  explicit MaskedScatter(CompositionBuilder &b) : b(b), data(b.type(b.input(kData))) {
    const TensorType given = b.type(b.input(kMask));
    if (given.rank() > data.rank() ||
        !std::equal(given.shape.begin(), given.shape.end(), data.shape.begin()))
      b.refuse("mask " + given.toString() + ", expected one of the leading dimensions of " +
               data.toString());
    NodeValue compact = b.input(kCompact);
    mask = compact && b.type(compact).rank() == given.rank() ? compact : b.input(kMask);
    shape = b.type(mask).shape;
    if (given.element != ElementType::boolean)
      mask = add(b, "Cast", {mask}, {{"to", onnxType(ElementType::boolean)}});
    shape.resize(data.shape.size(), 1);
    lead = data.rank();
    while (lead > 1 && shape[lead - 1] == 1)
      --lead;
  }

  NodeValue result() {
    if (data.elementCount() == 0)
      return add(b, "Identity", {b.input(kData)});
    const std::string kind = b.attributes().string("kind", "rows");
    NodeValue source = b.input(kSource);
    if (kind == "chosen" && b.type(source).shape != data.shape)
      b.refuse("source " + b.type(source).toString() + ", expected " + data.toString());
    if (kind == "repeated")
      source = repeatedRow(source);
    else if (kind == "rows")
      source = rowsOf(source);
    return add(b, "Where", {reshaped(b, mask, shape), source, b.input(kData)});
  }

private:
  /// One that stands at all places; where there is one for each, those.
  NodeValue repeatedRow(NodeValue source) {
    std::vector<int64_t> row = b.type(source).shape;
    while (!row.empty() && row.front() == 1)
      row.erase(row.begin());
    const int64_t inner = data.rank() - lead, rank = static_cast<int64_t>(row.size());
    auto fits = [&](int64_t i) {
      return row[i] == 1 || row[i] == data.shape[data.rank() - rank + i];
    };
    bool isRow = rank <= inner;
    for (int64_t i = 0; i < rank && isRow; ++i)
      isRow = fits(i);
    if (isRow)
      return reshaped(b, source, row);
    // Of several, each may be one number for its whole row.
    std::vector<int64_t> whole = row;
    for (int64_t i = std::max<int64_t>(0, rank - inner); i < rank; ++i)
      if (row[i] == 1)
        whole[i] = data.shape[data.rank() - rank + i];
    if (whole != row)
      source = add(b, "Expand", {reshaped(b, source, row), b.constant(Tensor::vector(whole))});
    return rowsOf(source);
  }

  /// By the number of places before each one, which are counted within the last of the dimensions
  /// that the mask has, and then among the others. Places beyond the rows are indices outside.
  NodeValue rowsOf(NodeValue source) {
    if (b.type(source).elementCount() % product(data.shape, lead) != 0)
      lead = data.rank();
    // Each place counts, also those that the mask was repeated for.
    std::vector<int64_t> counted = data.shape;
    std::fill(counted.begin() + lead, counted.end(), 1);
    if (shape != counted)
      mask = add(b, "Expand", {reshaped(b, mask, shape), b.constant(Tensor::vector(counted))});
    shape = counted;
    const int64_t inner = product(data.shape, lead), places = product(shape, 0, lead),
                  line = lead ? shape[lead - 1] : 1;
    auto sum = [&](NodeValue x, int64_t axis, int64_t exclusive) {
      return add(b, "CumSum", {x, number(b, ElementType::i64, static_cast<double>(axis))},
                 {{"exclusive", exclusive}});
    };
    NodeValue lines = reshaped(b, mask, {places / line, line});
    NodeValue within = sum(add(b, "Cast", {lines}, {{"to", onnxType(ElementType::i64)}}), 1, 0);
    NodeValue totals = add(b, "Slice",
                           {within, b.constant(Tensor::vector({line - 1})),
                            b.constant(Tensor::vector({line})), b.constant(Tensor::vector({1}))});
    NodeValue upTo = add(b, "Add", {within, sum(totals, 0, 1)});
    NodeValue indices = add(b, "Where",
                            {lines, add(b, "Sub", {upTo, number(b, ElementType::i64, 1)}),
                             number(b, ElementType::i64, 0)});
    const int64_t rows = b.type(source).elementCount() / inner;
    NodeValue found =
        add(b, "Gather", {reshaped(b, source, {rows, inner}), reshaped(b, indices, {places})},
            {{"axis", int64_t(0)}});
    return reshaped(b, found, data.shape);
  }

  CompositionBuilder &b;
  const TensorType data;
  NodeValue mask;
  std::vector<int64_t> shape; ///< of the mask, ones for what it has not
  int64_t lead = 0; ///< dimensions; behind them lie rows that have one element of the mask
};

std::vector<NodeValue> composeMaskedScatter(CompositionBuilder &b) {
  return {MaskedScatter(b).result()};
}

} // namespace

std::span<const ComposedOperator> maskedForms() {
  static const ComposedOperator operators[] = {
      {{.name = "pdc.MaskedScatter",
        .firstOpset = 1,
        .lastOpset = 1,
        .inputs = {{"data"}, {"mask"}, {"source"}, {.name = "compact", .optional = true}},
        .outputs = {{"output"}}},
       composeMaskedScatter},
  };
  return operators;
}

} // namespace pdc
