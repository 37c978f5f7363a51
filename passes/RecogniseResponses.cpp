#include "passes/Composites.h"

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// The operand beside a number, of a node that takes them in any order.
std::optional<std::pair<Value, double>> besideNumber(NodeOp node) {
  if (node && node.getNumOperands() == 2)
    for (int i : {0, 1})
      if (std::optional<double> number = numberOf(node.getOperand(i)))
        return std::pair(node.getOperand(1 - i), *number);
  return std::nullopt;
}

/// Zeros around one dimension alone, `width` on either side.
bool padsOnly(NodeOp pad, size_t dimension, int64_t width) {
  const Attributes attributes = toAttributes(pad.getOnnxAttributes());
  const std::optional<Tensor> pads = constantOf(pad.getOperand(1));
  const bool hasValue = pad.getNumOperands() > 2 && !pad.getOperand(2).getDefiningOp<AbsentOp>();
  if (attributes.string("mode", "constant") != "constant" || pad.getNumOperands() > 3 || !pads ||
      (hasValue && numberOf(pad.getOperand(2)) != 0.0))
    return false;
  const std::vector<int64_t> widths = pads->toIntegers();
  const size_t rank = widths.size() / 2;
  for (size_t i = 0; i < widths.size(); ++i)
    if (widths[i] != (i % rank == dimension ? width : 0))
      return false;
  return true;
}

/// What one exporter of PyTorch pads once more, with nothing.
Value beforeEmptyPads(Value value) {
  NodeOp pad = maker(value, "Pad");
  return pad && padsOnly(pad, 0, 0) ? beforeEmptyPads(pad.getOperand(0)) : value;
}

/// How many neighbours along its first spatial dimension a pooling has the mean of; none where it
/// does anything else.
std::optional<int64_t> pooledNeighbours(NodeOp pool) {
  const Attributes attributes = toAttributes(pool.getOnnxAttributes());
  auto areAll = [&](const char *name, int64_t expected) {
    return llvm::all_of(attributes.integers(name, {}),
                        [&](int64_t value) { return value == expected; });
  };
  const std::vector<int64_t> kernel = attributes.integers("kernel_shape", {});
  if (kernel.empty() || !areAll("strides", 1) || !areAll("pads", 0) || !areAll("dilations", 1) ||
      attributes.string("auto_pad", "NOTSET") != "NOTSET" ||
      llvm::any_of(ArrayRef(kernel).drop_front(), [](int64_t size) { return size != 1; }))
    return std::nullopt;
  return kernel.front();
}

/// The mean of squares over `size` channels, the middle one of which is the result's: of an image
/// whose channels are a dimension that pooling goes along.
struct NeighbourSquares {
  Value x;
  int64_t size;
};

std::optional<NeighbourSquares> matchNeighbourSquares(Value value) {
  NodeOp pool = maker(beforeViews(value), "AveragePool");
  NodeOp pad = pool ? maker(beforeEmptyPads(pool.getOperand(0)), "Pad") : NodeOp();
  const std::optional<int64_t> size = pad ? pooledNeighbours(pool) : std::nullopt;
  if (!size || *size % 2 == 0 || !padsOnly(pad, 2, *size / 2))
    return std::nullopt;
  NodeOp square = maker(beforeViews(pad.getOperand(0)), "Mul");
  if (!square || square.getOperand(0) != square.getOperand(1))
    return std::nullopt;
  const Value x = square.getOperand(0);
  const ArrayRef<int64_t> padded = shapeOf(pad.getOperand(0)), image = shapeOf(x);
  if (padded.size() < 3 || image.size() < 3 || x.getType() != value.getType() ||
      padded.take_front(3) != ArrayRef<int64_t>{image[0], 1, image[1]})
    return std::nullopt;
  return NeighbourSquares{x, *size};
}

} // namespace

std::optional<Composite> pdc::matchLocalResponse(NodeOp root) {
  NodeOp power = maker(root.getOperand(1), "Pow");
  const std::optional<double> beta = power ? numberOf(power.getOperand(1)) : std::nullopt;
  auto shifted = beta ? besideNumber(maker(power.getOperand(0), "Add")) : std::nullopt;
  auto scaled = shifted ? besideNumber(maker(shifted->first, "Mul")) : std::nullopt;
  auto squares = scaled ? matchNeighbourSquares(scaled->first) : std::nullopt;
  if (!squares || squares->x != root.getOperand(0))
    return std::nullopt;
  const Attributes attributes = {{"alpha", scaled->second},
                                 {"beta", *beta},
                                 {"bias", shifted->second},
                                 {"size", squares->size}};
  return Composite{"LRN", {squares->x}, attributes};
}
