#include "compiler/operators/AttentionShape.h"

#include "compiler/operators/Rules.h"

#include <algorithm>

namespace pdc {

/// [batch, heads, rows, width] of a tensor.
static std::vector<int64_t> inOrder(const NodeView &node, size_t input, int64_t rowsFirst) {
  std::vector<int64_t> shape = node.input(input).shape;
  if (shape.size() != 4)
    refuse(node, "input " + std::to_string(input) + " is " + node.input(input).toString() +
                     ", expected rank 4");
  if (rowsFirst == 2)
    std::swap(shape[0], shape[1]);
  if (rowsFirst != 0)
    std::swap(shape[1], shape[2]);
  return shape;
}

/// [batch, heads, rows, width] of queries, keys and values.
void AttentionShape::readSizes(const NodeView &node, size_t first) {
  const bool hasKeys = node.hasInput(first + 1), hasValues = node.hasInput(first + 2);
  if (!hasKeys && hasValues)
    refuse(node, "has values without keys");
  joined = hasValues ? 0 : hasKeys ? 2 : 3;
  std::vector<int64_t> q = inOrder(node, first, rowsFirst[0]), k = q, v = q;
  if (hasKeys)
    k = v = inOrder(node, first + 1, rowsFirst[1]);
  if (hasValues)
    v = inOrder(node, first + 2, rowsFirst[2]);
  if (joined == 2)
    k[1] = v[1] = k[1] % 2 == 0 ? k[1] / 2 : 0;
  if (joined == 3) {
    const int64_t ofKeys = node.attributes.integer("key_heads", 0);
    k[1] = v[1] = ofKeys > 0 && ofKeys < q[1] ? ofKeys : 0;
    q[1] -= 2 * k[1];
  }
  const bool areAlike = (joined == 0 || rowsFirst[1] == rowsFirst[2]) &&
                        (joined != 3 || rowsFirst[0] == rowsFirst[1]);
  batch = q[0], heads = q[1], queries = q[2], width = q[3];
  keyHeads = k[1], keys = k[2], valueWidth = v[3];
  if (!areAlike || k != std::vector<int64_t>{batch, keyHeads, keys, width} ||
      v != std::vector<int64_t>{batch, keyHeads, keys, valueWidth} || keyHeads < 1 || heads < 1 ||
      heads % keyHeads != 0)
    refuse(node, "queries " + shapeText(q) + ", keys " + shapeText(k) + " and values " +
                     shapeText(v) + " ([batch, heads, rows, width]) do not fit");
}

AttentionShape::AttentionShape(const NodeView &node, size_t first, size_t mask) {
  rowsFirst = node.attributes.integers("rows_first");
  if (rowsFirst.size() != 4)
    refuse(node, "attribute 'rows_first' " + shapeText(rowsFirst) + ", expected four numbers");
  for (int64_t order : rowsFirst)
    if (order < 0 || order > 2)
      refuse(node, "attribute 'rows_first' " + shapeText(rowsFirst) + ", expected 0, 1 or 2 each");
  readSizes(node, first);
  if (node.attributes.integer("past", 0) < 0)
    refuse(node, "attribute 'past' is negative: the first queries would see nothing");
  if (!node.hasInput(mask))
    return;
  masks = node.attributes.integer("masks", 0);
  if (masks < 0 || (masks != 0 && batch % masks != 0))
    refuse(node, std::to_string(batch) + " samples cannot take " + std::to_string(masks) +
                     " masks in turn, expected a divisor of them");
  const std::vector<int64_t> &shape = node.input(mask).shape;
  const std::vector<int64_t> scores = {masks ? masks : batch, heads, queries, keys};
  const bool areInTurn = shape.size() == 4 && shape[0] == masks;
  if ((masks && !areInTurn) || broadcastShape(node, shape, scores) != scores)
    refuse(node,
           "mask " + node.input(mask).toString() + " does not broadcast to " + shapeText(scores));
  maskStrides = broadcastStrides(shape, scores);
}

size_t AttentionShape::tensorOf(size_t operand) const {
  return joined == 3 ? 0 : joined == 2 ? std::min<size_t>(operand, 1) : operand;
}

int64_t AttentionShape::headsAcross(size_t operand) const {
  if (operand == 3 || joined == 0 || (joined == 2 && operand == 0))
    return headsOf(operand);
  return joined == 3 ? heads + 2 * keyHeads : 2 * keyHeads;
}

int64_t AttentionShape::headsBefore(size_t operand) const {
  const bool isKeyOrValue = operand == 1 || operand == 2;
  const int64_t behindQueries = joined == 3 && isKeyOrValue ? heads : 0;
  return behindQueries + (joined != 0 && operand == 2 ? keyHeads : 0);
}

std::vector<int64_t> AttentionShape::result() const {
  if (rowsFirst[3] == 2)
    return {queries, batch, heads, valueWidth};
  return rowsFirst[3] == 1 ? std::vector<int64_t>{batch, queries, heads, valueWidth}
                           : std::vector<int64_t>{batch, heads, queries, valueWidth};
}

int64_t AttentionShape::rowStride(size_t operand) const {
  const int64_t order = rowsFirst[operand];
  const int64_t samples = order == 2 ? batch : 1;
  return (order == 0 ? 1 : headsAcross(operand) * samples) * widthOf(operand);
}

int64_t AttentionShape::offset(size_t operand, int64_t b, int64_t h) const {
  const int64_t rows = rowsOf(operand), wide = widthOf(operand), order = rowsFirst[operand];
  return b * headsAcross(operand) * (order == 2 ? 1 : rows) * wide +
         (headsBefore(operand) + h) * (order == 0 ? rows * wide : wide);
}

int64_t AttentionShape::visible(const Attributes &attributes, int64_t query, int64_t keys) {
  if (!attributes.integer("is_causal", 0))
    return keys;
  return std::clamp<int64_t>(query + 1 + attributes.integer("past", 0), 0, keys);
}

} // namespace pdc
