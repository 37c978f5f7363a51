#include "compiler/devices/UnitReader.h"
#include "compiler/operators/Rules.h"
#include "compiler/operators/Slice.h"

#include <algorithm>
#include <optional>

/// Operators that move elements. Most are one strided copy: shape, and offset and strides on both
/// sides.
namespace pdc {

namespace {

struct Copy {
  std::vector<int64_t> shape;
  int64_t inputOffset = 0;
  std::vector<int64_t> inputStrides;
  int64_t outputOffset = 0;
  std::vector<int64_t> outputStrides;
  bool fills = false; ///< what the copy leaves out of the result is `fill`
  double fill = 0;
  std::string inputLayout = {}, outputLayout = {};
};

/// The element types that the kernels of movements know.
void checkMoves(const UnitReader &reader, const TensorType &type) {
  if (type.element == ElementType::f64 || type.element == ElementType::i8)
    reader.refuse("the kernel moves f32, i64, i32, u8 and bool elements, found " + type.toString());
}

KernelChoice chooseCopy(const UnitReader &reader, size_t input, const Copy &copy) {
  const UnitNode &node = reader.node(0);
  checkMoves(reader, node.outputs[0]);
  KernelChoice choice;
  choice.kernel = "StridedCopy";
  choice.fields = {{"inputOffset", copy.inputOffset},
                   {"inputStrides", copy.inputStrides},
                   {"outputOffset", copy.outputOffset},
                   {"outputStrides", copy.outputStrides},
                   {"shape", copy.shape}};
  if (copy.fills) {
    choice.fields.set("fill", copy.fill);
    choice.fields.set("outputElements", node.outputs[0].elementCount());
  }
  addArgument(choice, reader, node, input, copy.inputLayout);
  choice.outputLayouts = {copy.outputLayout};
  return choice;
}

/// A view, where what is transposed lies in memory as the result does: images with their channels
/// innermost, which stand behind the other dimensions in one of the two.
std::optional<KernelChoice> viewTransposed(const UnitReader &reader,
                                           const std::vector<int64_t> &perm) {
  const auto rank = static_cast<int64_t>(perm.size());
  const UnitNode &node = reader.node(0);
  if (rank < 3 || reader.unit.isWritten || !areReordered(reader.inputType(node, 0).element))
    return std::nullopt;
  std::vector<int64_t> toLast = {0}, fromLast = {0, rank - 1};
  for (int64_t d = 2; d < rank; ++d)
    toLast.push_back(d), fromLast.push_back(d - 1);
  toLast.push_back(1);
  const std::string last = channelsLast(rank);
  const bool arrivesLast = perm == toLast && reader.layout(node, 0) == last;
  // Of three dimensions both are the transposition of two, and hardly any is an image.
  if (!arrivesLast && (perm != fromLast || rank == 3 || !reader.layout(node, 0).empty()))
    return std::nullopt;
  KernelChoice choice;
  addArgument(choice, reader, node, 0, arrivesLast ? last : "");
  choice.outputLayouts = {arrivesLast ? "" : last};
  return choice;
}

KernelChoice chooseTranspose(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  const std::vector<int64_t> &shape = reader.inputType(node, 0).shape;
  const std::vector<int64_t> perm = permutationOf(reader.view(node)), own = stridesOf(shape);
  if (std::optional<KernelChoice> view = viewTransposed(reader, perm))
    return *view;
  std::vector<int64_t> strides;
  for (int64_t d : perm)
    strides.push_back(own[d]);
  const std::vector<int64_t> &result = node.outputs[0].shape;
  return chooseCopy(reader, 0, {result, 0, strides, 0, stridesOf(result)});
}

/// What arrives in another order of its dimensions is repeated in that order, as an image's pixels
/// are that stand apart for their copies. Layouts of GPUs are orders and nothing else.
std::optional<Copy> spreadInOrder(const UnitReader &reader) {
  const TensorType &x = reader.inputType(reader.node(0), 0), &result = reader.node(0).outputs[0];
  const std::string layout(reader.layout(reader.node(0), 0));
  if (reader.options.kind != DeviceKind::cuda || layout.empty() ||
      layout.find(':') != layout.npos || x.rank() != result.rank() || !areReordered(x.element))
    return std::nullopt;
  std::vector<int64_t> strides(x.shape.size(), 0);
  for (const StoredDimension &stored : storedDimensions(x, layout))
    strides[stored.dimension] = stored.size == 1 ? 0 : stored.stride;
  Copy copy;
  copy.inputLayout = copy.outputLayout = layout;
  for (const StoredDimension &stored : storedDimensions(result, layout)) {
    copy.shape.push_back(stored.size);
    copy.inputStrides.push_back(strides[stored.dimension]);
    copy.outputStrides.push_back(stored.stride);
  }
  return copy;
}

/// Expand and the gradient of a sum: the operand, with ones where it is repeated, over the result,
/// in whose layout the copy walks.
KernelChoice chooseSpread(const UnitReader &reader, const std::vector<int64_t> &operand) {
  const TensorType &result = reader.node(0).outputs[0];
  const std::string layout =
      isImageOfChannels(reader, operand) ? imageLayout(reader, result.rank()) : "";
  const std::vector<int64_t> strides = broadcastStrides(operand, result.shape);
  Copy copy;
  copy.outputLayout = layout;
  for (const StoredDimension &stored : storedDimensions(result, layout)) {
    copy.shape.push_back(stored.size);
    copy.inputStrides.push_back(strides[stored.dimension]);
    copy.outputStrides.push_back(stored.stride);
  }
  return chooseCopy(reader, 0, copy);
}

KernelChoice chooseReduceSumGradient(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  std::vector<int64_t> kept = node.outputs[0].shape, axes;
  if (reader.hasInput(node, 2))
    axes = reader.integers(node, 2);
  bool all = axes.empty() && !node.attributes->integer("noop_with_empty_axes", 0);
  for (size_t d = 0; all && d < kept.size(); ++d)
    axes.push_back(static_cast<int64_t>(d));
  for (int64_t d : axesFromStart(reader.view(node), axes, static_cast<int64_t>(kept.size())))
    kept[d] = 1;
  return chooseSpread(reader, kept);
}

/// Positive pads surround the input, negative ones crop it; `gradient` copies the other way.
KernelChoice choosePad(const UnitReader &reader, bool gradient) {
  const UnitNode &node = reader.node(0);
  std::vector<int64_t> pads = reader.integers(node, 1);
  const std::vector<int64_t> &inner =
      gradient ? node.outputs[0].shape : reader.inputType(node, 0).shape;
  const std::vector<int64_t> &outer =
      gradient ? reader.inputType(node, 0).shape : node.outputs[0].shape;
  std::vector<int64_t> innerStrides = stridesOf(inner), outerStrides = stridesOf(outer);
  Copy copy;
  copy.fills = true;
  int64_t innerOffset = 0, outerOffset = 0;
  for (size_t d = 0; d < inner.size(); ++d) {
    int64_t before = pads.at(d), cropped = std::max<int64_t>(0, -before);
    int64_t end = std::min(inner[d], outer[d] - before);
    copy.shape.push_back(std::max<int64_t>(0, end - cropped));
    innerOffset += cropped * innerStrides[d];
    outerOffset += std::max<int64_t>(0, before) * outerStrides[d];
  }
  copy.inputOffset = gradient ? outerOffset : innerOffset;
  copy.outputOffset = gradient ? innerOffset : outerOffset;
  copy.inputStrides = gradient ? outerStrides : innerStrides;
  copy.outputStrides = gradient ? innerStrides : outerStrides;
  if (const Tensor *value = gradient ? nullptr : reader.constant(node, 2))
    copy.fill = value->data.at(0);
  return chooseCopy(reader, 0, copy);
}

KernelChoice chooseSlice(const UnitReader &reader, bool gradient) {
  const UnitNode &node = reader.node(0);
  const std::vector<int64_t> &whole =
      gradient ? node.outputs[0].shape : reader.inputType(node, 0).shape;
  const std::vector<int64_t> &part =
      gradient ? reader.inputType(node, 0).shape : node.outputs[0].shape;
  const SliceRange range = resolveSlice(reader.view(node), whole, gradient ? 2 : 1);
  std::vector<int64_t> strides = stridesOf(whole);
  int64_t offset = 0;
  for (size_t d = 0; d < whole.size(); ++d) {
    offset += std::max<int64_t>(range.start[d], 0) * strides[d]; // -1: before all, of none
    strides[d] *= range.step[d];
  }
  Copy copy{part, offset, strides, 0, stridesOf(part)};
  if (gradient) {
    std::swap(copy.inputOffset, copy.outputOffset);
    std::swap(copy.inputStrides, copy.outputStrides);
    copy.fills = true;
  }
  return chooseCopy(reader, 0, copy);
}

/// How parts of a tensor lie in it along an axis: blocks of them in turn, `outer` times.
struct Parts {
  std::string layout; ///< of all
  int64_t outer = 1;
  std::vector<int64_t> blockBytes;

