#include "runtime/kernels/ArgMax.h"
#include "runtime/kernels/Broadcast.h"
#include "runtime/kernels/Concat.h"
#include "runtime/kernels/Gather.h"
#include "runtime/kernels/GatherGradient.h"
#include "runtime/kernels/LayerNormalization.h"
#include "runtime/kernels/LayerNormalizationInputGradient.h"
#include "runtime/kernels/LayerNormalizationScaleGradient.h"
#include "runtime/kernels/Split.h"
#include "runtime/kernels/StridedCopy.h"
#include "testsuite/kernels/Allocations.h"

#include "compiler/operators/Operator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace pdc::runtime {

using Floats = std::vector<float>;

static Floats drawn(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> real(-1, 2);
  Floats values(count);
  for (float &value : values)
    value = real(random);
  return values;
}

static Tensor tensorOf(std::vector<int64_t> shape, const Floats &values) {
  return {{pdc::ElementType::f32, std::move(shape)}, {values.begin(), values.end()}};
}

/// The operators' own reference in double.
static std::vector<Tensor> reference(const char *op, const Attributes &attributes,
                                     const std::vector<Tensor> &inputs, size_t outputs = 1) {
  std::vector<const Tensor *> values;
  std::vector<const TensorType *> types;
  for (const Tensor &input : inputs)
    values.push_back(&input), types.push_back(&input.type);
  NodeView node{op, "test", attributes, types, values, outputs};
  return evaluateNode(*findOperator(op), node, values);
}

static void expectNear(const Floats &found, const Tensor &expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.data.size());
  double most = 0;
  for (double value : expected.data)
    most = std::max(most, std::abs(value));
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected.data[i], tolerance * most) << "element " << i;
}

/// Small rows, rows that are no multiple of a vector, and enough of them for several threads.
TEST(TransformerKernels, LayerNormalization) {
  for (auto [rows, size] : {std::pair<int64_t, int64_t>{1, 1}, {3, 7}, {65, 130}, {400, 64}}) {
    Attributes attributes = {{"axis", int64_t(1)}, {"epsilon", 1e-5}};
    Floats x = drawn(rows * size, 1), scale = drawn(size, 2), bias = drawn(size, 3);
    Floats dy = drawn(rows * size, 4);
    auto forward =
        reference("LayerNormalization", attributes,
                  {tensorOf({rows, size}, x), tensorOf({size}, scale), tensorOf({size}, bias)}, 3);
    Floats mean(rows), inverse(rows);
    for (int64_t r = 0; r < rows; ++r)
      mean[r] = static_cast<float>(forward[1].data[r]),
      inverse[r] = static_cast<float>(forward[2].data[r]);
    Tensor xs = tensorOf({rows, size}, x), dys = tensorOf({rows, size}, dy);
    Tensor means = tensorOf({rows, 1}, mean), inverses = tensorOf({rows, 1}, inverse);
    auto dx = reference("LayerNormalizationInputGrad", attributes,
                        {dys, xs, tensorOf({size}, scale), means, inverses});
    Attributes forScale = attributes;
    forScale.set("scale_shape", std::vector<int64_t>{size});
    auto dscale = reference("LayerNormalizationScaleGrad", forScale, {dys, xs, means, inverses});
    LayerNormalizationFields fields{.epsilon = 1e-5, .rows = rows, .size = size};
    std::vector<Floats> bits;
    for (int threads : {1, 2, 3}) {
      Device device{threads, 0};
      runtime::Run run;
      Floats y(rows * size), m(rows), v(rows), gradient(rows * size), sums(size, 5);
      LayerNormalization(device, fields)(run, x.data(), scale.data(), bias.data(), y.data(),
                                         m.data(), v.data());
      expectNear(y, forward[0], 3e-6);
      expectNear(m, forward[1], 3e-6);
      expectNear(v, forward[2], 3e-6);
      LayerNormalizationInputGradient(device, fields)(run, dy.data(), x.data(), scale.data(),
                                                      mean.data(), inverse.data(), gradient.data());
      expectNear(gradient, dx[0], 2e-5);
      LayerNormalizationScaleGradient gradientOfScale(device, fields);
      gradientOfScale(run, dy.data(), x.data(), mean.data(), inverse.data(), sums.data(), false);
      expectNear(sums, dscale[0], 1e-5);
      Floats twice = sums;
      gradientOfScale(run, dy.data(), x.data(), mean.data(), inverse.data(), twice.data(), true);
      for (int64_t k = 0; k < size; ++k)
        ASSERT_EQ(twice[k], 2 * sums[k]);
      bits.push_back(y);
      bits.back().insert(bits.back().end(), gradient.begin(), gradient.end());
      bits.back().insert(bits.back().end(), sums.begin(), sums.end());
      EXPECT_EQ(bits.back(), bits.front()) << threads << " threads";
    }
  }
}

