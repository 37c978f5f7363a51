#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

#include <limits>
#include <optional>

/// pdc.EmbeddingBag: sums, means or maxima over bags of a table's rows, as torch.nn.EmbeddingBag
/// has them and exporters write as a Loop over the bags. Bag i holds the rows that
/// indices[starts[i]] to before indices[ends[i]] name, without indices those of these numbers; one
/// without rows gives zeros.
namespace pdc {

namespace {

enum Input : size_t { kTable, kIndices, kStarts, kEnds, kCount, kWeights };

/// All bags of one size, one behind the other.
struct EvenBags {
  int64_t first = 0, size = 0;
};

class Bags {
public:
  explicit Bags(CompositionBuilder &b) : b(b), mode(b.attributes().string("mode", "sum")) {
    const std::vector<int64_t> counts = knownIntegers(b, kCount);
    if (mode != "sum" && mode != "mean" && mode != "max")
      b.refuse("mode '" + mode + "', expected sum, mean or max");
    const TensorType &table = b.type(b.input(kTable));
    const TensorType &found = b.input(kIndices) ? b.type(b.input(kIndices)) : table;
    if (table.rank() != 2 || (b.input(kIndices) && found.rank() != 1) || counts.size() != 1)
      b.refuse("table " + table.toString() + ", indices " + found.toString() + " and " +
               std::to_string(counts.size()) +
               " counts, expected a matrix, a vector and one number");
    count = counts[0], rows = found.shape[0];
    for (size_t bounds : {kStarts, kEnds})
      if (TensorType type = b.type(b.input(bounds));
          type.rank() != 1 || count < 1 || type.shape[0] < count)
        b.refuse(std::to_string(count) + " bags, " + type.toString() +
                 " of them begin or end, expected one bag at least and no fewer");
  }

  NodeValue reduced() const {
    if (std::optional<EvenBags> even = evenBags())
      return ofEven(*even);
    return mode == "max" ? maxima() : sums();
  }

private:
  std::optional<EvenBags> evenBags() const {
    const Tensor *starts = b.known(b.input(kStarts)), *ends = b.known(b.input(kEnds));
    if (!starts || !ends)
      return std::nullopt;
    const std::vector<int64_t> from = starts->toIntegers(), to = ends->toIntegers();
    const EvenBags bags{from[0], to[0] - from[0]};
    for (int64_t i = 0; i < count; ++i)
      if (from[i] != bags.first + i * bags.size || to[i] != from[i] + bags.size)
        return std::nullopt;
    if (bags.first < 0 || bags.size < 1 || bags.first + count * bags.size > rows)
      return std::nullopt;
    return bags;
  }

  NodeValue ofEven(EvenBags bags) const {
    auto inBags = [&](NodeValue values, std::vector<int64_t> shape) {
      const int64_t used = count * bags.size;
      if (used != rows)
        values = add(b, "Slice",
                     {values, b.constant(Tensor::vector({bags.first})),
                      b.constant(Tensor::vector({bags.first + used}))});
      return reshaped(b, values, shape);
    };
    NodeValue found =
        b.input(kIndices)
            ? add(b, "Gather", {b.input(kTable), inBags(b.input(kIndices), {count, bags.size})},
                  {{"axis", int64_t(0)}})
            : inBags(b.input(kTable), {count, bags.size, b.type(b.input(kTable)).shape[1]});
    if (NodeValue weights = b.input(kWeights))
      found = add(b, "Mul", {found, inBags(weights, {count, bags.size, 1})});
    const char *reduction = mode == "sum"    ? "ReduceSum"
                            : mode == "mean" ? "ReduceMean"
                                             : "ReduceMax";
    return add(b, reduction, {found, b.constant(Tensor::vector({1}))}, {{"keepdims", int64_t(0)}});
  }

  /// The rows one after the other, each with its weight.
  NodeValue found() const {
    NodeValue gathered = b.input(kIndices) ? add(b, "Gather", {b.input(kTable), b.input(kIndices)},
                                                 {{"axis", int64_t(0)}})
                                           : b.input(kTable);
    NodeValue weights = b.input(kWeights);
    return weights ? add(b, "Mul", {gathered, reshaped(b, weights, {rows, 1})}) : gathered;
  }

  /// Which rows are of which bag: bool[bags, rows].
  NodeValue members() const {
    auto column = [&](Input bounds) {
      NodeValue all = b.input(bounds);
      if (b.type(all).shape[0] != count)
        all = add(b, "Slice",
                  {all, b.constant(Tensor::vector({0})), b.constant(Tensor::vector({count}))});
      return reshaped(b, all, {count, 1});
    };
    Tensor places = Tensor::zeros({ElementType::i64, {1, rows}});
    for (int64_t i = 0; i < rows; ++i)
      places.data[static_cast<size_t>(i)] = static_cast<double>(i);
    NodeValue place = b.constant(std::move(places));
    NodeValue begun = add(b, "LessOrEqual", {column(kStarts), place});
    return add(b, "And", {begun, add(b, "Less", {place, column(kEnds)})});
  }

  /// As a product, whose gradient by a row's weight is one, too.
  NodeValue sums() const {
    const ElementType element = b.type(b.input(kTable)).element;
    NodeValue isMember = add(b, "Cast", {members()}, {{"to", onnxType(element)}});
    NodeValue sum = add(b, "MatMul", {isMember, found()});
    if (mode == "sum")
      return sum;
    NodeValue size = add(b, "ReduceSum", {isMember, b.constant(Tensor::vector({1}))},
                         {{"keepdims", int64_t(1)}});
    return add(b, "Div", {sum, add(b, "Max", {size, number(b, element, 1)})});
  }

  NodeValue maxima() const {
    const TensorType table = b.type(b.input(kTable));
    NodeValue isMember = reshaped(b, members(), {count, rows, 1});
    NodeValue each = reshaped(b, found(), {1, rows, table.shape[1]});
    NodeValue lowest = number(b, table.element, std::numeric_limits<float>::lowest());
    NodeValue most =
        add(b, "ReduceMax",
            {add(b, "Where", {isMember, each, lowest}), b.constant(Tensor::vector({1}))},
            {{"keepdims", int64_t(0)}});
    NodeValue isEmpty = add(b, "Equal", {most, lowest});
    return add(b, "Where", {isEmpty, number(b, table.element, 0), most});
  }

  CompositionBuilder &b;
  std::string mode;
  int64_t count = 0, rows = 0;
};

std::vector<NodeValue> composeEmbeddingBag(CompositionBuilder &b) { return {Bags(b).reduced()}; }

} // namespace

std::span<const ComposedOperator> bagForms() {
  static const ComposedOperator operators[] = {
      {{.name = "pdc.EmbeddingBag",
        .firstOpset = 1,
        .lastOpset = 1,
        .inputs = {{"table"},
                   {.name = "indices", .optional = true},
                   {"starts"},
                   {"ends"},
                   {.name = "count", .known = true},
                   {.name = "weights", .optional = true}},
        .outputs = {{"reduced"}},
        .elements = floatElements()},
       composeEmbeddingBag},
  };
  return operators;
}

} // namespace pdc
