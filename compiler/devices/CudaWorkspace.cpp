#include "compiler/devices/Rules.h"
#include "compiler/operators/Rules.h"
#include "runtime/cuda/Workspace.h"

#include <map>

/// Workspace on GPUs, in the words of the kernels themselves (runtime/cuda/Workspace.h).
namespace pdc {

namespace {

using Fields = Attributes;
namespace cuda = runtime::cuda;

int64_t bytesOf(const Fields &fields, const char *shape) {
  return 4 * product(fields.integers(shape));
}

int64_t biasGradientBytes(const Fields &fields) {
  const std::vector<int64_t> shape = fields.integers("input");
  return cuda::columnSumBytes(product(shape) / shape.at(1), shape.at(1), 1);
}

/// cuDNN's plain f32 kernels bring both images into an order of their own; asked of cuDNN 9.19 for
/// sm_90 over the shapes of testsuite/cuda, they take the images' bytes and what is counted here.
int64_t convolutionBytes(const Fields &fields) {
  return bytesOf(fields, "input") + bytesOf(fields, "output") + 2 * bytesOf(fields, "weight") +
         (int64_t(1) << 20) + cuda::kWorkspaceAlignment;
}

/// Of an image by channels.
int64_t normalisationBytes(const std::vector<int64_t> &shape) {
  return cuda::normalisationBytes(product(shape) / shape.at(1), shape.at(1));
}

int64_t normalisationBytes(const Fields &fields) {
  return normalisationBytes(fields.integers("input"));
}

/// The library may write sums while it uses its own.
int64_t normalisedConvolutionBytes(const Fields &fields) {
  return normalisationBytes(fields.integers("output")) + convolutionBytes(fields);
}

int64_t labelledBytes(const Fields &fields) {
  return cuda::kPartialSums * 8 + 4 * fields.integer("samples", 1) * fields.integer("pixels", 1);
}

int64_t partialSums(const Fields &) { return cuda::kPartialSums * 8; }

/// A product that may be a matrix' gradient has room for the bias's beside it.
int64_t matrixBytes(const Fields &fields) {
  const int64_t bytes = cuda::kMatrixWorkspaceBytes + cuda::kWorkspaceAlignment;
  if (!fields.integer("sums", 0))
    return bytes;
  return bytes +
         cuda::fusedSumBytes(std::max(fields.integers("a").back(), fields.integers("b").back()));
}

/// Apart each of its kernels begins at the start.
int64_t summedProductBytes(const Fields &fields) {
  const std::vector<int64_t> factor = fields.integers(fields.string("columnSums", ""));
  return std::max(cuda::columnSumBytes(factor.front(), factor.back(), 1), matrixBytes(fields));
}

int64_t scaleGradientBytes(const Fields &fields) {
  return cuda::columnSumBytes(fields.integer("rows", 1), fields.integer("size", 1),
                              1 + fields.integer("sumsBias", 0));
}

int64_t groupNormalisationBytes(const Fields &fields) {
  const std::vector<int64_t> shape = fields.integers("input");
  return cuda::groupNormalisationBytes(shape.at(0), product(shape, 2), shape.at(1),
                                       fields.integer("groups", 1));
}

int64_t reductionBytes(const Fields &fields) {
  const char *reduced = fields.has("sumShape") ? "sumShape" : "reducedShape";
  return cuda::reductionBytes(product(fields.integers("keptShape")),
                              product(fields.integers(reduced)));
}

int64_t gatherGradientBytes(const Fields &fields) {
  return cuda::gatherGradientBytes(fields.integer("outer", 1), fields.integer("count", 0),
                                   fields.integer("inner", 1));
}

/// Of the library's; the kernels here take none.
int64_t attentionBytes(const Fields &fields, bool isGradient) {
  if (!fields.has("compute"))
    return 0;
  auto size = [&](const char *name) { return fields.integer(name, 1); };
  const int64_t keyHeads = fields.integer("keyHeadsTogether", size("keyHeads"));
  const int64_t batch = fields.integer("batchTogether", size("batch")),
                heads = size("heads") / size("keyHeads") * keyHeads;
  const runtime::AttentionFields whole = attentionMaskFields(fields);
  runtime::AttentionFields part = whole;
  part.batch = batch, part.heads = heads, part.masks = 0;
  const int64_t kept = fields.has("ratio") ? 2 * batch * heads * size("queries") * size("keys") : 0;
  const int64_t added = cudaMaskBytes(fields);
  const int64_t ofMask =
      part.makesMaskGradient() ? cuda::kWorkspaceAlignment + 2 * part.maskGradientElements() : 0;
  const int64_t sums = fields.has("guarded") && !isGradient
                           ? 4 * size("batch") * size("heads") * size("queries")
                           : 0;
  // Each of the runtime's own pieces is rounded up; the library's begins behind them.
  return 5 * cuda::kWorkspaceAlignment + sums + kept + added + ofMask +
         cuda::attentionBytes(isGradient, batch, heads, keyHeads, size("queries"), size("keys"),
                              size("width"));
}

} // namespace

runtime::AttentionFields attentionMaskFields(const Attributes &fields) {
  runtime::AttentionFields f;
  f.batch = fields.integer("batch", 1), f.heads = fields.integer("heads", 1);
  f.queries = fields.integer("queries", 1), f.keys = fields.integer("keys", 1);
  f.boolean = fields.integer("boolean", 0), f.causal = fields.integer("causal", 0);
  f.masks = fields.integer("masks", 0), f.past = fields.integer("past", 0);
  if (fields.has("maskStrides"))
    f.maskStrides = fields.integers("maskStrides");
  if (fields.has("results"))
    f.results = fields.integers("results");
  return f;
}

int64_t cudaMaskBytes(const Attributes &fields) {
  const runtime::AttentionFields f = attentionMaskFields(fields);
  return runtime::AddedMask::isNeeded(f) ? 4 * runtime::AddedMask(f).elements() : 0;
}

int64_t cudaWorkspaceBytes(const KernelChoice &choice) {
  static const std::map<std::string_view, int64_t (*)(const Fields &)> bounds = {
      {"Attention", [](const Fields &fields) { return attentionBytes(fields, false); }},
      {"AttentionGradient", [](const Fields &fields) { return attentionBytes(fields, true); }},
      {"BatchNormalization", normalisationBytes},
      {"BatchNormalizationGradient", normalisationBytes},
      {"ColumnSum", biasGradientBytes},
      {"ReluGradientSum", biasGradientBytes},
      {"Convolution", convolutionBytes},
      {"ConvolutionInputGradient", convolutionBytes},
      {"ConvolutionWeightGradient", convolutionBytes},
      {"CorrectPredictions", partialSums},
      {"GatherGradient", gatherGradientBytes},
      {"GeluGradientProduct", matrixBytes},
      {"GeluProduct", matrixBytes},
      {"GroupNormalization", groupNormalisationBytes},
      {"GroupNormalizationGradient", groupNormalisationBytes},
      {"LayerNormalizationScaleGradient", scaleGradientBytes},
      {"LossWeight", partialSums},
      {"MatrixProduct", matrixBytes},
      {"NegativeLogLikelihood", partialSums},
      {"NormalisedConvolution", normalisedConvolutionBytes},
      {"PairLoss", partialSums},
      {"Reduce", reductionBytes},
      {"ReduceSum", reductionBytes},
      {"SoftmaxCrossEntropy", labelledBytes},
      {"SummedProduct", summedProductBytes},
  };
  auto bound = bounds.find(choice.kernel);
  return bound == bounds.end() ? 0 : bound->second(choice.fields);
}

} // namespace pdc