TEST(TransformerKernels, LayerNormalizationWithoutBiasInPlace) {
  Floats x = drawn(6, 1), scale = {1, 2, 3}, y(6);
  LayerNormalization kernel({1, 0}, {.epsilon = 1e-5, .rows = 2, .size = 3});
  runtime::Run run;
  kernel(run, x.data(), scale.data(), nullptr, y.data());
  kernel(run, x.data(), scale.data(), nullptr, x.data());
  EXPECT_EQ(x, y);
}

TEST(TransformerKernels, BroadcastWalksStrides) {
  // [2,3,4] from [2,1,4] and [3,1], in loops of 24 and of many elements.
  Floats a = drawn(8, 1), b = drawn(3, 2), y(24);
  runtime::Run run;
  broadcast(
      run, Extents<2, 3, 4>(), [](float u, float v) -> float { return u - v; }, y.data(),
      strided<4, 0, 1>(a.data()), strided<0, 1, 0>(b.data()));
  for (int64_t i = 0; i < 24; ++i)
    ASSERT_EQ(y[i], a[i / 12 * 4 + i % 4] - b[i / 4 % 3]);
  constexpr int64_t rows = 500, size = 100;
  Floats x = drawn(rows * size, 3), bias = drawn(size, 4), sum(rows * size);
  broadcast(
      run, Extents<rows, size>(), [](float u, float v) -> float { return u + v; }, sum.data(),
      strided<size, 1>(x.data()), strided<0, 1>(bias.data()));
  for (int64_t i = 0; i < rows * size; ++i)
    ASSERT_EQ(sum[i], x[i] + bias[i % size]);
  std::vector<uint8_t> mask(rows * size);
  broadcast(
      run, Extents<rows * size>(), [](float u, float v) -> uint8_t { return u > v; }, mask.data(),
      strided<1>(x.data()), strided<0>(bias.data()));
  for (int64_t i = 0; i < rows * size; ++i)
    ASSERT_EQ(mask[i], x[i] > bias[0]);
}

TEST(TransformerKernels, BroadcastReadsAndWritesParts) {
  // Of rows of 3 x 5 numbers: in memory of its own, and in place.
  constexpr int64_t rows = 7, size = 5, whole = 3 * size;
  const Floats x = drawn(rows * whole, 1);
  Floats y(rows * whole), z = x, one(rows * size);
  runtime::Run run;
  auto turn = [](float a, float b, float c) { return runtime::results(b - c, c * a, a + b); };
  for (Floats *to : {&y, &z})
    broadcast(run, Extents<rows, size>(), turn,
              into(part<0, whole, 1>(to->data()), part<size, whole, 1>(to->data()),
                   part<2 * size, whole, 1>(to->data())),
              part<0, whole, 1>(to == &z ? z.data() : x.data()),
              part<size, whole, 1>(to == &z ? z.data() : x.data()),
              part<2 * size, whole, 1>(to == &z ? z.data() : x.data()));
  broadcast(
      run, Extents<rows, size>(), [](float a, float b) -> float { return a * b; }, one.data(),
      part<0, whole, 1>(x.data()), part<2 * size, whole, 1>(x.data()));
  for (int64_t i = 0; i < rows * size; ++i) {
    const int64_t at = i / size * whole + i % size;
    const float a = x[at], b = x[at + size], c = x[at + 2 * size];
    EXPECT_EQ(y[at], b - c);
    EXPECT_EQ(y[at + size], c * a);
    EXPECT_EQ(y[at + 2 * size], a + b);
    EXPECT_EQ(one[i], a * c);
  }
  EXPECT_EQ(z, y);
}

TEST(TransformerKernels, LoopsHaveFourResults) {
  constexpr int64_t rows = 9, size = 6, whole = 4 * size;
  const Floats x = drawn(rows * whole, 1);
  Floats y(rows * whole);
  std::array<Floats, 4> apart;
  apart.fill(Floats(rows * whole));
  runtime::Run run;
  broadcast(
      run, Extents<rows, size>(),
      [](float a, float b, float c, float d) { return runtime::results(d, a + c, b, c * d); },
      into(part<0, whole, 1>(y.data()), part<size, whole, 1>(y.data()),
           part<2 * size, whole, 1>(y.data()), part<3 * size, whole, 1>(y.data())),
      part<0, whole, 1>(x.data()), part<size, whole, 1>(x.data()),
      part<2 * size, whole, 1>(x.data()), part<3 * size, whole, 1>(x.data()));
  runtime::elementwise(
      run, rows * whole, [](float a) { return runtime::results(a, -a, a * a, a + 1); },
      apart[0].data(), apart[1].data(), apart[2].data(), apart[3].data(), x.data());
  for (int64_t i = 0; i < rows * size; ++i) {
    const int64_t at = i / size * whole + i % size;
    const float a = x[at], b = x[at + size], c = x[at + 2 * size], d = x[at + 3 * size];
    EXPECT_EQ(y[at], d);
    EXPECT_EQ(y[at + size], a + c);
    EXPECT_EQ(y[at + 2 * size], b);
    EXPECT_EQ(y[at + 3 * size], c * d);
  }
  for (int64_t i = 0; i < rows * whole; ++i) {
    EXPECT_EQ(apart[0][i], x[i]);
    EXPECT_EQ(apart[1][i], -x[i]);
    EXPECT_EQ(apart[2][i], x[i] * x[i]);
    EXPECT_EQ(apart[3][i], x[i] + 1);
  }
}

