#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

#include <numeric>

namespace pdc {

/// A choice by a mask: input 1 moves the diagonal; attribute `upper` says which side stays.
static std::vector<NodeValue> composeTrilu(CompositionBuilder &b) {
  TensorType x = b.type(b.input(0));
  std::vector<int64_t> moved = b.input(1) ? knownIntegers(b, 1) : std::vector<int64_t>{0};
  if (x.rank() < 2)
    b.refuse("input " + x.toString() + ", expected rank 2 or more");
  if (moved.size() != 1)
    b.refuse("input 1 (k) is " + b.type(b.input(1)).toString() + ", expected one integer");
  std::vector<int64_t> rows(x.shape[x.rank() - 2]), columns(x.shape.back());
  std::iota(rows.begin(), rows.end(), moved[0]);
  std::iota(columns.begin(), columns.end(), 0);
  // By places, since flags of a long sequence are many.
  NodeValue stays =
      add(b, b.attributes().integer("upper", 1) != 0 ? "GreaterOrEqual" : "LessOrEqual",
          {b.constant(Tensor::vector(columns)),
           b.constant(integersOf({x.shape[x.rank() - 2], 1}, rows))});
  return {add(b, "Where", {stays, b.input(0), number(b, x.element, 0)})};
}

std::span<const ComposedOperator> triangleForms() {
  static const ComposedOperator operators[] = {
      {{.name = "Trilu",
        .firstOpset = 14,
        .lastOpset = kLastOpset,
        .inputs = {{"input"}, {.name = "k", .optional = true, .known = true}},
        .outputs = {{"output"}}},
       composeTrilu},
  };
  return operators;
}

} // namespace pdc
