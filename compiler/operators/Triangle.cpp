#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

namespace pdc {

/// A choice by a mask: input 1 moves the diagonal; attribute `upper` says which side stays.
static std::vector<NodeValue> composeTrilu(CompositionBuilder &b) {
  TensorType x = b.type(b.input(0));
  std::vector<int64_t> moved = b.input(1) ? knownIntegers(b, 1) : std::vector<int64_t>{0};
  if (x.rank() < 2)
    b.refuse("input " + x.toString() + ", expected rank 2 or more");
  if (moved.size() != 1)
    b.refuse("input 1 (k) is " + b.type(b.input(1)).toString() + ", expected one integer");
  const int64_t rows = x.shape[x.rank() - 2], columns = x.shape.back();
  const bool isUpper = b.attributes().integer("upper", 1) != 0;
  Tensor stays = Tensor::zeros({ElementType::boolean, {rows, columns}});
  for (int64_t i = 0; i < rows * columns; ++i) {
    const int64_t above = i % columns - i / columns;
    stays.data[i] = isUpper ? above >= moved[0] : above <= moved[0];
  }
  return {add(b, "Where", {b.constant(std::move(stays)), b.input(0), number(b, x.element, 0)})};
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
