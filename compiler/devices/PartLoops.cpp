#include "compiler/devices/LoopWalk.h"
#include "compiler/devices/Rules.h"
#include "compiler/operators/Rules.h"

#include <algorithm>

namespace pdc {

namespace {

bool isDivision(const UnitNode &node) { return node.op == "Split" || node.op == "Concat"; }

/// An array that the loop walks over: an operand of the unit or a part of it, a result of the unit
/// or a part of it.
struct Walked {
  TensorType whole;
  int64_t axis = 0, start = 0;
  bool isPart = false;
};

/// A loop some of whose operands are parts of larger tensors, and whose results may be parts that
/// are put together: Splits of operands, elementwise nodes of one shape, Concats of what these
/// make.
class PartLoop {
public:
  PartLoop(const UnitReader &reader) : reader(reader) {
    for (const UnitNode *node : reader.nodes)
      if (!isDivision(*node) && shape.empty())
        shape = node->outputs[0].shape;
  }

  bool isOne() const {
    const bool divides =
        std::ranges::any_of(reader.nodes, [](const UnitNode *node) { return isDivision(*node); });
    return divides && !shape.empty() &&
           std::ranges::all_of(reader.nodes, [&](const UnitNode *node) { return fits(*node); }) &&
           std::ranges::all_of(reader.unit.results,
                               [&](const UnitValue &value) { return makes(value, "Concat"); }) &&
           results().size() <= mostLoopResults;
  }

  KernelChoice choose() const {
    const std::string layout = chooseLayout();
    const std::vector<Walked> read = operands(), written = results();
    const std::vector<StoredDimension> stored = storedDimensions({ElementType::f32, shape}, layout);
    std::vector<std::vector<int64_t>> strides;
    for (const auto *arrays : {&read, &written})
      for (const Walked &array : *arrays)
        strides.push_back(stridesOf(array, layout, stored));
    const LoopWalk walk(stored, strides);
    KernelChoice choice;
    choice.kernel = "Broadcast";
    choice.fields = {{"extents", walk.extents},
                     {"strides", walk.listed(0, read.size())},
                     {"offsets", offsetsOf(read, layout)},
                     {"resultStrides", walk.listed(read.size(), written.size())},
                     {"resultOffsets", offsetsOf(written, layout)}};
    for (size_t i = 0; i < reader.unit.operands.size(); ++i) {
      choice.arguments.push_back(reader.unit.operands[i] ? static_cast<int>(i) : -1);
      choice.inputLayouts.push_back(isWalked(i) ? layout : "");
    }
    choice.outputLayouts.assign(reader.unit.results.size(), layout);
    addPlaces(choice);
    return choice;
  }

private:
  bool fits(const UnitNode &node) const {
    if (node.op == "Split")
      return isOperand(node.inputs.at(0)) && areFloats(node.outputs) &&
             std::ranges::all_of(usedParts(node),
                                 [&](const TensorType *part) { return part->shape == shape; });
    if (node.op == "Concat")
      return areFloats(node.outputs) && isUnread(node) &&
             std::ranges::all_of(node.inputs, [&](const UnitValue &value) {
               return makes(value, "") && reader.unit.type(value)->shape == shape;
             });
    return node.outputs.size() == 1 && node.outputs[0].shape == shape && areFloats(node.outputs) &&
           isLoop(node.op, reader.options) &&
           std::ranges::none_of(node.inputs, [&](const UnitValue &value) {
             return value.kind == UnitValue::Kind::operand && isDivided(value.index);
           });
  }

  static bool areFloats(const std::vector<TensorType> &types) {
    return std::ranges::all_of(
        types, [](const TensorType &type) { return isFloatingPoint(type.element); });
  }

  static bool isOperand(const UnitValue &value) { return value.kind == UnitValue::Kind::operand; }

