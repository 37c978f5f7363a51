#include "testsuite/cuda/AttentionCheck.h"
#include "testsuite/cuda/Rounding.h"

#include <functional>
#include <initializer_list>
#include <numeric>

namespace pdc::narrow {

TYPED_TEST(Narrow, RowsRound) {
  const Both<TypeParam> x(6 * 70), dy(6 * 70);
  for (int64_t logarithm : {0, 1}) {
    const runtime::SoftmaxFields f{.inner = 2, .logarithm = logarithm, .outer = 3, .size = 70};
    runtime::cuda::Softmax softmax(device, f);
    runtime::cuda::SoftmaxGradient gradient(device, f);
    expectRounds<TypeParam>(
        420, [&](auto &run, auto *y, auto *x) { softmax(run, x, y); }, x);
    expectRounds<TypeParam>(
        420, [&](auto &run, auto *dx, auto *dy, auto *y) { gradient(run, dy, y, dx); }, dy, x);
  }
}

int64_t countOf(std::initializer_list<int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<int64_t>());
}

template <class T>
void expectProductRounds(std::initializer_list<int64_t> a, std::initializer_list<int64_t> b,
                         std::initializer_list<int64_t> y, bool addsMatrix = false) {
  alignas(64) T left[400], right[800], added[400], narrow[400];
  alignas(64) float wide[400];
  const Both<T> drawn(countOf(a) + countOf(b) + countOf(y));
  std::copy_n(drawn.narrow.begin(), countOf(a), left);
  std::copy_n(drawn.narrow.begin() + countOf(a), countOf(b), right);
  std::copy_n(drawn.narrow.end() - countOf(y), countOf(y), added);
  Scratch scratch;
  auto multiply = [&](const char *result, void *to) {
    runtime::MatrixProductFields f;
    f.a = a, f.b = b, f.output = y, f.result = result;
    f.compute = std::is_same_v<T, BFloat16> ? "bf16" : "fp16";
    if (addsMatrix)
      f.bias = y;
    runtime::cuda::MatrixProduct product(runtime::Device{1, 1 << 16}, f);
    if (addsMatrix)
      product(scratch.run, left, right, added, to);
    else
      product(scratch.run, left, right, to);
    finish();
  };
  multiply("fp32", wide);
  multiply("", narrow);
  expectRounded(std::vector<T>(narrow, narrow + countOf(y)),
                std::vector<float>(wide, wide + countOf(y)));
}

/// Also where the library adds up parts of a long product, and where leading dimensions are walked,
/// so that factors and results begin at other multiples of bytes.
TYPED_TEST(Narrow, ProductsRound) {
  expectProductRounds<TypeParam>({5, 70}, {70, 6}, {5, 6});
  expectProductRounds<TypeParam>({2, 3, 2, 3, 4}, {3, 1, 4, 5}, {2, 3, 2, 3, 5});
  expectProductRounds<TypeParam>({2, 3, 2, 3, 5}, {3, 1, 5, 3}, {2, 3, 2, 3, 3});
}

/// The library adds a matrix of 16 bits to results of 16 bits, a kernel of its own to those in f32.
TYPED_TEST(Narrow, ProductsAddMatrices) {
  expectProductRounds<TypeParam>({5, 70}, {70, 6}, {5, 6}, true);
  expectProductRounds<TypeParam>({2, 3, 2, 3, 4}, {3, 1, 4, 5}, {2, 3, 2, 3, 5}, true);
}

TYPED_TEST(Narrow, LayerNormalizationRounds) {
  const Both<TypeParam> x(5 * 84), dy(5 * 84);
  const std::vector<float> scale = numbers(84), bias = numbers(84), mean = numbers(5),
                           inverse = numbers(5);
  runtime::LayerNormalizationFields f;
  f.rows = 5, f.size = 84, f.epsilon = 1e-5;
  runtime::cuda::LayerNormalization forward(device, f);
  runtime::cuda::LayerNormalizationInputGradient input(device, f);
  expectRounds<TypeParam>(
      420, [&](auto &run, auto *y, auto *x) { forward(run, x, scale.data(), bias.data(), y); }, x);
  expectRounds<TypeParam>(
      420,
      [&](auto &run, auto *dx, auto *dy, auto *x) {
        input(run, dy, x, scale.data(), mean.data(), inverse.data(), dx);
      },
      dy, x);
}

