#include "compiler/devices/Rules.h"
#include "runtime/cuda/AttentionPlan.h"
#include "testsuite/cuda/HostDevice.h"

#include <gtest/gtest.h>

/// What cuDNN itself says to the runtime's attention on an H200, asked without one. The library
/// compiles these kernels when a plan is made; a driver without a device (HostDriver.cpp) takes
/// them, and the plan then says what it needs.
namespace pdc {

namespace {

using runtime::AttentionFields;
using runtime::cuda::AttentionPlan;

struct Asked {
  int64_t batch, heads, keyHeads, queries, keys, width;
  bool isCausal;
  std::vector<int64_t> maskStrides = {};
  const char *compute = "bf16";
  int64_t batchTogether = 0, keyHeadsTogether = 0;
  double ratio = 0;
  int64_t past = 0, boolean = 0, joined = 0;
  bool isTrained = false; ///< the mask
};

/// GPT-2, BERT-large with its mask, heads of keys that serve others, sizes that are no multiple of
/// anything, the widest heads, gradients in parts of samples and of heads, and what the runtime
/// makes masks of: dropout, also in parts, booleans and a past; operands in one tensor; masks that
/// are trained, of all samples (T5) and of each.
const Asked kAsked[] = {
    {8, 12, 12, 1024, 1024, 64, true},
    {8, 16, 16, 384, 384, 64, false, {384, 0, 0, 1}},
    {2, 12, 4, 256, 256, 128, true, {}, "fp16"},
    {3, 6, 2, 33, 77, 40, false, {0, 0, 77, 1}, "fp16"},
    {2, 4, 4, 128, 128, 256, false},
    {32, 4, 4, 4096, 4096, 64, true, {}, "bf16", 1, 4},
    {2, 64, 16, 4096, 4096, 64, false, {4096, 0, 0, 1}, "bf16", 1, 1},
    {8, 12, 12, 1024, 1024, 64, true, {}, "bf16", 4, 12, 0.1},
    {4, 16, 16, 384, 384, 64, false, {384, 0, 0, 1}, "fp16", 0, 0, 0.1, 0, 1},
    {2, 12, 4, 256, 320, 64, true, {}, "bf16", 0, 0, 0, 64},
    {16, 12, 12, 1024, 1024, 64, true, {}, "bf16", 8, 12, 0, 0, 0, 3},
    {4, 16, 4, 384, 384, 64, false, {384, 0, 0, 1}, "fp16", 0, 0, 0.1, 0, 0, 3},
    {3, 6, 2, 33, 77, 40, false, {0, 0, 77, 1}, "fp16", 0, 0, 0, 0, 0, 2},
    {32, 12, 12, 512, 512, 64, true, {0, 262144, 512, 1}, "bf16", 16, 12, 0.1, 0, 0, 0, true},
    {3, 6, 2, 33, 77, 40, true, {0, 2541, 77, 1}, "fp16", 0, 0, 0, 44, 0, 0, true},
    {64, 3, 3, 49, 49, 32, false, {7203, 2401, 49, 1}, "bf16", 0, 0, 0, 0, 0, 3, true},
};

AttentionFields fieldsOf(const Asked &a, int64_t rowsFirst) {
  AttentionFields f;
  f.batch = a.batch, f.heads = a.heads, f.keyHeads = a.keyHeads;
  f.queries = a.queries, f.keys = a.keys, f.width = f.valueWidth = a.width;
  f.causal = a.isCausal, f.compute = a.compute, f.name = "asked", f.scale = 0.125;
  f.maskStrides = a.maskStrides;
  f.batchTogether = a.batchTogether, f.keyHeadsTogether = a.keyHeadsTogether;
  f.ratio = a.ratio, f.past = a.past, f.boolean = a.boolean, f.joined = a.joined;
  if (a.isTrained)
    f.results = {0, 1, 2, 3};
  f.rowsFirst = {rowsFirst, rowsFirst, rowsFirst, rowsFirst};
  return f;
}

size_t roomOf(const Asked &a, bool isGradient) {
  KernelChoice choice;
  choice.kernel = isGradient ? "AttentionGradient" : "Attention";
  choice.fields = {{"batch", a.batch}, {"compute", std::string(a.compute)},
                   {"heads", a.heads}, {"keyHeads", a.keyHeads},
                   {"keys", a.keys},   {"queries", a.queries},
                   {"width", a.width}};
  choice.fields.set("boolean", a.boolean), choice.fields.set("past", a.past);
  choice.fields.set("results",
                    a.isTrained ? std::vector<int64_t>{0, 1, 2, 3} : std::vector<int64_t>{0, 1, 2});
  choice.fields.set("causal", int64_t(a.isCausal));
  if (!a.maskStrides.empty())
    choice.fields.set("maskStrides", a.maskStrides);
  if (a.ratio > 0)
    choice.fields.set("ratio", a.ratio);
  if (a.batchTogether > 0) {
    choice.fields.set("batchTogether", a.batchTogether);
    choice.fields.set("keyHeadsTogether", a.keyHeadsTogether);
  }
  return size_t(cudaWorkspaceBytes(choice) - runtime::cuda::kWorkspaceAlignment);
}

} // namespace

/// Results alone, results with their rows' sums, and gradients with sums in a fixed order have
/// kernels within the workspace that the compiler plans.
TEST(CudnnAttention, HasKernelsWithinTheWorkspace) {
  const runtime::cuda::Descriptor properties = h200();
  int64_t order = 0;
  for (const Asked &asked : kAsked) {
    ++order;
    for (auto use : {AttentionPlan::Use::results, AttentionPlan::Use::resultsAndSums,
                     AttentionPlan::Use::gradients}) {
      const size_t room = roomOf(asked, use == AttentionPlan::Use::gradients);
      const AttentionPlan plan({nullptr, &properties}, {true, true, room},
                               fieldsOf(asked, ++order % 3), use);
      EXPECT_TRUE(bool(plan)) << asked.queries << " queries, use " << int(use) << ", of "
                              << plan.candidates() << " kernels";
      EXPECT_LE(plan.workspaceBytes(), int64_t(room));
    }
  }
}

/// Too little workspace leaves no plan: the runtime then takes its own kernel.
TEST(CudnnAttention, SaysWhereThereIsNone) {
  const runtime::cuda::Descriptor properties = h200();
  const AttentionPlan plan({nullptr, &properties}, {true, true, 4096}, fieldsOf(kAsked[0], 1),
                           AttentionPlan::Use::gradients);
  EXPECT_FALSE(bool(plan));
  EXPECT_GT(plan.candidates(), 0u);
}

} // namespace pdc