  /// Whether a node of the loop makes the value, or one of operator `other`.
  bool makes(const UnitValue &value, std::string_view other) const {
    if (value.kind != UnitValue::Kind::node)
      return false;
    const UnitNode &maker = reader.unit.nodes[static_cast<size_t>(value.index)];
    return maker.op == other || (!isDivision(maker) && maker.op != "Constant");
  }

  bool reads(const UnitNode &made, size_t result) const {
    const auto index = static_cast<int>(&made - reader.unit.nodes.data());
    return std::ranges::any_of(reader.nodes, [&](const UnitNode *node) {
      return std::ranges::find(node->inputs, UnitValue::node(index, static_cast<int>(result))) !=
             node->inputs.end();
    });
  }

  bool isUnread(const UnitNode &node) const { return !reads(node, 0); }

  std::vector<const TensorType *> usedParts(const UnitNode &split) const {
    std::vector<const TensorType *> parts;
    for (size_t i = 0; i < split.outputs.size(); ++i)
      if (reads(split, i))
        parts.push_back(&split.outputs[i]);
    return parts;
  }

  bool isDivided(int operand) const {
    return std::ranges::any_of(reader.nodes, [&](const UnitNode *node) {
      return node->op == "Split" && node->inputs[0] == UnitValue::operand(operand);
    });
  }

  int64_t axisOf(const UnitNode &node) const {
    return axisFromStart(reader.view(node), node.attributes->integer("axis", 0),
                         static_cast<int64_t>(shape.size()));
  }

  /// The parts of each operand that is divided, in the order of the nodes that divide it.
  std::vector<Walked> operands() const {
    std::vector<Walked> found;
    for (size_t i = 0; i < reader.unit.operands.size(); ++i) {
      const auto &type = reader.unit.operands[i];
      if (!isDivided(static_cast<int>(i))) {
        found.push_back({type.value_or(TensorType{ElementType::f32, {}})});
        continue;
      }
      for (const UnitNode *node : reader.nodes)
        if (node->op == "Split" && node->inputs[0] == UnitValue::operand(static_cast<int>(i)))
          addParts(*node, found);
    }
    return found;
  }

  void addParts(const UnitNode &split, std::vector<Walked> &found) const {
    const int64_t axis = axisOf(split);
    int64_t start = 0;
    for (size_t i = 0; i < split.outputs.size(); ++i) {
      if (reads(split, i))
        found.push_back({reader.inputType(split, 0), axis, start, true});
      start += split.outputs[i].shape[static_cast<size_t>(axis)];
    }
  }

  /// The parts of each result that is put together.
  std::vector<Walked> results() const {
    std::vector<Walked> found;
    for (const UnitValue &value : reader.unit.results) {
      const UnitNode &node = reader.unit.nodes[static_cast<size_t>(value.index)];
      if (node.op != "Concat") {
        found.push_back({node.outputs[0]});
        continue;
      }
      const int64_t axis = axisOf(node);
      for (size_t i = 0; i < node.inputs.size(); ++i)
        found.push_back({node.outputs[0], axis,
                         static_cast<int64_t>(i) * shape[static_cast<size_t>(axis)], true});
    }
    return found;
  }

  std::vector<int64_t> stridesOf(const Walked &array, const std::string &layout,
                                 const std::vector<StoredDimension> &stored) const {
    if (!array.isPart)
      return stridesAlong(array.whole, shape, stored);
    std::vector<int64_t> strides;
    for (const StoredDimension &dimension : storedDimensions(array.whole, layout))
      strides.push_back(dimension.stride);
    return strides;
  }

  /// Where each array begins; what is no part may fill no blocks of the layout.
  static std::vector<int64_t> offsetsOf(const std::vector<Walked> &arrays,
                                        const std::string &layout) {
    std::vector<int64_t> offsets;
    for (const Walked &array : arrays) {
      int64_t &offset = offsets.emplace_back(0);
      int64_t left = array.start;
      if (!array.isPart)
        continue;
      for (const StoredDimension &dimension : storedDimensions(array.whole, layout))
        if (dimension.dimension == static_cast<size_t>(array.axis)) {
          offset += left / dimension.step * dimension.stride;
          left %= dimension.step;
        }
    }
    return offsets;
  }

