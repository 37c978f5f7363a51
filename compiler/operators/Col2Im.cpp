#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

#include <algorithm>

/// Col2Im: the sum of blocks where they lie in an image, which is the input gradient of a
/// convolution whose kernels pick one element of a block each.
namespace pdc {

namespace {

struct Blocks {
  std::vector<int64_t> image, block, strides, dilations, pads;
  std::vector<int64_t> counts; ///< of blocks along each dimension of the image
};

Blocks blocksOf(CompositionBuilder &b) {
  Blocks blocks{.image = knownIntegers(b, 1), .block = knownIntegers(b, 2)};
  const size_t rank = blocks.image.size();
  auto list = [&](const char *name, size_t size, int64_t otherwise, int64_t least) {
    std::vector<int64_t> values = b.attributes().integers(name);
    if (values.empty())
      values.assign(size, otherwise);
    constexpr int64_t most = int64_t(1) << 31;
    auto isOutside = [&](int64_t value) { return value < least || value > most; };
    if (values.size() != size || std::ranges::any_of(values, isOutside))
      b.refuse(std::string("attribute '") + name + "' is " + shapeText(values) + ", expected " +
               std::to_string(size) + " values of at least " + std::to_string(least));
    return values;
  };
  blocks.strides = list("strides", rank, 1, 1);
  blocks.dilations = list("dilations", rank, 1, 1);
  blocks.pads = list("pads", 2 * rank, 0, 0);
  if (rank == 0 || blocks.block.size() != rank || std::ranges::min(blocks.block) < 1)
    b.refuse("image " + shapeText(blocks.image) + " and blocks of " + shapeText(blocks.block) +
             ", expected as many positive numbers of both");
  for (size_t d = 0; d < rank; ++d) {
    const int64_t extent = blocks.dilations[d] * (blocks.block[d] - 1) + 1;
    const int64_t room = blocks.image[d] + blocks.pads[d] + blocks.pads[d + rank] - extent;
    if (room < 0)
      b.refuse("a block of " + std::to_string(extent) + " does not fit dimension " +
               std::to_string(d) + " of image " + shapeText(blocks.image));
    blocks.counts.push_back(room / blocks.strides[d] + 1);
  }
  return blocks;
}

/// Kernel k of each channel is 1 at the k-th element of a block and 0 elsewhere.
Tensor pickingKernels(ElementType element, int64_t channels, const std::vector<int64_t> &block) {
  const int64_t size = product(block);
  std::vector<int64_t> shape = {channels * size, 1};
  shape.insert(shape.end(), block.begin(), block.end());
  Tensor kernels = Tensor::zeros({element, shape});
  for (int64_t i = 0; i < channels * size; ++i)
    kernels.data[static_cast<size_t>(i * size + i % size)] = 1;
  return kernels;
}

std::vector<NodeValue> composeCol2Im(CompositionBuilder &b) {
  const TensorType x = b.type(b.input(0));
  const Blocks blocks = blocksOf(b);
  const int64_t size = product(blocks.block);
  if (x.rank() != 3 || x.shape[1] % size != 0 || x.shape[2] != product(blocks.counts))
    b.refuse("input " + x.toString() + ", expected samples, channels times " +
             std::to_string(size) + " elements, and " + std::to_string(product(blocks.counts)) +
             " blocks");
  const int64_t channels = x.shape[1] / size;
  std::vector<int64_t> columns = {x.shape[0], x.shape[1]}, image = {x.shape[0], channels};
  columns.insert(columns.end(), blocks.counts.begin(), blocks.counts.end());
  image.insert(image.end(), blocks.image.begin(), blocks.image.end());
  NodeValue kernels = b.constant(pickingKernels(x.element, channels, blocks.block));
  return {add(b, "ConvInputGrad", {reshaped(b, b.input(0), columns), kernels},
              {{"dilations", blocks.dilations},
               {"group", channels},
               {"input_shape", image},
               {"kernel_shape", blocks.block},
               {"pads", blocks.pads},
               {"strides", blocks.strides}})};
}

} // namespace

std::span<const ComposedOperator> blockForms() {
  static const ComposedOperator operators[] = {
      {{.name = "Col2Im",
        .firstOpset = 18,
        .lastOpset = kLastOpset,
        .inputs = {{"input"},
                   {.name = "image_shape", .known = true},
                   {.name = "block_shape", .known = true}},
        .outputs = {{"output"}},
        .elements = floatElements()},
       composeCol2Im},
  };
  return operators;
}

} // namespace pdc