  Parts(const UnitReader &reader, const std::vector<TensorType> &parts, int64_t axis)
      : layout(layoutOf(reader, parts, axis)) {
    for (const StoredDimension &stored : storedDimensions(parts.at(0), layout)) {
      if (stored.dimension == static_cast<size_t>(axis))
        break;
      outer *= stored.size;
    }
    for (const TensorType &part : parts)
      blockBytes.push_back(outer > 0 ? part.bytes() / outer : 0);
  }

private:
  /// Images stay as the device stores them where half of what arrives lies so and all parts fill
  /// their blocks of channels. Parts of one block are row-major: assign-homes may put them into
  /// the whole.
  static std::string layoutOf(const UnitReader &reader, const std::vector<TensorType> &parts,
                              int64_t axis) {
    const int64_t rank = parts.at(0).rank();
    if (rank < 3 || !areReordered(parts[0].element) || product(parts[0].shape, 0, axis) == 1)
      return "";
    const std::string layout = imageLayout(reader, rank);
    auto fits = [&](const TensorType &part) {
      return elementsInLayout(part, layout) == part.elementCount();
    };
    size_t arriving = 0;
    for (size_t i = 0; i < reader.unit.operands.size(); ++i)
      arriving += reader.unit.layout(i) == layout;
    return 2 * arriving >= reader.unit.operands.size() && std::ranges::all_of(parts, fits) ? layout
                                                                                           : "";
  }
};

KernelChoice chooseConcat(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  std::vector<TensorType> types;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    types.push_back(reader.inputType(node, i));
  const Parts parts(reader, types,
                    axisFromStart(reader.view(node), node.attributes->integer("axis", 0),
                                  node.outputs[0].rank()));
  KernelChoice choice;
  choice.kernel = "Concat";
  for (size_t i = 0; i < node.inputs.size(); ++i)
    addArgument(choice, reader, node, i, parts.layout);
  choice.fields = {{"blockBytes", parts.blockBytes}, {"outer", parts.outer}};
  choice.outputLayouts = {parts.layout};
  return choice;
}

/// Parts that nobody reads are skipped.
KernelChoice chooseSplit(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  const TensorType &x = reader.inputType(node, 0);
  const Parts parts(
      reader, node.outputs,
      axisFromStart(reader.view(node), node.attributes->integer("axis", 0), x.rank()));
  KernelChoice choice;
  choice.kernel = "Split";
  choice.fields = {{"blockBytes", parts.blockBytes},
                   {"outer", parts.outer},
                   {"results", reader.resultSlots(node)}};
  addArgument(choice, reader, node, 0, parts.layout);
  choice.outputLayouts.assign(reader.unit.results.size(), parts.layout);
  return choice;
}

KernelChoice chooseGather(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  const bool gathers = node.op == "Gather";
  const TensorType &data = gathers ? reader.inputType(node, 0) : node.outputs[0];
  checkMoves(reader, data);
  if (!gathers && !isFloatingPoint(data.element))
    reader.refuse("the kernel takes floating-point elements, found " + data.toString());
  int64_t axis = axisFromStart(reader.view(node), node.attributes->integer("axis", 0), data.rank());
  KernelChoice choice;
  choice.kernel = gathers                  ? "Gather"
                  : node.op == "ScatterMax" ? "ScatterMaximum"
                                            : "GatherGradient";
  choice.fields = {{"count", reader.inputType(node, 1).elementCount()},
                   {"inner", product(data.shape, axis + 1)},
                   {"outer", product(data.shape, 0, axis)},
                   {"size", data.shape[axis]}};
  addArgument(choice, reader, node, gathers ? 0 : 1);
  addArgument(choice, reader, node, gathers ? 1 : 2);
  choice.outputLayouts = {""};
  choice.accumulates = node.op == "GatherGrad";
  return choice;
}

} // namespace

KernelChoice chooseMovement(const UnitReader &reader) {
  std::string_view op = reader.node(0).op;
  if (op == "Transpose")
    return chooseTranspose(reader);
  if (op == "Expand")
    if (std::optional<Copy> copy = spreadInOrder(reader))
      return chooseCopy(reader, 0, *copy);
  if (op == "Expand")
    return chooseSpread(reader, reader.inputType(reader.node(0), 0).shape);
  if (op == "ReduceSumGrad")
    return chooseReduceSumGradient(reader);
  if (op == "Pad" || op == "PadGrad")
    return choosePad(reader, op == "PadGrad");
  if (op == "Slice" || op == "SliceGrad")
    return chooseSlice(reader, op == "SliceGrad");
  if (op == "Split")
    return chooseSplit(reader);
  return op == "Concat" ? chooseConcat(reader) : chooseGather(reader);
}

} // namespace pdc
