/// Compares what cuBLASLt's one kernel makes of a matrix product and what stands beside it with
/// what the two kernels here make, on the GPU of this machine and at the sizes of networks: a line
/// for each with the least microseconds of both, in turns, and with how many elements differ. Then
/// whether each of the library's kernels for sums of many terms adds up all of them, and to the
/// same bits each time: a line for each that does not. Exit status 1 where anything differs.
/// `--small`: sizes for the emulation.
#include "runtime/Error.h"
#include "runtime/SmallFloats.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/MatrixProductPlan.h"
#include "testsuite/cuda/DeviceTensor.h"
#include "testsuite/cuda/ProductTerms.h"

#include <cublasLt.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

using pdc::runtime::Device;
using pdc::runtime::MatrixProductFields;
using pdc::runtime::Run;
using pdc::runtime::cuda::MatrixProductPlan;
using pdc::runtime::cuda::ProductEpilogue;
using pdc::runtime::cuda::require;
using pdc::testing::computeOf;
using pdc::testing::DeviceTensor;
using pdc::testing::SumSizes;

/// A layer: rows of `inner` numbers become rows of `outer`.
struct Sizes {
  int64_t rows, inner, outer;
};

/// How the results are made, and how often they are timed.
struct Place {
  cudaStream_t stream;
  Device device;
  Run run;
  int turns;
};

/// Of what a factor or a result is rounded to.
template <class T> double stepOf() {
  return std::is_same_v<T, pdc::runtime::BFloat16> ? 0x1p-8 : 0x1p-10;
}

template <class T> std::vector<T> drawn(int64_t count, float spread) {
  static std::mt19937 random(1);
  std::uniform_real_distribution<float> between(-spread, spread);
  std::vector<T> values(static_cast<size_t>(count));
  std::ranges::generate(values, [&] { return T(between(random)); });
  return values;
}

double microseconds(const Place &place, const std::function<void()> &work) {
  cudaEvent_t begin = nullptr, end = nullptr;
  require(cudaEventCreateWithFlags(&begin, cudaEventDefault), "cudaEventCreateWithFlags");
  require(cudaEventCreateWithFlags(&end, cudaEventDefault), "cudaEventCreateWithFlags");
  work();
  require(cudaEventRecord(begin, place.stream), "cudaEventRecord");
  for (int turn = 0; turn < place.turns; ++turn)
    work();
  require(cudaEventRecord(end, place.stream), "cudaEventRecord");
  require(cudaEventSynchronize(end), "cudaEventSynchronize");
  float milliseconds = 0;
  require(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return 1e3 * milliseconds / place.turns;
}

/// How many elements are further apart than `room` of the larger of 1 and what is expected.
template <class T>
int64_t countDifferences(const DeviceTensor<T> &one, const DeviceTensor<T> &two, double room) {
  const std::vector<T> found = one.read(), expected = two.read();
  int64_t different = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const double value = float(expected[i]);
    different += !(std::abs(float(found[i]) - value) <= room * std::max(1.0, std::abs(value)));
  }
  return different;
}

/// Tells what one way and the other take and by how many elements they differ; returns those.
class Comparison {
public:
  Comparison(const Place &place, const char *what, const char *compute, const Sizes &sizes)
      : place(place) {
    std::printf("%s, %lld x %lld x %lld, %s: ", what, static_cast<long long>(sizes.rows),
                static_cast<long long>(sizes.inner), static_cast<long long>(sizes.outer), compute);
    std::fflush(stdout);
  }

  /// `count`: of differing elements, once both have run; it may run the first way once more.
  int64_t tell(const MatrixProductFields &fields, ProductEpilogue epilogue,
               const std::function<void(MatrixProductPlan &)> &one,
               const std::function<void()> &two,
               const std::function<int64_t(MatrixProductPlan &)> &count) {
    std::optional<MatrixProductPlan> plan;
    try {
      plan.emplace(place.device, fields, epilogue);
    } catch (const pdc::runtime::Error &) {
      std::printf("the library has no kernel\n");
      return 0;
    }
    double together = HUGE_VAL, apart = HUGE_VAL;
    for (int round = 0; round < 3; ++round) {
      together = std::min(together, microseconds(place, [&] { one(*plan); }));
      apart = std::min(apart, microseconds(place, two));
    }
    const int64_t different = count(*plan);
    std::printf("%.1f microseconds in one kernel, %.1f in two", together, apart);
    if (different)
      std::printf("; error: %lld elements differ", static_cast<long long>(different));
    std::printf("\n");
    return different;
  }

private:
  const Place &place;
};