TYPED_TEST(Narrow, GroupNormalizationRounds) {
  const Both<TypeParam> x(2 * 6 * 5 * 7), dy(420);
  const std::vector<float> scale = numbers(6), bias = numbers(6), mean = numbers(4),
                           inverse = numbers(4);
  for (int64_t swish : {0, 1}) {
    runtime::GroupNormalizationFields f;
    f.groups = 2, f.input = {2, 6, 5, 7}, f.results = {0}, f.swish = swish;
    runtime::cuda::GroupNormalization forward(device, f);
    runtime::cuda::GroupNormalizationGradient gradient(device, f);
    expectRounds<TypeParam>(
        420, [&](auto &run, auto *y, auto *x) { forward(run, x, scale.data(), bias.data(), y); },
        x);
    expectRounds<TypeParam>(
        420,
        [&](auto &run, auto *dx, auto *dy, auto *x) {
          gradient(run, dy, x, scale.data(), bias.data(), mean.data(), inverse.data(), dx);
        },
        dy, x);
  }
}

TYPED_TEST(Narrow, BatchNormalizationRounds) {
  const Both<TypeParam> x(2 * 6 * 5 * 7), dy(420), y(420);
  const std::vector<float> scale = numbers(6), bias = numbers(6), mean = numbers(6),
                           inverse = numbers(6);
  for (int64_t relu : {0, 1}) {
    runtime::BatchNormalizationFields f;
    f.input = {2, 6, 5, 7}, f.relu = relu, f.results = {0};
    runtime::cuda::BatchNormalization forward(device, f);
    runtime::cuda::BatchNormalizationInference inference(device, f);
    runtime::cuda::BatchNormalizationGradient gradient(device, f);
    expectRounds<TypeParam>(
        420,
        [&](auto &run, auto *y, auto *x) {
          forward(run, x, scale.data(), bias.data(), mean.data(), inverse.data(), y);
        },
        x);
    expectRounds<TypeParam>(
        420,
        [&](auto &run, auto *y, auto *x) {
          inference(run, x, scale.data(), bias.data(), mean.data(), inverse.data(), y);
        },
        x);
    expectRounds<TypeParam>(
        420,
        [&](auto &run, auto *dx, auto *dy, auto *y, auto *x) {
          relu ? gradient(run, dy, y, x, scale.data(), mean.data(), inverse.data(), dx)
               : gradient(run, dy, x, scale.data(), mean.data(), inverse.data(), dx);
        },
        dy, y, x);
  }
}

TYPED_TEST(Narrow, PoolingRounds) {
  const Both<TypeParam> x(2 * 3 * 8 * 6), dy(2 * 3 * 4 * 3);
  for (const char *mode : {"max", "average"}) {
    runtime::PoolingFields f;
    f.input = {2, 3, 8, 6}, f.kernel = {2, 2}, f.mode = mode, f.output = {2, 3, 4, 3};
    f.padsBegin = {0, 0}, f.strides = {2, 2};
    runtime::cuda::Pooling forward(device, f);
    runtime::cuda::PoolingGradient gradient(device, f);
    std::vector<uint8_t> positions(72);
    expectRounds<TypeParam>(
        72, [&](auto &run, auto *y, auto *x) { forward(run, x, y, positions.data()); }, x);
    expectRounds<TypeParam>(
        288, [&](auto &run, auto *dx, auto *dy) { gradient(run, dy, positions.data(), dx); }, dy);
  }
}

