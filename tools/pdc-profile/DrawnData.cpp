#include "tools/pdc-profile/DrawnData.h"

#include "codegen/WriteFolder.h"
#include "compiler/Error.h"
#include "compiler/ir/Conversion.h"

#include <algorithm>
#include <cstring>
#include <random>

using namespace mlir;

namespace pdc {

/// Integers of an input whose use says nothing of their range.
static constexpr int64_t kUsualRange = 2;

static int64_t gatherRange(ir::NodeOp node) {
  TensorType table = toTensorType(node.getOperand(0).getType());
  auto axis = node.getOnnxAttributes().getAs<IntegerAttr>("axis");
  int64_t dimension = axis ? axis.getInt() : 0;
  return table.shape[dimension < 0 ? dimension + table.rank() : dimension];
}

/// How many values a node's operand may have; nothing where the node does not say.
static std::optional<int64_t> rangeOf(ir::NodeOp node, unsigned operand) {
  bool isLabel =
      node.getOp() == "SoftmaxCrossEntropyLoss" || node.getOp() == "NegativeLogLikelihoodLoss";
  if (operand != 1)
    return std::nullopt;
  if (isLabel)
    return toTensorType(node.getOperand(0).getType()).shape.at(1);
  return node.getOp() == "Gather" ? std::optional(gatherRange(node)) : std::nullopt;
}

static bool keepsElements(ir::NodeOp node) {
  static constexpr StringRef names[] = {"Cast",    "Flatten", "Identity",
                                        "Reshape", "Squeeze", "Unsqueeze"};
  return llvm::is_contained(names, node.getOp());
}

/// The smallest range among all nodes that an integer reaches.
static int64_t rangeOf(Value value, int64_t range) {
  for (OpOperand &use : value.getUses()) {
    unsigned number = use.getOperandNumber();
    if (auto unit = dyn_cast<ir::UnitOp>(use.getOwner())) {
      range = rangeOf(unit.getBody().getArgument(number), range);
    } else if (isa<ir::YieldOp>(use.getOwner())) {
      if (auto unit = dyn_cast<ir::UnitOp>(use.getOwner()->getParentOp()))
        range = rangeOf(unit.getResult(number), range);
    } else if (auto node = dyn_cast<ir::NodeOp>(use.getOwner())) {
      range = std::min(range, rangeOf(node, number).value_or(range));
      if (number == 0 && keepsElements(node))
        range = rangeOf(node.getResult(0), range);
    }
  }
  return range;
}

static int64_t rangeOfInput(ModuleOp module, ir::MemoryOp input) {
  int64_t range = INT64_MAX;
  module.walk([&](ir::ReadOp read) {
    if (read.getMemory() == input.getSymName())
      range = rangeOf(read.getValue(), range);
  });
  return range == INT64_MAX ? kUsualRange : std::max<int64_t>(range, 1);
}

static std::string npyHeader(const char *element, ArrayRef<int64_t> shape) {
  std::string text = std::string("{'descr': '") + element + "', 'fortran_order': False, 'shape': (";
  for (int64_t size : shape)
    text += std::to_string(size) + ", ";
  text += "), }";
  constexpr size_t lead = 10;
  text.resize((lead + text.size() + 1 + 63) / 64 * 64 - lead - 1, ' ');
  text += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(text.size() & 0xff);
  head += static_cast<char>(text.size() >> 8);
  return head + text;
}

template <class T, class Draw>
static std::string drawn(const char *element, ArrayRef<int64_t> shape, Draw draw) {
  std::string text = npyHeader(element, shape);
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  size_t start = text.size();
  text.resize(start + count * sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    T value = draw();
    std::memcpy(text.data() + start + i * sizeof(T), &value, sizeof(T));
  }
  return text;
}

static std::string drawInput(ModuleOp module, ir::MemoryOp input, int64_t samples) {
  TensorType type = toTensorType(input.getType());
  SmallVector<int64_t> shape(type.shape.begin(), type.shape.end());
  if (input.getRate() == ir::Rate::Microbatch)
    shape[0] = samples;
  std::mt19937_64 generator(1);
  int64_t range = rangeOfInput(module, input);
  std::uniform_real_distribution<float> real(-1, 1);
  std::uniform_int_distribution<int64_t> whole(0, range - 1);
  std::uniform_int_distribution<int> byte(0, static_cast<int>(std::min<int64_t>(range, 256)) - 1);
  switch (type.element) {
  case ElementType::f32:
    return drawn<float>("<f4", shape, [&] { return real(generator); });
  case ElementType::i64:
    return drawn<int64_t>("<i8", shape, [&] { return whole(generator); });
  case ElementType::i32:
    return drawn<int32_t>("<i4", shape, [&] { return static_cast<int32_t>(whole(generator)); });
  case ElementType::u8:
    return drawn<uint8_t>("|u1", shape, [&] { return static_cast<uint8_t>(byte(generator)); });
  default:
    throw Error("input '" + input.getSymName().str() + "' is " + type.toString() +
                ", of which pdc-profile cannot draw samples");
  }
}

std::vector<std::string> writeDrawnData(ModuleOp module, int64_t samples,
                                        const std::filesystem::path &folder) {
  std::vector<std::string> texts;
  for (auto memory : module.getOps<ir::MemoryOp>()) {
    StringRef name = memory.getSymName();
    if (memory.getRole() != ir::Role::Input || memory.getRate() == ir::Rate::Update ||
        name.starts_with("pdc."))
      continue;
    std::filesystem::path file = folder / ("input_" + std::to_string(texts.size()) + ".npy");
    writeFile(file, drawInput(module, memory, samples));
    texts.push_back(name.str() + "=" + file.string());
  }
  return texts;
}

} // namespace pdc