template <class T> MatrixProductFields layerOf(const Sizes &s) {
  MatrixProductFields f;
  f.a = {s.rows, s.inner}, f.b = {s.outer, s.inner}, f.output = {s.rows, s.outer}, f.transB = 1;
  f.alpha = 0.5, f.compute = computeOf<T>(), f.name = "product";
  return f;
}

template <class T> int64_t checkGelu(const Place &place, const Sizes &s, bool isKept) {
  MatrixProductFields f = layerOf<T>(s);
  f.bias = {1, s.outer}, f.keepsArgument = isKept;
  const DeviceTensor<T> a(place.stream, drawn<T>(s.rows * s.inner, 1)),
      b(place.stream, drawn<T>(s.outer * s.inner, 2 / std::sqrt(float(s.inner)))),
      bias(place.stream, drawn<T>(s.outer, 1));
  const DeviceTensor<T> of(place.stream, s.rows * s.outer), y(place.stream, s.rows * s.outer),
      ofApart(place.stream, s.rows * s.outer), yApart(place.stream, s.rows * s.outer);
  pdc::runtime::cuda::GeluProduct apart(place.device, f);
  return Comparison(place, isKept ? "gelu of what is kept" : "gelu", f.compute, s)
      .tell(
          f, isKept ? ProductEpilogue::geluKept : ProductEpilogue::gelu,
          [&](MatrixProductPlan &plan) {
            plan(place.run, a.data(), b.data(), bias.data(), y.data(), false,
                 isKept ? of.data() : nullptr);
          },
          [&] {
            if (isKept)
              apart(place.run, a.data(), b.data(), bias.data(), ofApart.data(), yApart.data());
            else
              apart(place.run, a.data(), b.data(), bias.data(), yApart.data());
          },
          [&](MatrixProductPlan &) {
            return countDifferences(y, yApart, 2 * stepOf<T>()) +
                   (isKept ? countDifferences(of, ofApart, 2 * stepOf<T>()) : 0);
          });
}

template <class T> int64_t checkGeluGradient(const Place &place, const Sizes &s) {
  const MatrixProductFields f = layerOf<T>(s);
  const DeviceTensor<T> a(place.stream, drawn<T>(s.rows * s.inner, 1)),
      b(place.stream, drawn<T>(s.outer * s.inner, 2 / std::sqrt(float(s.inner)))),
      of(place.stream, drawn<T>(s.rows * s.outer, 3));
  const DeviceTensor<T> y(place.stream, s.rows * s.outer), yApart(place.stream, s.rows * s.outer);
  pdc::runtime::cuda::GeluGradientProduct apart(place.device, f);
  return Comparison(place, "gelu gradient", f.compute, s)
      .tell(
          f, ProductEpilogue::geluGradient,
          [&](MatrixProductPlan &plan) {
            plan(place.run, a.data(), b.data(), nullptr, y.data(), false, of.data());
          },
          [&] { apart(place.run, a.data(), b.data(), of.data(), yApart.data()); },
          [&](MatrixProductPlan &) { return countDifferences(y, yApart, 4 * stepOf<T>()); });
}

