#include "compiler/devices/Rules.h"

/// Which kernels for GPUs read and write 16 bits. Inside of them everything is f32: sums, statistics,
/// exponentials.
namespace pdc {

static constexpr uint32_t bits(std::initializer_list<int> operands) {
  uint32_t all = 0;
  for (int operand : operands)
    all |= 1u << operand;
  return all;
}

static constexpr uint32_t kAll = ~0u;

// Products want 16 bits, which is what makes them fast; the others take what their operands are.
static constexpr NarrowKernel kernels[] = {
    {"Conv", bits({0, 1}), true},
    {"ConvInputGrad", bits({0, 1}), true},
    {"ConvWeightGrad", bits({0, 1}), true},
    {"FusedMatMul", bits({0, 1}), true},
    {"Gemm", bits({0, 1, 2}), true},
    {"MatMul", bits({0, 1}), true},
    {"SoftmaxAttention", bits({0, 1, 2}), true},
    {"SoftmaxAttentionGrad", bits({0, 1, 2, 3, 4}), true},
    {"AveragePool", bits({0})},
    {"AveragePoolGrad", bits({0})},
    {"BatchNormApply", bits({0})},
    {"BatchNormInternal", bits({0})},
    {"BatchNormalization", bits({0})},
    {"BatchNormalizationGrad", bits({0, 1})},
    {"Concat", kAll},
    {"ConvBiasGrad", bits({0})},
    {"Dropout", bits({0})},
    {"DropoutGrad", bits({0})},
    {"Expand", bits({0})},
    {"Gather", bits({0})},
    {"GatherGrad", bits({2})},
    {"GlobalAveragePool", bits({0})},
    {"GlobalAveragePoolGrad", bits({0})},
    {"GroupNormalization", bits({0})},
    {"GroupNormalizationGrad", bits({0, 1})},
    {"GruCell", bits({0, 1, 2})},
    {"GruCellGrad", bits({0, 1, 2, 3})},
    {"LayerNormalization", bits({0})},
    {"LayerNormalizationInputGrad", bits({0, 1})},
    {"LayerNormalizationScaleGrad", bits({0, 1})},
    {"LogSoftmax", bits({0})},
    {"LogSoftmaxGrad", bits({0, 1})},
    {"LstmCell", bits({0})},
    {"LstmCellGrad", bits({0, 3})},
    {"MaxPool", bits({0})},
    {"MaxPoolGrad", bits({0})},
    {"Pad", bits({0})},
    {"PadGrad", bits({0})},
    {"RMSNormalization", bits({0})},
    {"ReduceMean", bits({0})},
    {"ReduceSum", bits({0})},
    {"ReduceSumGrad", bits({0})},
    {"Reorder", bits({0})},
    {"RotateHalves", bits({0})},
    {"Slice", bits({0})},
    {"SliceGrad", bits({0})},
    {"Softmax", bits({0})},
    {"SoftmaxGrad", bits({0, 1})},
    {"Split", bits({0})},
    {"Transpose", bits({0})},
};

const NarrowKernel *findNarrowKernel(std::string_view op) {
  for (const NarrowKernel &kernel : kernels)
    if (kernel.op == op)
      return &kernel;
  return nullptr;
}

void checkNarrow(const UnitReader &reader) {
  const ElementType stored = storedElement(reader.options.precision);
  auto check = [&](const UnitNode &node, const TensorType &type, bool isTaken) {
    if (bytesPerElement(type.element) == 2 && !(isTaken && type.element == stored))
      reader.refuse("operator " + std::string(node.op) + " has no kernel for " + type.toString() +
                    " with --precision " + std::string(toString(reader.options.precision)) +
                    "; export the model in f32");
  };
  for (const UnitNode *node : reader.nodes) {
    const NarrowKernel *kernel = findNarrowKernel(node->op);
    const bool isLoop = takesAnyWidth(node->op);
    for (size_t i = 0; i < node->inputs.size(); ++i)
      if (const TensorType *type = reader.unit.type(node->inputs[i]))
        check(*node, *type, isLoop || (kernel && kernel->takes(i)));
    for (const TensorType &type : node->outputs)
      check(*node, type, isLoop || kernel);
  }
}

} // namespace pdc
