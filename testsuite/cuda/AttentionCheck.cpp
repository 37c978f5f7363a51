#include "testsuite/cuda/AttentionCheck.h"

#include "runtime/cuda/AttentionPlan.h"
#include "runtime/cuda/Kernels.h"
#include "testsuite/cuda/DeviceTensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <span>
#include <type_traits>

namespace pdc::testing {

namespace {

using runtime::AttentionFields;

/// Values that both types hold.
template <class T> struct BothWidths {
  DeviceTensor<T> narrow;
  DeviceTensor<float> wide;

  BothWidths(cudaStream_t stream, const std::vector<T> &values)
      : narrow(stream, values), wide(stream, std::vector<float>(values.begin(), values.end())) {}
  BothWidths(cudaStream_t stream, int64_t count) : BothWidths(stream, drawn(count)) {}

  static std::vector<T> drawn(int64_t count) {
    static std::mt19937 random(1);
    std::uniform_real_distribution<float> between(-1, 1);
    std::vector<T> values(static_cast<size_t>(count));
    std::ranges::generate(values, [&] { return T(between(random)); });
    return values;
  }
};

/// One past the last element that the strides reach.
int64_t reachedMask(const AttentionFields &f) {
  const auto &s = f.maskStrides;
  return s.empty() ? 0
                   : ((f.masks ? f.masks : f.batch) - 1) * s[0] + (f.heads - 1) * s[1] +
                         (f.queries - 1) * s[2] + (f.keys - 1) * s[3] + 1;
}

/// Hides an eighth of the keys, never the first, and all of the row `unseen`.
template <class Value>
std::vector<Value> checkedMask(const AttentionFields &f, int64_t unseen, float added = 0) {
  std::vector<Value> mask(static_cast<size_t>(reachedMask(f)));
  for (size_t e = 0; e < mask.size(); ++e) {
    const auto at = static_cast<int64_t>(e);
    const bool isHidden = at % f.keys % 8 == 2 || at / f.keys % f.queries == unseen;
    if constexpr (std::is_same_v<Value, float>)
      mask[e] = isHidden ? -1e9f : added + 0.5f + static_cast<float>(at % 97) / 64;
    else
      mask[e] = isHidden ? 0 : 1;
  }
  return mask;
}

template <class T> struct AttentionComparison {
  const AttentionFields wide;
  AttentionFields narrow = wide;
  const cudaStream_t stream;
  const runtime::Device device;
  const int64_t unseen;
  const float added;
  const int64_t queryCount = wide.batch * wide.heads * wide.queries;
  const int64_t keyCount = wide.batch * wide.keyHeads * wide.keys;
  /// Elements of the tensors of queries, keys and values, each with those that it holds besides.
  const std::array<int64_t, 3> sizes = sizesOf(wide);
  const BothWidths<T> q{stream, sizes[0]}, k{stream, sizes[1]}, v{stream, sizes[2]},
      dy{stream, queryCount *wide.valueWidth};
  const BothWidths<T> &keys = wide.joined == 3 ? q : k, &values = wide.joined ? keys : v;
  const DeviceTensor<float> numbers{stream, checkedMask<float>(wide, unseen, added)};
  const DeviceTensor<uint8_t> flags{stream, checkedMask<uint8_t>(wide, unseen)};
  const DeviceTensor<int64_t> drawn{stream, seeds()};
  const DeviceTensor<uint8_t> scratch =
      DeviceTensor<uint8_t>::unset(stream, device.workspaceBytes + 256);
  runtime::Run run;
  std::vector<std::string> differences;

  AttentionComparison(const AttentionFields &f, cudaStream_t stream, int64_t bytes, int64_t unseen,
                      float added)
      : wide(f), stream(stream), device{1, bytes}, unseen(unseen), added(added) {
    narrow.compute = std::is_same_v<T, runtime::BFloat16> ? "bf16" : "fp16";
    narrow.name = "attention";
    run.queue = stream;
    run.scratchBase = reinterpret_cast<std::byte *>(static_cast<uint8_t *>(scratch));
  }

  static std::array<int64_t, 3> sizesOf(const AttentionFields &f) {
    const int64_t ofQueries = f.batch * f.heads * f.queries * f.width,
                  ofKeys = f.batch * f.keyHeads * f.keys * f.width,
                  ofValues = f.batch * f.keyHeads * f.keys * f.valueWidth;
    if (f.joined == 3)
      return {ofQueries + ofKeys + ofValues, 0, 0};
    return {ofQueries, f.joined ? ofKeys + ofValues : ofKeys, f.joined ? 0 : ofValues};
  }

  std::vector<int64_t> seeds() const {
    std::vector<int64_t> seeds(size_t(2 + wide.batch));
    for (size_t i = 0; i < seeds.size(); ++i)
      seeds[i] = 11 + int64_t(i);
    return seeds;
  }
  const void *mask() const {
    return wide.maskStrides.empty() ? nullptr
           : wide.boolean           ? static_cast<const void *>(static_cast<uint8_t *>(flags))
                                    : static_cast<float *>(numbers);
  }
  bool hasTrainedMask() const { return wide.makesMaskGradient(); }
  int64_t maskGradients() const { return hasTrainedMask() ? wide.maskGradientElements() : 0; }
  const int64_t *random() const { return wide.ratio > 0 ? static_cast<int64_t *>(drawn) : nullptr; }

  static double step() { return std::is_same_v<T, runtime::BFloat16> ? 0x1p-8 : 0x1p-11; }

  /// `rowOf`: the query of an element, or -1.
  template <class Found, class RowOf>
  void expectNear(const char *what, const DeviceTensor<Found> &foundThere,
                  const DeviceTensor<float> &expectedThere, double room, RowOf rowOf) {
    const std::vector<Found> found = foundThere.read();
    const std::vector<float> expected = expectedThere.read();
    for (size_t i = 0; i < expected.size(); ++i) {
      const int64_t row = rowOf(static_cast<int64_t>(i));
      const double allowed = room * std::max(1.0, std::abs(double(expected[i])));
      if ((row == unseen && !wide.guarded) || float(found[i]) == float(expected[i]) ||
          std::abs(double(float(found[i])) - double(expected[i])) <= allowed)
        continue;
      differences.push_back(std::string(what) + ": element " + std::to_string(i) + " is " +
                            std::to_string(float(found[i])) + ", expected " +
                            std::to_string(expected[i]) + " within " + std::to_string(allowed));
      return;
    }
  }

  void requirePlan(runtime::cuda::AttentionPlan::Use use, const char *what) {
    if (!runtime::cuda::sharedPlan(device, narrow, use))
      differences.push_back(std::string("the library has no plan for ") + what);
  }

  void compareResults(const DeviceTensor<T> &y, const DeviceTensor<float> &sums,
                      const DeviceTensor<float> &wideY, const DeviceTensor<float> &wideSums) {
    const DeviceTensor<T> alone(stream, queryCount * wide.valueWidth);
    narrow.results = {0, 1};
    requirePlan(runtime::cuda::AttentionPlan::Use::resultsAndSums, "results with their sums");
    runtime::cuda::Attention both(device, narrow);
    both(run, static_cast<T *>(q.narrow), static_cast<T *>(keys.narrow),
         static_cast<T *>(values.narrow), mask(), random(), static_cast<T *>(y),
         static_cast<float *>(sums));
    narrow.results = {0};
    requirePlan(runtime::cuda::AttentionPlan::Use::results, "results");
    runtime::cuda::Attention one(device, narrow);
    one(run, static_cast<T *>(q.narrow), static_cast<T *>(keys.narrow),
        static_cast<T *>(values.narrow), mask(), random(), static_cast<T *>(alone));
    runtime::cuda::Attention own(device, wide);
    own(run, static_cast<float *>(q.wide), static_cast<float *>(keys.wide),
        static_cast<float *>(values.wide), mask(), random(), static_cast<float *>(wideY),
        static_cast<float *>(wideSums));
    const int64_t apart = runtime::AttentionRows(wide, 3).stride();
    const auto rowOfResult = [&](int64_t e) { return e / apart % wide.queries; };
    expectNear("y", y, wideY, 2 * step(), rowOfResult);
    expectNear("y without sums", alone, wideY, 2 * step(), rowOfResult);
    expectNear("logSums", sums, wideSums, 1e-4, [&](int64_t e) { return e % wide.queries; });
  }

  void compareGradients(const DeviceTensor<T> &y, const DeviceTensor<float> &sums,
                        const DeviceTensor<float> &wideY, const DeviceTensor<float> &wideSums) {
    const DeviceTensor<T> dq(stream, sizes[0]), dk(stream, sizes[1]), dv(stream, sizes[2]);
    const DeviceTensor<float> wideQ(stream, sizes[0]), wideK(stream, sizes[1]),
        wideV(stream, sizes[2]);
    const DeviceTensor<float> ofMask(stream, maskGradients()), wideMask(stream, maskGradients());
    AttentionFields gradient = wide;
    gradient.results = wide.joined == 3   ? runtime::Dimensions{0}
                       : wide.joined == 2 ? runtime::Dimensions{0, 1}
                                          : runtime::Dimensions{0, 1, 2};
    if (hasTrainedMask())
      gradient.results.push_back(3);
    narrow.results = gradient.results;
    requirePlan(runtime::cuda::AttentionPlan::Use::gradients, "gradients");
    runtime::cuda::AttentionGradient fused(device, narrow), own(device, gradient);
    // So many results as there are tensors.
    auto call = [&](auto &kernel, auto *dy, auto *q, auto *k, auto *v, auto *y, float *sums,
                    auto *dq, auto *dk, auto *dv, float *ofMask) {
      auto with = [&](auto *...results) {
        hasTrainedMask() ? kernel(run, dy, q, k, v, y, sums, mask(), random(), results..., ofMask)
                         : kernel(run, dy, q, k, v, y, sums, mask(), random(), results...);
      };
      wide.joined == 3 ? with(dq) : wide.joined == 2 ? with(dq, dk) : with(dq, dk, dv);
    };
    call(fused, static_cast<T *>(dy.narrow), static_cast<T *>(q.narrow),
         static_cast<T *>(keys.narrow), static_cast<T *>(values.narrow), static_cast<T *>(y),
         static_cast<float *>(sums), static_cast<T *>(dq), static_cast<T *>(dk),
         static_cast<T *>(dv), static_cast<float *>(ofMask));
    call(own, static_cast<float *>(dy.wide), static_cast<float *>(q.wide),
         static_cast<float *>(keys.wide), static_cast<float *>(values.wide),
         static_cast<float *>(wideY), static_cast<float *>(wideSums), static_cast<float *>(wideQ),
         static_cast<float *>(wideK), static_cast<float *>(wideV), static_cast<float *>(wideMask));
    const auto ofAll = [](int64_t) { return -1; };
    expectNear("dq", dq, wideQ, 6 * step(), ofAll);
    expectNear("dk", dk, wideK, 6 * step(), ofAll);
    expectNear("dv", dv, wideV, 6 * step(), ofAll);
    if (hasTrainedMask())
      expectNear("the mask's gradient", ofMask, wideMask, 6 * step(), ofAll);
  }
};

} // namespace

template <class T>
std::vector<std::string> attentionDifferences(const AttentionFields &fields, cudaStream_t stream,
                                              int64_t workspaceBytes, int64_t unseen, float added) {
  AttentionComparison<T> comparison(fields, stream, workspaceBytes, unseen, added);
  const int64_t count = comparison.queryCount * fields.valueWidth;
  const DeviceTensor<T> y(stream, count);
  const DeviceTensor<float> sums(stream, comparison.queryCount), wideY(stream, count),
      wideSums(stream, comparison.queryCount);
  comparison.compareResults(y, sums, wideY, wideSums);
  if (unseen < 0 || fields.guarded)
    comparison.compareGradients(y, sums, wideY, wideSums);
  return comparison.differences;
}

template std::vector<std::string> attentionDifferences<runtime::BFloat16>(const AttentionFields &,
                                                                          cudaStream_t, int64_t,
                                                                          int64_t, float);
template std::vector<std::string> attentionDifferences<runtime::Float16>(const AttentionFields &,
                                                                         cudaStream_t, int64_t,
                                                                         int64_t, float);

} // namespace pdc::testing