/// The gradients of a layer's weight, {outer, inner} or the other way round, and of its bias.
template <class T> int64_t checkSums(const Place &place, const Sizes &s, bool ofA) {
  MatrixProductFields f;
  f.a = {s.rows, ofA ? s.outer : s.inner}, f.b = {s.rows, ofA ? s.inner : s.outer};
  f.output = {f.a.back(), f.b.back()}, f.transA = 1, f.sums = 1, f.result = "fp32";
  f.columnSums = ofA ? "a" : "b", f.compute = computeOf<T>(), f.name = "product";
  const DeviceTensor<T> a(place.stream, drawn<T>(s.rows * f.a.back(), 1)),
      b(place.stream, drawn<T>(s.rows * f.b.back(), 1));
  const DeviceTensor<float> sums(place.stream, s.outer), sumsApart(place.stream, s.outer),
      doubled(place.stream, s.outer), y(place.stream, s.inner * s.outer),
      yApart(place.stream, s.inner * s.outer);
  pdc::runtime::cuda::SummedProduct apart(place.device, f);
  const double room = stepOf<T>() * std::sqrt(double(s.rows));
  return Comparison(place, ofA ? "sums of a" : "sums of b", f.compute, s)
      .tell(
          f, ofA ? ProductEpilogue::sumsOfA : ProductEpilogue::sumsOfB,
          [&](MatrixProductPlan &plan) {
            plan(place.run, a.data(), b.data(), nullptr, y.data(), false, sums.data());
          },
          [&] { apart(place.run, a.data(), b.data(), sumsApart.data(), yApart.data(), false); },
          [&](MatrixProductPlan &plan) {
            const int64_t first =
                countDifferences(y, yApart, room) + countDifferences(sums, sumsApart, room);
            // The second microbatch: the product is added, the sums are made anew.
            plan(place.run, a.data(), b.data(), nullptr, y.data(), true, sums.data());
            apart(place.run, a.data(), b.data(), doubled.data(), yApart.data(), true);
            return first + countDifferences(y, yApart, 2 * room) +
                   countDifferences(sums, sumsApart, room);
          });
}

template <class T> int64_t checkAll(const Place &place, const Sizes &sizes) {
  int64_t different = checkGeluGradient<T>(place, sizes);
  for (bool first : {true, false})
    different += checkGelu<T>(place, sizes, first) + checkSums<T>(place, sizes, first);
  return different;
}

/// The terms are those of vocabularies, of rows of ViT's patches, and a prime number.
std::vector<SumSizes> longSums(bool isSmall) {
  using Numbers = std::vector<int64_t>;
  std::vector<SumSizes> all;
  for (int64_t terms : isSmall ? Numbers{197, 41} : Numbers{30522, 50257, 197 * 7, 4099})
    for (int64_t rows : isSmall ? Numbers{3, 8} : Numbers{32, 100, 512})
      all.push_back({rows, terms, isSmall ? 4 : 64});
  return all;
}

/// How many kernels and products are wrong.
template <class T> int64_t checkLongSums(const Place &place, bool isSmall) {
  const pdc::testing::ProductPlace there{place.device, place.run};
  std::vector<std::string> differences = pdc::testing::lostTerms<T>(there, longSums(isSmall));
  const SumSizes repeated = isSmall ? SumSizes{8, 197, 8} : SumSizes{256, 50257, 256};
  for (const std::string &difference : pdc::testing::changedBits<T>(there, repeated, 20))
    differences.push_back(difference);
  for (const std::string &difference : differences)
    std::printf("error: %s\n", difference.c_str());
  std::printf("sums of up to %lld terms, %s: %zu are wrong\n",
              static_cast<long long>(repeated.terms), computeOf<T>(), differences.size());
  return int64_t(differences.size());
}

int64_t checkAll(bool isSmall) {
  const int64_t bytes = int64_t(isSmall ? 1 : 64) << 20;
  Place place{nullptr, Device{1, bytes}, {}, isSmall ? 1 : 20};
  require(cudaStreamCreateWithFlags(&place.stream, cudaStreamNonBlocking),
          "cudaStreamCreateWithFlags");
  const auto workspace = DeviceTensor<uint8_t>::unset(place.stream, bytes);
  place.run.queue = place.stream;
  place.run.scratchBase = reinterpret_cast<std::byte *>(workspace.data());
  const Sizes layer = isSmall ? Sizes{40, 16, 24} : Sizes{8192, 768, 3072};
  const int64_t different = checkAll<float>(place, layer) +
                            checkAll<pdc::runtime::BFloat16>(place, layer) +
                            checkAll<pdc::runtime::Float16>(place, layer);
  std::printf("%lld elements differ from cuBLASLt %zu's\n", static_cast<long long>(different),
              cublasLtGetVersion());
  return different + checkLongSums<float>(place, isSmall) +
         checkLongSums<pdc::runtime::BFloat16>(place, isSmall) +
         checkLongSums<pdc::runtime::Float16>(place, isSmall);
}

} // namespace

int main(int argc, char **argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0); // what was found stays, however this ends
  try {
    return checkAll(argc > 1 && std::string_view(argv[1]) == "--small") ? 1 : 0;
  } catch (const std::exception &error) {
    std::printf("error: %s\n", error.what());
    return 1;
  }
}
