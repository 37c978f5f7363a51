#include "compiler/devices/UnitReader.h"
#include "compiler/operators/Dropout.h"
#include "compiler/operators/Random.h"
#include "compiler/operators/Rules.h"

#include <algorithm>

/// What every model needs around its layers: views, reorders, sums for biases, dropout, updates.
namespace pdc {

namespace {

/// Images as the device stores them stay so (on the CPU in blocks of any width); all else is
/// row-major.
std::string arrivingLayout(const UnitReader &reader, const UnitNode &node, size_t input) {
  const std::string layout(reader.layout(node, input));
  const int64_t rank = reader.inputType(node, input).rank();
  const bool isImage = reader.options.kind == DeviceKind::cuda
                           ? rank > 2 && layout == imageLayout(reader, rank)
                           : layout.starts_with("aB") && layout.ends_with("b");
  return isImage ? layout : "";
}

} // namespace

/// Whether the dimensions behind samples and channels are all that a view changes, of an image of a
/// GPU: there pixels lie one behind the other.
static bool keepsChannels(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  const std::vector<int64_t> &from = reader.inputType(node, 0).shape, &to = node.outputs[0].shape;
  return reader.options.kind == DeviceKind::cuda && !reader.unit.isWritten && from.size() > 2 &&
         to.size() > 2 &&
         reader.layout(node, 0) == channelsLast(reader.inputType(node, 0).rank()) &&
         std::equal(from.begin(), from.begin() + 2, to.begin());
}

/// Any other view keeps a layout only when that is row-major in disguise.
KernelChoice chooseView(const UnitReader &reader) {
  KernelChoice choice;
  const UnitNode &node = reader.node(0);
  const bool isPlain = isRowMajor(reader.inputType(node, 0), reader.layout(node, 0));
  const bool isImage = !isPlain && keepsChannels(reader);
  addArgument(choice, reader, node, 0, isPlain || isImage ? reader.layout(node, 0) : "");
  choice.outputLayouts = {isImage ? channelsLast(node.outputs[0].rank()) : ""};
  if (node.op == "Identity") {
    choice.inputLayouts = {std::string(reader.layout(node, 0))};
    choice.outputLayouts = choice.inputLayouts;
  }
  return choice;
}

KernelChoice chooseReorder(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  const TensorType &x = reader.inputType(node, 0);
  std::string to = node.attributes->string("layout", "");
  std::string from(reader.layout(node, 0));
  if (!areReordered(x.element) || to.find(':') != to.npos || from.find(':') != from.npos)
    reader.refuse("no kernel reorders " + x.toString() + " from '" + from + "' to '" + to + "'");
  KernelChoice choice;
  choice.kernel = "Reorder";
  choice.fields = {
      {"from", from}, {"name", std::string(reader.unit.name)}, {"shape", x.shape}, {"to", to}};
  addArgument(choice, reader, node, 0, from);
  choice.outputLayouts = {to};
  choice.workspaceBytes = 65536;
  return choice;
}

KernelChoice chooseBiasGradient(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  std::string layout = arrivingLayout(reader, node, 0);
  const int64_t rank = reader.inputType(node, 0).rank();
  if (reader.options.kind == DeviceKind::cuda && rank > 2)
    layout = imageLayout(reader, rank);
  KernelChoice choice;
  choice.kernel = "ColumnSum";
  choice.fields = {{"input", reader.inputType(node, 0).shape}, {"layout", layout}};
  addArgument(choice, reader, node, 0, layout);
  choice.outputLayouts = {""};
  choice.accumulates = true;
  return choice;
}

/// How a sum on GPUs, whose kernel reads by strides, takes an image: as it arrives.
std::string summedLayout(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  const std::string last = channelsLast(reader.inputType(node, 0).rank());
  const bool isSum = node.op == "ReduceSum" || node.op == "ReduceMean";
  return isSum && reader.options.kind == DeviceKind::cuda && reader.layout(node, 0) == last ? last
                                                                                            : "";
}

/// The strides of a tensor's dimensions in a layout without blocks.
std::vector<int64_t> stridesIn(const TensorType &type, const std::string &layout) {
  std::vector<int64_t> strides(type.shape.size());
  for (const StoredDimension &stored : storedDimensions(type, layout))
    strides[stored.dimension] = stored.stride;
  return strides;
}

/// Whether all that is summed comes before all that stays: the columns of a matrix.
bool areColumns(const std::vector<int64_t> &sumShape, const std::vector<int64_t> &sumStrides,
                const std::vector<int64_t> &keptShape, const std::vector<int64_t> &keptStrides) {
  if (sumShape.empty() || keptShape.empty())
    return false;
  auto arePacked = [](const std::vector<int64_t> &shape, const std::vector<int64_t> &strides,
                      int64_t step) {
    for (size_t d = shape.size(); d-- > 0; step *= shape[d])
      if (shape[d] != 1 && strides[d] != step)
        return false;
    return true;
  };
  return arePacked(keptShape, keptStrides, 1) &&
         arePacked(sumShape, sumStrides, product(keptShape));
}

/// Dimensions split into those that stay and those that are summed.
KernelChoice chooseReduction(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  const std::vector<int64_t> &shape = reader.inputType(node, 0).shape;
  const std::string layout = summedLayout(reader);
  std::vector<int64_t> axes;
  if (reader.hasInput(node, 1))
    axes = reader.integers(node, 1);
  axes = axesFromStart(reader.view(node), axes, static_cast<int64_t>(shape.size()));
  bool all = axes.empty() && !node.attributes->integer("noop_with_empty_axes", 0);
  std::vector<int64_t> strides = stridesIn(reader.inputType(node, 0), layout), keptShape,
                       keptStrides, sumShape, sumStrides;
  double count = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    bool summed = all || std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    (summed ? sumShape : keptShape).push_back(shape[d]);
    (summed ? sumStrides : keptStrides).push_back(strides[d]);
    count *= summed ? static_cast<double>(shape[d]) : 1;
  }
  if (node.outputs[0].element != ElementType::f32)
    reader.refuse("the kernel reduces f32 elements, found " + node.outputs[0].toString() +
                  "; supported are f32, and of i32 and i64 sums, products, the least and the "
                  "largest; put a Cast to one of these before it");
  KernelChoice choice;
  addArgument(choice, reader, node, 0, layout);
  choice.outputLayouts = {""};
  if (node.op == "ReduceMax" || node.op == "ReduceProd") {
    choice.kernel = "Reduce";
    choice.fields = {{"keptShape", keptShape},
                     {"keptStrides", keptStrides},
                     {"operation", std::string(node.op == "ReduceMax" ? "maximum" : "product")},
                     {"reducedShape", sumShape},
                     {"reducedStrides", sumStrides}};
    return choice;
  }
  choice.accumulates = true;
  const bool isColumns =
      node.op == "ReduceSum" && areColumns(sumShape, sumStrides, keptShape, keptStrides);
  choice.kernel = isColumns ? "ColumnSum" : "ReduceSum";
  if (isColumns)
    choice.fields = {{"input", std::vector<int64_t>{product(sumShape), product(keptShape)}},
                     {"layout", std::string()}};
  else
    choice.fields = {{"keptShape", keptShape},
                     {"keptStrides", keptStrides},
                     {"scale", node.op == "ReduceMean" ? 1 / count : 1.0},
                     {"sumShape", sumShape},
                     {"sumStrides", sumStrides}};
  return choice;
}

