#include "testsuite/cuda/ProductTerms.h"

#include "runtime/Error.h"
#include "runtime/Tuning.h"
#include "runtime/cuda/MatrixProductPlan.h"
#include "testsuite/cuda/DeviceTensor.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <sstream>

namespace pdc::testing {

namespace {

using runtime::MatrixProductFields;
using runtime::cuda::MatrixProductPlan;
using runtime::cuda::require;

/// Sums over rows, as of a weight.
template <class T> MatrixProductFields gradientOf(const SumSizes &s) {
  MatrixProductFields f;
  f.a = {s.terms, s.rows}, f.b = {s.terms, s.columns}, f.output = {s.rows, s.columns};
  f.compute = computeOf<T>(), f.name = "product", f.result = "fp32", f.transA = 1;
  return f;
}

template <class T> int64_t pitchOf(int64_t terms) {
  constexpr int64_t kTogether = 16 / sizeof(T);
  return (terms + kTogether - 1) / kTogether * kTogether;
}

/// Sums within rows.
template <class T> MatrixProductFields layerOf(const SumSizes &s) {
  MatrixProductFields f = gradientOf<T>(s);
  f.a = {s.rows, s.terms}, f.b = {s.columns, s.terms}, f.transA = 0, f.transB = 1;
  f.pitchA = f.pitchB = pitchOf<T>(s.terms);
  return f;
}

/// Has each kernel for a product judged: a tuning's clock, which is told to time each of them,
/// looks at what it makes.
template <class T> class EachKernel {
public:
  EachKernel(const ProductPlace &place)
      : place(place),
        folder(std::filesystem::temp_directory_path() / ("products-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder);
  }
  ~EachKernel() { std::filesystem::remove_all(folder); }

  /// Results that were no numbers before a kernel made them.
  using Make = std::function<std::vector<float>()>;
  /// What is wrong, or nothing.
  using Judge = std::function<std::string(const Make &make)>;

  void judge(const MatrixProductFields &f, const T *a, const T *b, const Judge &judge) {
    const auto stream = runtime::cuda::streamOf(place.run);
    const int64_t elements = f.output[0] * f.output[1];
    const auto y = DeviceTensor<float>::unset(stream, elements);
    std::string problem;
    int kernel = 0;
    auto see = [&](const std::function<void()> &start) {
      const std::string wrong = judge([&] {
        require(cudaMemsetAsync(y.data(), 0xff, size_t(elements) * sizeof(float), stream),
                "cudaMemsetAsync");
        start();
        return y.read();
      });
      if (!wrong.empty())
        differences.push_back(problem + ": kernel " + std::to_string(kernel) + ": " + wrong);
      ++kernel;
      return 1.0;
    };
    runtime::Tuning tuning("this device", see, folder.string(), 0);
    runtime::Device device = place.device;
    device.tuning = &tuning;
    try {
      MatrixProductPlan plan(device, f);
      problem = plan.problem();
      auto start = [&] { plan(place.run, a, b, nullptr, y.data(), false); };
      start();
      if (kernel == 0) // the only one, which is not timed
        see(start);
    } catch (const runtime::Error &error) {
      differences.push_back(error.what());
    }
    require(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); // before y goes
  }

  std::vector<std::string> differences;

private:
  const ProductPlace &place;
  const std::filesystem::path folder;
};

/// How the first that differs does, and how many do.
std::string firstOtherThan(float expected, const std::vector<float> &found) {
  auto differs = [&](float value) { return !(value == expected); };
  const auto first = std::ranges::find_if(found, differs);
  if (first == found.end())
    return "";
  std::ostringstream text;
  text.precision(9);
  text << "element " << first - found.begin() << " is " << *first << ", expected " << expected
       << " (one of " << std::ranges::count_if(found, differs) << " that differ)";
  return text.str();
}

template <class T> std::vector<T> drawn(int64_t count) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> between(-1, 1);
  std::vector<T> values(static_cast<size_t>(count));
  std::ranges::generate(values, [&] { return T(between(random)); });
  return values;
}

} // namespace

template <class T>
std::vector<std::string> lostTerms(const ProductPlace &place, const std::vector<SumSizes> &all) {
  int64_t most = 0;
  for (const SumSizes &s : all)
    most = std::max(most, pitchOf<T>(s.terms) * std::max(s.rows, s.columns));
  const DeviceTensor<T> ones(runtime::cuda::streamOf(place.run),
                             std::vector<T>(static_cast<size_t>(most), T(1.0f)));
  EachKernel<T> kernels(place);
  for (const SumSizes &s : all)
    for (const MatrixProductFields &f : {gradientOf<T>(s), layerOf<T>(s)})
      kernels.judge(f, ones.data(), ones.data(), [&](const auto &make) {
        return firstOtherThan(static_cast<float>(s.terms), make());
      });
  return kernels.differences;
}

template <class T>
std::vector<std::string> changedBits(const ProductPlace &place, const SumSizes &s, int turns) {
  const auto stream = runtime::cuda::streamOf(place.run);
  const DeviceTensor<T> a(stream, drawn<T>(s.terms * s.rows)),
      b(stream, drawn<T>(s.terms * s.columns));
  EachKernel<T> kernels(place);
  kernels.judge(gradientOf<T>(s), a.data(), b.data(), [&](const auto &make) -> std::string {
    const std::vector<float> first = make();
    for (int turn = 1; turn < turns; ++turn) {
      const std::vector<float> again = make();
      for (size_t i = 0; i < first.size(); ++i)
        if (std::memcmp(&first[i], &again[i], sizeof(float)) != 0) {
          std::ostringstream text;
          text.precision(9);
          text << "element " << i << " is " << again[i] << " when it is made again, expected "
               << first[i];
          return text.str();
        }
    }
    return "";
  });
  return kernels.differences;
}

#define PDC_PRODUCT_TERMS(T)                                                                       \
  template std::vector<std::string> lostTerms<T>(const ProductPlace &,                             \
                                                 const std::vector<SumSizes> &);                   \
  template std::vector<std::string> changedBits<T>(const ProductPlace &, const SumSizes &, int);
PDC_PRODUCT_TERMS(float)
PDC_PRODUCT_TERMS(runtime::BFloat16)
PDC_PRODUCT_TERMS(runtime::Float16)
#undef PDC_PRODUCT_TERMS

} // namespace pdc::testing
