/// Compares cuDNN's attention with the kernels here on the GPU of this machine, at the sizes of
/// networks in bf16, or `fp16`; a line for each difference, and exit status 1. `--even`, `--odd`:
/// every other one of them, so that two processes share the time that plans take. `--small`: sizes
/// for the emulation.
#include "runtime/SmallFloats.h"
#include "runtime/cuda/Launch.h"
#include "testsuite/cuda/AttentionCheck.h"

#include <cudnn.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>

namespace {

using pdc::runtime::AttentionFields;

struct NamedAttention {
  const char *name;
  AttentionFields fields;
  int64_t unseen = -1;
  float added = 0;
};

AttentionFields attentionOf(int64_t batch, int64_t heads, int64_t length, int64_t width) {
  AttentionFields f;
  f.batch = batch, f.heads = f.keyHeads = heads, f.queries = f.keys = length;
  f.width = f.valueWidth = width, f.scale = width == 64 ? 0.125 : 0.3;
  f.rowsFirst = {1, 1, 1, 1};
  return f;
}

std::vector<NamedAttention> namedAttentions(bool isSmall) {
  const int64_t length = isSmall ? 80 : 1024, odd = isSmall ? 13 : 77, width = isSmall ? 8 : 64;
  const int64_t heads = isSmall ? 2 : 12;
  std::vector<NamedAttention> all;
  for (int64_t size : {length, odd}) {
    const AttentionFields plain = attentionOf(4, heads, size, width);
    AttentionFields causal = plain, drops = plain, padding = plain, flags = plain, past = plain;
    causal.causal = 1, causal.rowsFirst = {0, 0, 0, 0};
    drops.causal = 1, drops.ratio = 0.1, drops.samples = 4, drops.key = 5;
    padding.maskStrides = {size, 0, 0, 1};
    flags.boolean = 1, flags.maskStrides = {0, 0, size, 1};
    past.causal = 1, past.past = 16, past.keys = size + 16;
    AttentionFields trained = drops, ofSamples = plain;
    trained.maskStrides = {0, size * size, size, 1}, trained.results = {3};
    ofSamples.maskStrides = {heads * size * size, size * size, size, 1}, ofSamples.results = {3};
    AttentionFields turns = padding, trainedTurns = ofSamples;
    turns.masks = trainedTurns.masks = 2;
    AttentionFields joined = drops, pair = past;
    joined.joined = 3, pair.joined = 2;
    AttentionFields inSteps = joined;
    inSteps.rowsFirst = {2, 2, 2, 2};
    AttentionFields guarded = flags;
    guarded.guarded = 1;
    all.insert(all.end(), {{"plain", plain},
                           {"causal", causal},
                           {"causal, dropout 0.1", drops},
                           {"padding", padding},
                           {"mask of booleans", flags},
                           {"past", past},
                           {"trained mask, causal, dropout 0.1", trained},
                           {"trained mask of each sample", ofSamples},
                           {"masks in turn", turns},
                           {"trained masks in turn", trainedTurns},
                           {"in one tensor", joined},
                           {"in one tensor, rows before the batch", inSteps},
                           {"keys and values in one tensor", pair},
                           {"a row that sees nothing", flags, 5},
                           {"a row that sees nothing, whose result is zeros", guarded, 5},
                           {"scores whose exponentials are zero", padding, -1, -120}});
  }
  // Parts begin at multiples of 16 bytes.
  AttentionFields samples = attentionOf(4, heads, length, width);
  samples.causal = 1, samples.ratio = 0.1, samples.samples = 4, samples.batchTogether = 1;
  AttentionFields some = samples;
  some.keyHeadsTogether = 1;
  AttentionFields ofOne = samples, trained = samples, ofHeads = some;
  ofOne.joined = 3;
  trained.maskStrides = ofHeads.maskStrides = {0, length * length, length, 1};
  trained.results = ofHeads.results = {3};
  all.insert(all.end(), {{"parts of samples", samples},
                         {"parts of heads", some},
                         {"parts of samples of one tensor", ofOne},
                         {"parts of samples, trained mask", trained},
                         {"parts of heads, trained mask", ofHeads}});
  return all;
}

template <class T> int checkAll(bool isSmall, bool even, bool odd) {
  int different = 0, number = 0, checked = 0;
  cudaStream_t stream = nullptr;
  pdc::runtime::cuda::require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                              "cudaStreamCreateWithFlags");
  const int64_t workspace = int64_t(isSmall ? 1 : 512) << 20;
  for (const NamedAttention &one : namedAttentions(isSmall)) {
    if (number++ % 2 ? even : odd)
      continue;
    ++checked;
    const std::vector<std::string> differences =
        pdc::testing::attentionDifferences<T>(one.fields, stream, workspace, one.unseen, one.added);
    for (const std::string &difference : differences)
      std::printf("error: %s, %lld keys: %s\n", one.name, static_cast<long long>(one.fields.keys),
                  difference.c_str());
    different += !differences.empty();
  }
  std::printf("%d of %d attentions differ from cuDNN %zu's\n", different, checked,
              cudnnGetVersion());
  return different ? 1 : 0;
}

} // namespace

int main(int argc, char **argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0); // what was found stays, however this ends
  const std::vector<std::string_view> options(argv + 1, argv + argc);
  const auto has = [&](std::string_view option) { return std::ranges::count(options, option) > 0; };
  const bool isSmall = has("--small"), even = has("--even"), odd = has("--odd");
  try {
    return has("fp16") ? checkAll<pdc::runtime::Float16>(isSmall, even, odd)
                       : checkAll<pdc::runtime::BFloat16>(isSmall, even, odd);
  } catch (const std::exception &error) {
    std::printf("error: %s\n", error.what());
    return 1;
  }
}