KernelChoice chooseAlongAxis(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  const TensorType &x = reader.inputType(node, 0);
  bool isSum = node.op == "CumSum";
  if (x.element != ElementType::f32 && !(isSum && x.element == ElementType::i64))
    reader.refuse("the kernel reads f32 elements" + std::string(isSum ? " or i64" : "") +
                  ", found " + x.toString());
  int64_t axis = isSum ? reader.integers(node, 1).at(0) : node.attributes->integer("axis", 0);
  axis = axisFromStart(reader.view(node), axis, x.rank());
  KernelChoice choice;
  choice.kernel = isSum ? "CumulativeSum" : "ArgMax";
  choice.fields = {{"inner", product(x.shape, axis + 1)},
                   {"outer", product(x.shape, 0, axis)},
                   {"size", x.shape[axis]}};
  if (isSum) {
    choice.fields.set("exclusive", int64_t(node.attributes->integer("exclusive", 0) != 0));
    choice.fields.set("reverse", int64_t(node.attributes->integer("reverse", 0) != 0));
  } else {
    choice.fields.set("last", int64_t(node.attributes->integer("select_last_index", 0) != 0));
  }
  addArgument(choice, reader, node, 0);
  choice.outputLayouts = {""};
  return choice;
}

KernelChoice chooseTopK(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  const TensorType &x = reader.inputType(node, 0);
  if (x.element != ElementType::f32 && x.element != ElementType::i64)
    reader.refuse("the kernel reads f32 and i64 elements, found " + x.toString());
  const int64_t axis =
      axisFromStart(reader.view(node), node.attributes->integer("axis", -1), x.rank());
  KernelChoice choice;
  choice.kernel = "TopK";
  choice.fields = {{"count", node.outputs[0].shape[axis]},
                   {"inner", product(x.shape, axis + 1)},
                   {"largest", int64_t(node.attributes->integer("largest", 1) != 0)},
                   {"outer", product(x.shape, 0, axis)},
                   {"size", x.shape[axis]}};
  addArgument(choice, reader, node, 0);
  choice.outputLayouts = {""};
  return choice;
}