TYPED_TEST(Narrow, AttentionRounds) {
  runtime::AttentionFields f;
  f.batch = 1, f.heads = f.keyHeads = 2, f.keys = f.queries = 7, f.width = f.valueWidth = 10;
  f.scale = 0.3, f.rowsFirst = {0, 0, 0, 0}, f.results = {0, 1, 2};
  const Both<TypeParam> q(140), k(140), v(140), y(140), dy(140);
  const std::vector<float> logSums = numbers(14);
  runtime::cuda::Attention forward(device, f);
  runtime::cuda::AttentionGradient gradient(device, f);
  expectRounds<TypeParam>(
      140,
      [&](auto &run, auto *y, auto *q, auto *k, auto *v) {
        forward(run, q, k, v, nullptr, nullptr, y);
      },
      q, k, v);
  expectRounds<TypeParam>(
      420,
      [&](auto &run, auto *to, auto *dy, auto *q, auto *k, auto *v, auto *y) {
        gradient(run, dy, q, k, v, y, logSums.data(), nullptr, nullptr, to, to + 140, to + 280);
      },
      dy, q, k, v, y);
}

/// Queries see keys up to their own, keys serve three heads each, and a mask of numbers leaves out
/// some of them; in parts of a sample, and of some heads.
std::vector<runtime::AttentionFields> fusedAttentions() {
  runtime::AttentionFields plain;
  plain.batch = 2, plain.heads = plain.keyHeads = 3, plain.queries = 5, plain.keys = 7;
  plain.width = plain.valueWidth = 8, plain.scale = 0.3;
  plain.rowsFirst = {0, 0, 0, 0};
  runtime::AttentionFields causal = plain, grouped = plain, masked = plain, all = plain;
  causal.causal = 1;
  grouped.keyHeads = 1, grouped.rowsFirst = {1, 1, 1, 1};
  masked.maskStrides = {7, 0, 0, 1}, masked.rowsFirst = {1, 0, 1, 0};
  all.causal = 1, all.keyHeads = 1, all.maskStrides = {0, 0, 7, 1}, all.rowsFirst = {0, 1, 0, 1};
  // Parts begin at multiples of 16 bytes.
  runtime::AttentionFields samples = all, heads = grouped, both = all;
  samples.queries = heads.queries = both.queries = 8;
  samples.batchTogether = 1;
  heads.heads = 6, heads.keyHeads = 2, heads.keyHeadsTogether = 1;
  both.keyHeads = 3, both.maskStrides = {168, 56, 7, 1};
  both.batchTogether = both.keyHeadsTogether = 1;
  // Dropout, masks of booleans and a past, whole and in parts.
  runtime::AttentionFields drops = grouped, flags = causal, past = masked, every = both;
  drops.ratio = 0.3, drops.samples = 2, drops.key = 5;
  flags.boolean = 1, flags.maskStrides = {7, 0, 0, 1};
  past.causal = 1, past.past = 2;
  every.boolean = every.causal = 1, every.past = 1, every.ratio = 0.25, every.samples = 2;
  runtime::AttentionFields alone = causal;
  alone.past = 2;
  // A mask that is trained: of all samples or of each, in parts too.
  runtime::AttentionFields trained = causal, behind = drops, ofSamples = plain, parts = both;
  trained.maskStrides = behind.maskStrides = {0, 35, 7, 1};
  behind.causal = 1, behind.past = 2;
  ofSamples.maskStrides = {105, 35, 7, 1};
  parts.maskStrides = {0, 56, 7, 1};
  // Samples take two masks in turn, in parts of one and of three of them, and of some heads.
  runtime::AttentionFields turns = masked, trainedTurns = ofSamples, partTurns = both,
                           sampleTurns = ofSamples;
  turns.batch = trainedTurns.batch = partTurns.batch = 4, sampleTurns.batch = 6;
  sampleTurns.queries = 8, sampleTurns.maskStrides = {168, 56, 7, 1}, sampleTurns.batchTogether = 3;
  for (runtime::AttentionFields *f : {&turns, &trainedTurns, &partTurns, &sampleTurns})
    f->masks = 2;
  for (runtime::AttentionFields *f :
       {&trained, &behind, &ofSamples, &parts, &trainedTurns, &partTurns, &sampleTurns})
    f->results = {3};
  // Rows before the batch.
  runtime::AttentionFields steps = drops, stepsInParts = both;
  steps.rowsFirst = {2, 2, 0, 2}, stepsInParts.rowsFirst = {2, 2, 2, 2};
  return {plain, causal, grouped,      masked, all,          samples,   heads,      both,
          drops, flags,  past,         every,  alone,        trained,   behind,     ofSamples,
          parts, steps,  stepsInParts, turns,  trainedTurns, partTurns, sampleTurns};
}