  /// Whether the loop walks over the operand rather than repeating it.
  bool isWalked(size_t operand) const {
    const auto &type = reader.unit.operands[operand];
    return type && (type->shape == shape || isDivided(static_cast<int>(operand)));
  }

  /// Whether the layout stores the part in whole blocks, which begin where blocks of the whole do.
  bool isWholeBlocks(const Walked &array, const std::string &layout) const {
    if (!array.isPart)
      return true;
    if (elementsInLayout(array.whole, layout) != array.whole.elementCount())
      return false;
    int64_t block = 1;
    for (const StoredDimension &dimension : storedDimensions(array.whole, layout))
      if (dimension.dimension == static_cast<size_t>(array.axis))
        block = std::max(block, dimension.step);
    return array.start % block == 0;
  }

  /// Images stay as the device stores them where half of what arrives lies so, and all parts and
  /// what they are parts of fill their blocks of channels.
  std::string chooseLayout() const {
    const auto rank = static_cast<int64_t>(shape.size());
    if (rank < 3)
      return "";
    const std::string layout = imageLayout(reader, rank);
    size_t walked = 0, arriving = 0;
    for (size_t i = 0; i < reader.unit.operands.size(); ++i)
      if (isWalked(i)) {
        ++walked;
        arriving += reader.unit.layout(i) == layout;
      }
    const TensorType part{ElementType::f32, shape};
    auto fits = [&](const Walked &array) { return isWholeBlocks(array, layout); };
    return 2 * arriving >= walked && elementsInLayout(part, layout) == part.elementCount() &&
                   std::ranges::all_of(operands(), fits) && std::ranges::all_of(results(), fits)
               ? layout
               : "";
  }

  /// A result may overwrite an operand that is walked in the same way. Parts are read before any is
  /// written; those of both are the same where all are as large as one and lie along one dimension.
  void addPlaces(KernelChoice &choice) const {
    for (size_t i = 0; i < reader.unit.operands.size(); ++i)
      for (size_t r = 0; isWalked(i) && r < reader.unit.results.size(); ++r) {
        const TensorType &made = *reader.unit.type(reader.unit.results[r]);
        const TensorType &read = *reader.unit.operands[i];
        if (read.shape == made.shape && (made.shape == shape || haveSameParts(i, r)) &&
            bytesPerElement(read.element) == bytesPerElement(made.element))
          choice.inPlace.push_back({static_cast<int>(i), static_cast<int>(r)});
      }
  }

  bool haveSameParts(size_t operand, size_t result) const {
    const UnitValue &value = reader.unit.results[result];
    const int64_t axis = axisOf(reader.unit.nodes[static_cast<size_t>(value.index)]);
    return std::ranges::all_of(reader.nodes, [&](const UnitNode *node) {
      if (node->op != "Split" || node->inputs[0] != UnitValue::operand(static_cast<int>(operand)))
        return true;
      std::vector<Walked> parts;
      addParts(*node, parts);
      return axisOf(*node) == axis && std::ranges::all_of(parts, [&](const Walked &part) {
               return part.start % shape[static_cast<size_t>(axis)] == 0;
             });
    });
  }

  const UnitReader &reader;
  std::vector<int64_t> shape; ///< of what the loop computes at a time
};

} // namespace

bool isLoopOverParts(const UnitReader &reader) { return PartLoop(reader).isOne(); }

bool isLoopOverParts(const UnitView &unit, const DeviceOptions &options) {
  return isLoopOverParts(UnitReader(unit, options));
}

KernelChoice chooseLoopOverParts(const UnitReader &reader) { return PartLoop(reader).choose(); }

} // namespace pdc