KernelChoice chooseDropout(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  if (!node.attributes->has("key"))
    reader.refuse("only dropout with a random key has a kernel; elsewhere it is the identity");
  const TensorType &x = reader.inputType(node, 0);
  const std::vector<int64_t> drawn = samplesAndElements(x.shape, reader.inputType(node, 1));
  // Each sample is a row, which may have channels in a layout.
  const bool isRow = !x.shape.empty() && drawn[0] == x.shape[0];
  std::string layout = isRow ? arrivingLayout(reader, node, 0) : "";
  if (reader.unit.results.size() != 1)
    reader.refuse("the mask of a dropout has no kernel that makes it");
  KernelChoice choice;
  choice.kernel = "Dropout";
  choice.fields = {{"input", isRow ? x.shape : drawn},
                   {"key", node.attributes->integer("key", 0)},
                   {"layout", layout},
                   {"ratio", node.attributes->number("ratio", 0.5)}};
  addArgument(choice, reader, node, 0, layout);
  addArgument(choice, reader, node, 1);
  choice.outputLayouts = {layout};
  choice.inPlace = {{0, 0}};
  return choice;
}

KernelChoice chooseUniformRandom(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  KernelChoice choice;
  choice.kernel = "UniformRandom";
  choice.fields = {{"key", node.attributes->integer("key", 0)},
                   {"shape", samplesAndElements(node.outputs[0].shape, reader.inputType(node, 0))}};
  addArgument(choice, reader, node, 0);
  choice.outputLayouts = {""};
  return choice;
}

/// Updates run over the weight as it lies, padding included; numbers follow the tensors.
KernelChoice chooseUpdate(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  const TensorType &weight = reader.inputType(node, 0);
  std::string layout(reader.layout(node, 0));
  KernelChoice choice;
  choice.kernel = std::string(node.op);
  for (const auto &[name, value] : *node.attributes)
    choice.fields.set(name, value);
  choice.fields.set("count", elementsInLayout(weight, layout));
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    bool isTensor = i < 2 + (node.outputs.size() - 1);
    addArgument(choice, reader, node, i, isTensor ? layout : "");
    // Next versions replace operands of the same kind: w, then what follows the gradient.
    if (isTensor && i != 1)
      choice.inPlace.push_back({static_cast<int>(i), static_cast<int>(i == 0 ? 0 : i - 1)});
  }
  choice.outputLayouts.assign(node.outputs.size(), layout);
  return choice;
}

} // namespace pdc