constexpr int64_t kRoomBytes = int64_t(1) << 20;

/// What cuDNN is asked to compute is what the kernels here do in f32, but for the rounding of
/// shares and of the gradients of scores to 16 bits.
TYPED_TEST(Narrow, FusedAttentionIsAttention) {
  for (const runtime::AttentionFields &f : fusedAttentions())
    EXPECT_EQ(testing::attentionDifferences<TypeParam>(f, testStream(), kRoomBytes),
              std::vector<std::string>());
  runtime::AttentionFields flags = fusedAttentions()[1];
  flags.boolean = 1, flags.maskStrides = {0, 0, 7, 1};
  EXPECT_EQ(testing::attentionDifferences<TypeParam>(flags, testStream(), kRoomBytes, 3),
            std::vector<std::string>());
  flags.guarded = 1;
  for (const runtime::Dimensions &order :
       {runtime::Dimensions{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}}) {
    flags.rowsFirst = order;
    EXPECT_EQ(testing::attentionDifferences<TypeParam>(flags, testStream(), kRoomBytes, 3),
              std::vector<std::string>());
  }
}

/// Also by what tells them to be the same on a GPU.
TYPED_TEST(Narrow, AttentionWithoutPlanIsNotCompared) {
  runtime::AttentionFields f = fusedAttentions()[0];
  f.scale = 0.7; // no plan of another test
  setenv("HOST_CUDNN_VERSION", "91000", 1);
  const std::vector<std::string> differences =
      testing::attentionDifferences<TypeParam>(f, testStream(), kRoomBytes);
  unsetenv("HOST_CUDNN_VERSION");
  ASSERT_EQ(differences.size(), 3);
  EXPECT_EQ(differences[2], "the library has no plan for gradients");
}

/// cuDNN 9.10.0 is known to compute attention wrongly, and versions before it want another number
/// for what is not seen.
TYPED_TEST(Narrow, FusedAttentionKnowsVersions) {
  runtime::AttentionFields f = fusedAttentions()[1];
  f.scale = 0.25; // no plan of another test
  const int64_t q = f.batch * f.heads * f.queries * 8, k = f.batch * f.keyHeads * f.keys * 8;
  const Both<TypeParam> queries(q), keys(k), values(k);
  Scratch scratch;
  auto attend = [&](const char *version, double scale, const char *compute) {
    runtime::AttentionFields asked = f;
    asked.compute = compute, asked.scale = scale, asked.name = "attention", asked.results = {0};
    setenv("HOST_CUDNN_VERSION", version, 1);
    runtime::cuda::Attention attention(runtime::Device{1, int64_t(1) << 20}, asked);
    unsetenv("HOST_CUDNN_VERSION");
    std::vector<TypeParam> y(q);
    attention(scratch.run, queries.narrow.data(), keys.narrow.data(), values.narrow.data(), nullptr,
              nullptr, y.data());
    finish();
    return y;
  };
  const char *narrow = std::is_same_v<TypeParam, BFloat16> ? "bf16" : "fp16";
  ::testing::internal::CaptureStderr();
  const std::vector<TypeParam> replaced = attend("91000", 0.25, narrow);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("unit 'attention': cuDNN 91000 has no"),
            std::string::npos);
  EXPECT_EQ(replaced, attend("91000", 0.25, "fp32"));
  const std::vector<TypeParam> older = attend("90800", 0.5, narrow),
                               own = attend("90800", 0.5, "fp32");
  for (size_t i = 0; i < own.size(); ++i)
    ASSERT_NEAR(float(older[i]), float(own[i]), 0x1p-6) << "element " << i;
}

