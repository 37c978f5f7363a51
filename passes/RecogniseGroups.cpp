#include "passes/Composites.h"

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// What a Reshape reads, or the value itself where none makes it.
Value beforeView(Value value) {
  NodeOp view = maker(value, "Reshape");
  return view ? view.getOperand(0) : value;
}

/// Groups that are neither scaled nor shifted.
struct Grouped {
  Value x;
  Attributes attributes;
};

/// The groups of a sample may be brought together by a view, and apart again.
std::optional<Grouped> matchGroups(Value value) {
  NodeOp groups = maker(beforeView(value), "GroupNormalization");
  if (!groups || groups.getNumOperands() != 1)
    return std::nullopt;
  const Attributes attributes = toAttributes(groups.getOnnxAttributes());
  const int64_t count = attributes.integer("num_groups", 0);
  const ArrayRef<int64_t> rows = shapeOf(groups.getOperand(0)), shape = shapeOf(value);
  if (rows.empty() || shape.size() < 2 || shape[0] != rows[0] || shape[1] % count != 0)
    return std::nullopt;
  for (Value x : {groups.getOperand(0), beforeView(groups.getOperand(0))})
    if (x.getType() == value.getType())
      return Grouped{x, attributes};
  return std::nullopt;
}

/// Whether a value is one number per channel, repeated over samples and pixels.
bool isOfChannels(Value value, ArrayRef<int64_t> image) {
  ArrayRef<int64_t> shape = shapeOf(value);
  if (shape.size() > image.size() || shape.size() + 1 < image.size())
    return false;
  const size_t missing = image.size() - shape.size();
  for (size_t d = missing; d < image.size(); ++d)
    if (shape[d - missing] != (d == 1 ? image[1] : 1))
      return false;
  return true;
}

/// The number of each channel, before exporters gave it the dimensions of an image.
Value beforeDimensions(Value value, int64_t channels) {
  NodeOp view = value.getDefiningOp<NodeOp>();
  if (view && (view.getOp() == "Reshape" || view.getOp() == "Unsqueeze") &&
      shapeOf(view.getOperand(0)) == ArrayRef{channels})
    return view.getOperand(0);
  return value;
}

} // namespace

std::optional<Composite> pdc::matchGroupNormalization(NodeOp root) {
  if (root.getOp() == "Reshape") {
    std::optional<Grouped> found = matchGroups(root->getResult(0));
    if (!found)
      return std::nullopt;
    return Composite{"GroupNormalization", {found->x}, found->attributes, 3};
  }
  const ArrayRef<int64_t> image = shapeOf(root->getResult(0));
  for (int i : {0, 1}) {
    NodeOp product = maker(root.getOperand(i), "Mul");
    Value bias = root.getOperand(1 - i);
    if (!product || !isOfChannels(bias, image))
      continue;
    for (int j : {0, 1}) {
      Value scale = product.getOperand(1 - j);
      std::optional<Grouped> found = matchGroups(product.getOperand(j));
      if (!found || !isOfChannels(scale, image))
        continue;
      const std::vector<int64_t> channels = {image[1]};
      return Composite{
          "GroupNormalization",
          {found->x, beforeDimensions(scale, image[1]), beforeDimensions(bias, image[1])},
          found->attributes,
          3,
          {image.vec(), channels, channels}};
    }
  }
  return std::nullopt;
}

void pdc::takeSwish(NodeOp swish) {
  NodeOp groups = maker(swish.getOperand(0), "GroupNormalization");
  Attributes attributes = toAttributes(swish.getOnnxAttributes());
  if (!groups || !groups->hasOneUse() || attributes.number("alpha", 1) != 1)
    return;
  attributes = toAttributes(groups.getOnnxAttributes());
  attributes.set("swish", int64_t(1));
  OpBuilder builder(swish);
  NodeOp whole = createNode(builder, swish.getLoc(), "GroupNormalization", swish.getName(),
                            llvm::to_vector(groups.getOperands()), attributes, "", 3);
  swish->getResult(0).replaceAllUsesWith(whole->getResult(0));
  swish.erase();
  groups.erase();
}
