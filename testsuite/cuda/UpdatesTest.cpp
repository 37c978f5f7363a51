#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Launch.h"
#include "runtime/cuda/Sums.h"
#include "testsuite/kernels/KernelMakers.h"
#include "testsuite/kernels/UnitCase.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <vector>

/// Weights of a task that share a kernel, against the formula written down in f64.
namespace pdc::runtime {

namespace {

struct Weight {
  int64_t count;
  double decay;
  std::vector<float, LineAllocator<float>> w, g, v, squares, nextW, nextV, nextSquares;

  Weight(int64_t count, double decay, int64_t number)
      : count(count), decay(decay), w(size_t(count)), g(w), v(w), squares(w.size(), 1), nextW(w),
        nextV(w), nextSquares(w) {
    for (int64_t i = 0; i < count; ++i) {
      w[i] = float((i * 7 + number) % 13 - 6) / 8;
      g[i] = float((i * 5 + number) % 11 - 5) / 4;
      v[i] = float((i * 3 + number) % 7 - 3) / 16;
    }
  }
};

constexpr float kScale = 0.5f, kRate = 0.125f, kStep = 3;

/// Every third weight is not decayed, as biases are; every length ends a block or a quad elsewhere.
std::vector<Weight> drawWeights(int64_t count) {
  std::vector<Weight> weights;
  const int64_t lengths[] = {1, 3, 4, 5, 255, 1027, 4095, 4096, 4097, 12289};
  for (int64_t n = 0; n < count; ++n)
    weights.emplace_back(lengths[n % 10], n % 3 ? 0.25 : 0.0, n);
  return weights;
}

/// How many kernels run for what `task` puts into a stream.
template <class Task> size_t kernelsOf(Task task) {
  cudaStream_t stream = testStream();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  task(started(Run()));
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  size_t count = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  return count;
}

void updateBySgd(const Run &run, std::vector<Weight> &weights) {
  cuda::Updates updates(run);
  for (Weight &x : weights) {
    cuda::SgdUpdate update(Device(), {.count = x.count, .weight_decay = x.decay});
    update(updates, x.w.data(), x.g.data(), &kScale, &kRate, x.nextW.data());
  }
  updates.launch();
}

} // namespace

TEST(Updates, ShareAKernel) {
  std::vector<Weight> weights = drawWeights(cuda::kMostUpdated);
  EXPECT_EQ(kernelsOf([&](const auto &run) { updateBySgd(run, weights); }), 1u);
  std::vector<Weight> more = drawWeights(cuda::kMostUpdated + 1);
  EXPECT_EQ(kernelsOf([&](const auto &run) { updateBySgd(run, more); }), 2u);
}

TEST(Updates, ComputeWhatEachAloneDoes) {
  std::vector<Weight> weights = drawWeights(cuda::kMostUpdated + 7);
  updateBySgd(started(runtime::Run()), weights);
  finish();
  for (const Weight &x : weights)
    for (int64_t i = 0; i < x.count; ++i) {
      const double next = x.w[i] - kRate * (x.g[i] * kScale + x.decay * x.w[i]);
      ASSERT_EQ(x.nextW[i], float(next)) << i << " of " << x.count;
    }
}

namespace {

/// A number that is none is told of wherever it lies, and not before.
template <class Step> void expectToldOfNaN(Step step) {
  for (size_t broken : {0, 5, 9})
    for (double place : {0.0, 0.5, 1.0}) {
      std::vector<Weight> weights = drawWeights(10);
      int lost = 0;
      runtime::Run told;
      told.lost = &lost;
      step(started(told), weights);
      finish();
      EXPECT_EQ(lost, 0);
      Weight &x = weights[broken];
      x.g[size_t(place * double(x.count - 1))] = std::numeric_limits<float>::quiet_NaN();
      step(started(told), weights);
      finish();
      EXPECT_EQ(lost, 1) << "weight " << broken << " at " << place;
    }
}

/// Of a rule with one state.
template <class Update, class Fields>
void updateWithState(const Run &run, std::vector<Weight> &weights) {
  cuda::Updates updates(run);
  for (Weight &x : weights)
    Update(Device(), Fields{.count = x.count, .weight_decay = x.decay})(
        updates, x.w.data(), x.g.data(), x.squares.data(), &kScale, &kRate, &kStep, x.nextW.data(),
        x.nextSquares.data());
  updates.launch();
}

void updateByAdam(const Run &run, std::vector<Weight> &weights) {
  cuda::Updates updates(run);
  for (Weight &x : weights)
    cuda::AdamUpdate(Device(), {.count = x.count})(
        updates, x.w.data(), x.g.data(), x.v.data(), x.squares.data(), &kScale, &kRate, &kStep,
        x.nextW.data(), x.nextV.data(), x.nextSquares.data());
  updates.launch();
}

} // namespace

TEST(Updates, TellOfNaN) {
  expectToldOfNaN(updateBySgd);
  expectToldOfNaN(updateWithState<cuda::MomentumUpdate, MomentumUpdateFields>);
  expectToldOfNaN(updateWithState<cuda::AdagradUpdate, AdagradUpdateFields>);
  expectToldOfNaN(updateByAdam);
}

/// Weights of other rules and of other numbers are launched apart, each by its own.
TEST(Updates, OfSeveralRules) {
  std::vector<Weight> weights = drawWeights(9);
  const float otherRate = 0.25f;
  const runtime::Run run = started(runtime::Run());
  cuda::Updates updates(run);
  for (size_t n = 0; n < weights.size(); ++n) {
    Weight &x = weights[n];
    if (n % 3 == 0) {
      cuda::SgdUpdate update(Device(), {.count = x.count, .weight_decay = x.decay});
      update(updates, x.w.data(), x.g.data(), &kScale, &otherRate, x.nextW.data());
    } else {
      cuda::MomentumUpdate update(
          Device(),
          {.count = x.count, .momentum = n % 3 == 1 ? 0.5 : 0.75, .weight_decay = x.decay});
      update(updates, x.w.data(), x.g.data(), x.v.data(), &kScale, &kRate, &kStep, x.nextW.data(),
             x.nextV.data());
    }
  }
  updates.launch();
  finish();
  for (size_t n = 0; n < weights.size(); ++n) {
    const Weight &x = weights[n];
    for (int64_t i = 0; i < x.count; ++i) {
      const double gradient = x.g[i] * kScale + x.decay * x.w[i];
      const double velocity = (n % 3 == 1 ? 0.5 : 0.75) * x.v[i] + gradient;
      const double next = n % 3 == 0 ? x.w[i] - otherRate * gradient : x.w[i] - kRate * velocity;
      ASSERT_NEAR(x.nextW[i], next, 1e-6) << "weight " << n << ", element " << i;
      ASSERT_EQ(x.nextV[i], n % 3 == 0 ? 0 : float(velocity)) << "weight " << n;
    }
  }
}

/// More gradients than one kernel takes, none, one and several blocks long: a number that is none
/// is found wherever it is, in a kernel for each thousand of them.
TEST(Gradients, AreTestedTogether) {
  std::vector<std::vector<float>> tensors;
  for (int64_t n = 0; n < 1030; ++n)
    tensors.emplace_back(n % 97 == 0 ? 40001 : n % 5);
  float answer = 2;
  auto test = [&](const runtime::Run &run) {
    const std::vector<std::span<const float>> all(tensors.begin(), tensors.end());
    cuda::testFinite(cuda::streamOf(run), all, &answer);
  };
  auto areFinite = [&] {
    test(started(runtime::Run()));
    finish();
    return answer;
  };
  EXPECT_EQ(kernelsOf(test), 3u);
  EXPECT_EQ(areFinite(), 1);
  for (size_t tensor : {size_t(97), size_t(1029)})
    for (size_t element : {size_t(0), tensors[tensor].size() - 1}) {
      tensors[tensor][element] = std::numeric_limits<float>::infinity();
      EXPECT_EQ(areFinite(), 0) << "element " << element << " of tensor " << tensor;
      tensors[tensor][element] = 0;
    }
  EXPECT_EQ(areFinite(), 1);
}

/// More tensors than one kernel takes, none, short ones and long ones, some of several terms.
TEST(Gradients, AreSquaredTogether) {
  std::vector<std::vector<float>> terms;
  std::vector<AddedTensors> tensors;
  std::vector<double> expected;
  std::minstd_rand random(5);
  for (int n = 0; n < 300; ++n) {
    const int64_t count = n % 97 == 5 ? 3'000'001 : n % 7;
    AddedTensors tensor{{}, count};
    std::vector<float> sum(static_cast<size_t>(count));
    for (int term = 0; term < n % 3 + (n == 103 ? 3000 : 0); ++term) {
      std::vector<float> &values = terms.emplace_back(sum.size());
      for (size_t i = 0; i < values.size(); ++i)
        sum[i] += values[i] = float(random() % 2001) / 1000 - 1;
      tensor.terms.push_back(values.data());
    }
    tensors.push_back(tensor);
    expected.push_back(std::transform_reduce(sum.begin(), sum.end(), 0.0, std::plus(),
                                             [](float x) { return double(x) * x; }));
  }
  std::vector<double> workspace(size_t(cuda::squaresBytes()) / sizeof(double));
  size_t first = 0, calls = 0;
  for (size_t count = 0; first < tensors.size(); first += count, ++calls) {
    count = cuda::squaredTogether(std::span(tensors).subspan(first));
    cuda::addSquares(cuda::streamOf(started(runtime::Run())),
                     std::span(tensors).subspan(first, count), workspace.data());
    finish();
    for (size_t i = 0; i < count; ++i)
      EXPECT_NEAR(workspace[i], expected[first + i], 1e-12 * (1 + expected[first + i]))
          << "tensor " << first + i;
  }
  EXPECT_EQ(calls, 3u);
}

} // namespace pdc::runtime