/// Before 9.15.1 those of keys in parts of tiles read too far when a graph is replayed.
TYPED_TEST(Narrow, GradientsOfAttentionKnowVersions) {
  double scale = 0.3;
  auto differences = [&](int64_t keys, const char *version) {
    runtime::AttentionFields f = fusedAttentions()[0];
    f.keys = keys, f.scale = scale += 0.01; // no plan of another test
    setenv("HOST_CUDNN_VERSION", version, 1);
    const std::vector<std::string> all =
        testing::attentionDifferences<TypeParam>(f, testStream(), kRoomBytes);
    unsetenv("HOST_CUDNN_VERSION");
    return all;
  };
  const std::vector<std::string> none, noGradients = {"the library has no plan for gradients"};
  EXPECT_EQ(differences(130, "91500"), noGradients);
  EXPECT_EQ(differences(130, "91501"), none);
  EXPECT_EQ(differences(128, "91500"), none);
}

/// Neighbours in fours and one by one, in a row and beside those of other channels.
TYPED_TEST(Narrow, DropoutRounds) {
  const Both<TypeParam> x(420);
  const std::vector<int64_t> random = {1, 2, 3, 4};
  for (const runtime::Dimensions &shape : {runtime::Dimensions{1, 420}, {2, 210}, {1, 12, 5, 7}})
    for (int64_t channelsLast : {0, 1}) {
      runtime::DropoutFields f;
      f.input = shape, f.key = 7, f.ratio = 0.3;
      f.layout = channelsLast && shape.size() > 2 ? "acdb" : "";
      runtime::cuda::Dropout dropout(device, f);
      expectRounds<TypeParam>(
          420, [&](auto &run, auto *y, auto *x) { dropout(run, x, random.data(), y); }, x);
    }
}

/// Sums of 16 bits are f32.
TYPED_TEST(Narrow, SumsAreWhole) {
  const Both<TypeParam> x(60 * 7);
  Scratch scratch;
  auto expectSame = [&](int64_t count, auto call) {
    std::vector<float> first(size_t(count), 0), second(size_t(count), 0);
    call(x.narrow.data(), first.data());
    call(x.wide.data(), second.data());
    finish();
    EXPECT_EQ(first, second);
  };
  runtime::ColumnSumFields columns;
  columns.input = {60, 7};
  runtime::cuda::ColumnSum columnSum(device, columns);
  expectSame(7, [&](auto *x, float *y) { columnSum(scratch.run, x, y, false); });
  runtime::ReduceSumFields rows;
  rows.keptShape = {60}, rows.keptStrides = {7}, rows.sumShape = {7}, rows.sumStrides = {1};
  runtime::cuda::ReduceSum rowSum(device, rows);
  expectSame(60, [&](auto *x, float *y) { rowSum(scratch.run, x, y, false); });
  expectSame(60, [&](auto *x, float *y) { rowSum(scratch.run, x, y, true); });
  runtime::GatherFields picks;
  picks.count = 60, picks.inner = 7, picks.outer = 1, picks.size = 5;
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < 60; ++i)
    indices.push_back(i * 7 % 5);
  runtime::cuda::GatherGradient gather(device, picks);
  expectSame(35, [&](auto *dy, float *dx) { gather(scratch.run, indices.data(), dy, dx, false); });
}

/// Of a loss whose targets are numbers, not classes.
TEST(LossWeight, CountsNumbers) {
  for (int64_t count : {7, 9000}) {
    const Both<BFloat16> targets(count);
    Scratch scratch;
    float weight = 0;
    runtime::LossWeightFields f;
    f.count = count;
    runtime::cuda::LossWeight(device, f)(scratch.run, targets.wide.data(), &weight);
    finish();
    EXPECT_EQ(weight, float(count));
  }
}

/// Numbers between two of a type go to the nearest, halves to the even one.
TYPED_TEST(Narrow, RoundsToNearest) {
  const float step = std::is_same_v<TypeParam, BFloat16> ? 0x1p-7f : 0x1p-10f;
  EXPECT_EQ(float(TypeParam(1 + step / 2)), 1);
  EXPECT_EQ(float(TypeParam(1 + step * 1.5f)), 1 + 2 * step);
  EXPECT_EQ(float(TypeParam(1 + step * 0.51f)), 1 + step);
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    TypeParam value;
    value.bits = uint16_t(bits);
    if (float(value) == float(value)) { // a number
      ASSERT_EQ(TypeParam(float(value)), value) << bits;
    }
  }
}

} // namespace pdc::narrow
