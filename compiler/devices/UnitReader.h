#pragma once

#include "compiler/devices/Device.h"
#include "compiler/operators/Operator.h"

#include <deque>

namespace pdc {

/// A unit as the rules of this folder read it: its nodes without constants, and the choice that
/// grows.
class UnitReader {
public:
  UnitReader(const UnitView &unit, const DeviceOptions &options);

  const UnitView &unit;
  const DeviceOptions &options;
  /// In order of execution, without constants.
  std::vector<const UnitNode *> nodes;

  const UnitNode &node(size_t i) const { return *nodes.at(i); }
  bool isSingle(std::string_view op) const { return nodes.size() == 1 && nodes[0]->op == op; }
  /// The constant an input comes from, or nullptr.
  const Tensor *constant(const UnitNode &node, size_t input) const;
  bool hasInput(const UnitNode &node, size_t input) const;
  const TensorType &inputType(const UnitNode &node, size_t input) const;
  /// The unit's operand that an input is; throws Error when it is computed or constant.
  int operand(const UnitNode &node, size_t input) const;
  std::string_view layout(const UnitNode &node, size_t input) const;
  /// For rules of compiler/operators; lives as long as the reader.
  const NodeView &view(const UnitNode &node) const;
  /// The integers of a constant input.
  std::vector<int64_t> integers(const UnitNode &node, size_t input) const;
  /// Which of the kernel's results each result of the unit from `first` on is: result r of node
  /// `from`, where a last node's result 0 stands for result 0.
  std::vector<int64_t> resultSlots(const UnitNode &from, size_t first = 0) const;

  [[noreturn]] void refuse(const std::string &why) const;

private:
  struct Described;
  mutable std::deque<Described> described;
};

/// What views of operators need kept alive.
struct UnitReader::Described {
  std::vector<const TensorType *> inputs;
  std::vector<const Tensor *> constants;
  NodeView view;
};

/// Adds one input pointer of the kernel: the unit's operand behind an input of a node, or nullptr
/// where the input is left out.
void addArgument(KernelChoice &choice, const UnitReader &reader, const UnitNode &node, size_t input,
                 std::string_view layout = "");

/// What a kernel that multiplies computes in, where that is not fp32.
void setCompute(KernelChoice &choice, const UnitReader &reader);

/// How the device stores images: in blocks of channels ("aBcd16b") on the CPU, channels innermost
/// ("acdb") on GPUs, whose tensor cores want them so.
std::string imageLayout(const UnitReader &reader, int64_t rank);
/// "acdb": channels innermost.
std::string channelsLast(int64_t rank);
/// Whether the unit's result is an image of a GPU over which numbers of its channels are repeated,
/// as the gradient of a mean is: it may then be made in the layout that its readers want.
bool isImageOfChannels(const UnitReader &reader, const std::vector<int64_t> &numbers);
/// Whether a kernel brings tensors of such elements from one layout to another.
bool areReordered(ElementType element);
/// The letters of dimensions [first, rank).
std::string tagLetters(int64_t first, int64_t rank);
// One rule per family; each throws Error for what it cannot run.
KernelChoice chooseConvolution(const UnitReader &reader);
KernelChoice chooseConvolutionInputGradient(const UnitReader &reader);
KernelChoice chooseConvolutionWeightGradient(const UnitReader &reader);
KernelChoice chooseCudaConvolution(const UnitReader &reader);
KernelChoice chooseCudaConvolutionInputGradient(const UnitReader &reader);
KernelChoice chooseCudaConvolutionWeightGradient(const UnitReader &reader);
KernelChoice chooseBiasGradient(const UnitReader &reader);
KernelChoice chooseMatrixProduct(const UnitReader &reader);
KernelChoice choosePooling(const UnitReader &reader);
KernelChoice choosePoolingGradient(const UnitReader &reader);
KernelChoice chooseBatchNormalization(const UnitReader &reader);
KernelChoice chooseCudaNormalisation(const UnitReader &reader);
KernelChoice chooseBatchNormalizationInference(const UnitReader &reader);
KernelChoice chooseCudaNormalisationInference(const UnitReader &reader);
KernelChoice chooseCudaNormalisationGradient(const UnitReader &reader);
KernelChoice chooseBatchNormalizationGradient(const UnitReader &reader);
KernelChoice chooseGroupNormalization(const UnitReader &reader);
KernelChoice chooseGroupNormalizationGradient(const UnitReader &reader);
KernelChoice chooseLayerNormalization(const UnitReader &reader);
KernelChoice chooseLayerNormalizationGradient(const UnitReader &reader);
KernelChoice chooseAttention(const UnitReader &reader);
KernelChoice chooseAttentionGradient(const UnitReader &reader);
KernelChoice chooseCudaAttention(const UnitReader &reader);
KernelChoice chooseCudaAttentionGradient(const UnitReader &reader);
KernelChoice chooseLocalResponse(const UnitReader &reader);
KernelChoice chooseRotation(const UnitReader &reader);
KernelChoice chooseElementwise(const UnitReader &reader);
KernelChoice chooseView(const UnitReader &reader);
KernelChoice chooseReorder(const UnitReader &reader);
KernelChoice chooseDropout(const UnitReader &reader);
KernelChoice chooseUniformRandom(const UnitReader &reader);
KernelChoice chooseRecurrentCell(const UnitReader &reader);
KernelChoice chooseUpdate(const UnitReader &reader);
KernelChoice chooseReduction(const UnitReader &reader);
KernelChoice chooseAlongAxis(const UnitReader &reader);
KernelChoice chooseTopK(const UnitReader &reader);
KernelChoice chooseSoftmax(const UnitReader &reader);
KernelChoice chooseLoss(const UnitReader &reader);
KernelChoice chooseMovement(const UnitReader &reader);

/// Whether every operand of an elementwise node has the result's shape (numbers that are constants
/// of one element aside).
bool isUniform(const UnitReader &reader, const UnitNode &node);

} // namespace pdc
