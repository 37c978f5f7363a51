#include "compiler/devices/Rules.h"
#include "runtime/cuda/Workspace.h"

#include <numeric>

/// Attention of 16 bits on GPUs is cuDNN's fused one where it has one, else a kernel of the runtime
/// that does the same without tensor cores. What it has was asked of cuDNN 9.19 for sm_90.
namespace pdc {

namespace {

/// Whether a mask has a number of its own for each head's score of each query and key.
bool isOfEveryScore(const Attributes &fields) {
  const std::vector<int64_t> strides = fields.integers("maskStrides");
  const int64_t sizes[] = {fields.integer("heads", 1), fields.integer("queries", 1),
                           fields.integer("keys", 1)};
  for (size_t d = 0; d < 3; ++d)
    if (strides.at(d + 1) == 0 && sizes[d] != 1)
      return false;
  return true;
}

/// What cuDNN's gradients are known to be wrong for; empty: nothing. For one key it has none (known
/// issues of 9.18.1). Others are no numbers once a row's scores all lie below -88: where scores
/// have something added, the last tile of keys counts 64 that are not there (pytorch#196678); where
/// there is one query, rows that are not there (cudnn-frontend#1072).
std::string knownFault(const Attributes &fields) {
  constexpr int64_t kTile = 128;
  const int64_t keys = fields.integer("keys", 1);
  const bool adds = fields.has("maskStrides") && !fields.integers("maskStrides").empty();
  if (keys % kTile == kTile / 2 &&
      (adds || runtime::AddedMask::isNeeded(attentionMaskFields(fields))))
    return "has a mask of " + std::to_string(keys) +
           " keys, which may overflow in cuDNN's unless they are a multiple of 128";
  if (keys == 1)
    return "has one key, for which cuDNN has none";
  return fields.integer("queries", 1) == 1 ? "has one query, which may overflow in cuDNN's" : "";
}

/// What cuDNN takes for a step of decoding: it is known to compute that wrongly where heads share
/// keys (known issues of 9.18.1). What is causal behind a past it is told by a mask instead.
bool isCausalOfOneQuery(const Attributes &fields) {
  return fields.integer("causal", 0) && !fields.integer("past", 0) &&
         fields.integer("queries", 1) == 1 && fields.integer("keys", 1) > 1 &&
         fields.integer("heads", 1) != fields.integer("keyHeads", 1);
}

/// Why cuDNN does not compute an attention; empty where it does. `fields` are those of its kernel.
std::string whyNotFused(const Attributes &fields, bool isGradient) {
  const int64_t width = fields.integer("width", 1);
  if (width != fields.integer("valueWidth", 1) || width % 8 != 0 || width > 256)
    return "has heads of " + std::to_string(width) + " and " +
           std::to_string(fields.integer("valueWidth", 1)) +
           " numbers, and cuDNN wants them equal, a multiple of 8, and 256 at most";
  if (isCausalOfOneQuery(fields))
    return "is causal of one query, with heads that share keys, which cuDNN computes wrongly";
  if (std::string why = isGradient ? knownFault(fields) : ""; !why.empty())
    return why;
  std::vector<int64_t> all(
      static_cast<size_t>(runtime::attentionTensors(fields.integer("joined", 0))));
  std::iota(all.begin(), all.end(), 0);
  if (!isGradient || fields.integers("results") == all)
    return "";
  all.push_back(3);
  if (fields.integers("results") != all)
    return "wants other gradients than those of queries, keys and values together";
  if (!isOfEveryScore(fields))
    return "is also that of a mask that heads, queries or keys share, which cuDNN does not sum";
  return "";
}

/// Whether parts of so many samples and heads of keys begin at the multiples of 16 bytes that cuDNN
/// wants, in the sums of rows and in the mask too; heads themselves do.
bool beginAligned(const Attributes &fields, int64_t samples, int64_t keyHeads) {
  const int64_t group = fields.integer("heads", 1) / fields.integer("keyHeads", 1);
  const int64_t rows = fields.integer("queries", 1) * group;
  const runtime::AttentionFields f = attentionMaskFields(fields);
  const runtime::Dimensions mask = runtime::AddedMask::isNeeded(f) ? runtime::AddedMask(f).strides()
                                   : f.maskStrides.empty()         ? runtime::Dimensions{0, 0}
                                                                   : f.maskStrides;
  const bool isWhole = keyHeads == fields.integer("keyHeads", 1);
  return rows * keyHeads * samples % 4 == 0 && mask[0] * samples % 4 == 0 &&
         (isWhole || mask[1] * group * keyHeads % 4 == 0);
}

/// What grows with the samples and heads that are computed together.
int64_t dividedBytes(const KernelChoice &choice) {
  return cudaWorkspaceBytes(choice) - cudaMaskBytes(choice.fields);
}

/// The largest parts within the bound, or the smallest there are: whole samples, or
/// of each sample some heads of keys.
void divide(KernelChoice &choice) {
  const int64_t batch = choice.fields.integer("batch", 1),
                keyHeads = choice.fields.integer("keyHeads", 1);
  auto isEnough = [&](int64_t samples, int64_t heads) {
    if (samples > runtime::cuda::kMostBatch || batch % samples != 0 || keyHeads % heads != 0 ||
        !beginAligned(choice.fields, samples, heads))
      return false;
    choice.fields.set("batchTogether", samples);
    choice.fields.set("keyHeadsTogether", heads);
    return dividedBytes(choice) <= runtime::cuda::kAttentionPartBytes;
  };
  for (int64_t samples = batch - 1; samples > 0; --samples)
    if (isEnough(samples, keyHeads))
      return;
  for (int64_t heads = keyHeads - 1; heads > 0; --heads)
    if (isEnough(1, heads))
      return;
}

void fuse(KernelChoice &choice, const UnitReader &reader, size_t first) {
  const UnitNode &node = reader.node(0);
  const std::string what = first == 1 ? "attention's gradient " : "attention ";
  if (bytesPerElement(reader.inputType(node, first).element) != 2)
    return;
  if (std::string why = whyNotFused(choice.fields, first == 1); !why.empty()) {
    choice.remark = what + why + ": it runs on a kernel without tensor cores";
    return;
  }
  KernelChoice fused = choice;
  fused.fields.set("compute", std::string(toString(reader.options.precision)));
  const int64_t batch = fused.fields.integer("batch", 1);
  if (dividedBytes(fused) > runtime::cuda::kAttentionPartBytes || batch > runtime::cuda::kMostBatch)
    divide(fused);
  if (fused.fields.integer("batchTogether", batch) > runtime::cuda::kMostBatch) {
    choice.remark = what + "has " + std::to_string(batch) +
                    " samples, which cannot be divided for cuDNN, whose " +
                    "kernels take 65535 at most: it runs on a kernel without tensor cores";
    return;
  }
  if (const int64_t bytes = cudaWorkspaceBytes(fused); bytes > runtime::cuda::kMostAttentionBytes) {
    choice.remark = what + "would hold " + std::to_string(bytes >> 20) +
                    " MiB of scores: it runs on a kernel without tensor cores, which holds none";
    return;
  }
  choice.fields = fused.fields;
  choice.fields.set("name", std::string(reader.unit.name));
  if (first == 0)
    choice.fields.set("results", reader.resultSlots(node));
}

} // namespace

KernelChoice chooseCudaAttention(const UnitReader &reader) {
  KernelChoice choice = chooseAttention(reader);
  fuse(choice, reader, 0);
  return choice;
}

KernelChoice chooseCudaAttentionGradient(const UnitReader &reader) {
  KernelChoice choice = chooseAttentionGradient(reader);
  fuse(choice, reader, 1);
  return choice;
}

} // namespace pdc