TEST(TransformerKernels, SplitSkipsWhatNobodyReads) {
  std::vector<int64_t> x(24);
  for (int64_t i = 0; i < 24; ++i)
    x[i] = i;
  std::vector<int64_t> first(8), last(4);
  runtime::Run run;
  Split({2, 0}, {{16, 24, 8}, 4, {0, 2}})(run, x.data(), first.data(), last.data());
  EXPECT_EQ(first, (std::vector<int64_t>{0, 1, 6, 7, 12, 13, 18, 19}));
  EXPECT_EQ(last, (std::vector<int64_t>{5, 11, 17, 23}));
}

/// Repeated indices add up in order, on any number of threads.
TEST(TransformerKernels, GatherGradientKeepsBits) {
  const int64_t count = 300, inner = 200, size = 7;
  std::vector<int64_t> indices(count);
  for (int64_t k = 0; k < count; ++k)
    indices[k] = k * k % size - (k % 2 ? size : 0);
  Floats dy = drawn(count * inner, 1), expected(size * inner, 0);
  for (int64_t k = 0; k < count; ++k)
    for (int64_t i = 0; i < inner; ++i)
      expected[(indices[k] + size) % size * inner + i] += dy[k * inner + i];
  runtime::Run run;
  for (int threads : {1, 2, 3}) {
    Floats dx(size * inner, 9);
    GatherGradient({threads, 0}, {count, inner, 1, size})(run, indices.data(), dy.data(), dx.data(),
                                                          false);
    EXPECT_EQ(dx, expected) << threads;
  }
  indices[5] = size;
  Floats y(count * inner);
  EXPECT_ANY_THROW(
      Gather({1, 0}, {count, inner, 1, size})(run, dy.data(), indices.data(), y.data()));
}

TEST(TransformerKernels, MovesIntegers) {
  const std::vector<int64_t> x = {1, 2, 3, 4, 5, 6};
  std::vector<int64_t> y(6);
  runtime::Run run;
  StridedCopyFields transpose;
  transpose.shape = {3, 2}, transpose.inputStrides = {1, 3}, transpose.outputStrides = {2, 1};
  StridedCopy({1, 0}, transpose)(run, x.data(), y.data());
  EXPECT_EQ(y, (std::vector<int64_t>{1, 4, 2, 5, 3, 6}));
}

/// After their first call. Of the other kernels UnitCase says it.
TEST(TransformerKernels, CallsAllocateNothing) {
  EXPECT_EQ(allocationsOf([] { ::operator delete(::operator new(1)); }).ours, 1);
  const int64_t rows = 300, size = 100, half = size / 2 * sizeof(float);
  const Device device{2, 0};
  runtime::Run run;
  Floats x = drawn(rows * size, 1), y(rows * size), left(rows * size), right(rows * size);
  Floats mean(rows), inverse(rows, 1), scale(size, 1), sums(size);
  std::vector<int64_t> indices(rows);
  const LayerNormalizationFields normal{.epsilon = 1e-5, .rows = rows, .size = size};
  LayerNormalization forward(device, normal);
  LayerNormalizationInputGradient input(device, normal);
  LayerNormalizationScaleGradient gradientOfScale(device, normal);
  Split split(device, {{half, half}, rows, {0, 1}});
  Concat concat(device, {{half, half}, rows});
  Gather gather(device, {rows, size, 1, rows});
  GatherGradient scatter(device, {rows, size, 1, rows});
  ArgMax last(device, {.inner = 1, .last = 0, .outer = rows, .size = size});
  auto calls = [&] {
    forward(run, x.data(), scale.data(), nullptr, y.data(), mean.data(), inverse.data());
    input(run, y.data(), x.data(), scale.data(), mean.data(), inverse.data(), y.data());
    gradientOfScale(run, y.data(), x.data(), mean.data(), inverse.data(), sums.data(), true);
    split(run, x.data(), left.data(), right.data());
    concat(run, left.data(), right.data(), y.data());
    gather(run, x.data(), indices.data(), y.data());
    scatter(run, indices.data(), y.data(), x.data(), true);
    last(run, x.data(), indices.data());
    broadcast(
        run, Extents<300, 100>(), [](float u, float v) -> float { return u + v; }, y.data(),
        strided<100, 1>(x.data()), strided<0, 1>(scale.data()));
    elementwise(
        run, rows * size, [](float u) -> float { return u + 1; }, y.data(), x.data());
  };
  calls();
  EXPECT_EQ(allocationsOf(calls).ours, 0);
}

} // namespace pdc::runtime
