#pragma once

#include "runtime/kernels/Dimensions.h"
#include "testsuite/kernels/KernelCalls.h"

#ifdef PDC_CUDA_KERNELS
#include "runtime/cuda/Kernels.h"

#include <cuda_runtime_api.h>
#endif

#include <map>
#include <memory>
#include <set>
#include <stdexcept>

/// What the tables of kernels are written with: a kernel's class, its fields from a choice, and how
/// its call takes the pointers.
namespace pdc {

using KernelMaker = std::function<KernelCall(const KernelChoice &, const runtime::Device &)>;
/// By the name of the kernel's class.
using KernelMakers = std::map<std::string, KernelMaker>;

KernelMakers layerMakers();
KernelMakers lossMakers();
KernelMakers movementMakers();
KernelMakers updateMakers();

#ifdef PDC_CUDA_KERNELS
namespace kernels = runtime::cuda;

/// The stream of the tests. What is put into it runs when `finish` waits for it.
inline cudaStream_t testStream() {
  static cudaStream_t stream = [] {
    cudaStream_t made = nullptr;
    cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
    return made;
  }();
  return stream;
}
inline runtime::Run started(runtime::Run run) {
  run.queue = testStream();
  return run;
}
inline void finish() { cudaStreamSynchronize(testStream()); }
#else
namespace kernels = runtime;

inline const runtime::Run &started(const runtime::Run &run) { return run; }
inline void finish() {}
#endif

/// Reads a choice's fields into a struct, and complains about those that the struct lacks.
class FieldReader {
public:
  explicit FieldReader(const KernelChoice &choice) : choice(choice) {}
  ~FieldReader() noexcept(false) {
    for (const auto &[name, value] : choice.fields)
      if (!read.count(name) && !std::uncaught_exceptions())
        throw std::runtime_error(choice.kernel + " has no field " + name);
  }
  FieldReader &operator()(const char *name, int64_t &field) {
    if (take(name))
      field = choice.fields.integer(name, 0);
    return *this;
  }
  FieldReader &operator()(const char *name, double &field) {
    if (take(name))
      field = choice.fields.number(name, 0);
    return *this;
  }
  FieldReader &operator()(const char *name, runtime::Dimensions &field) {
    if (take(name))
      field = choice.fields.integers(name);
    return *this;
  }
  FieldReader &operator()(const char *name, std::vector<int64_t> &field) {
    if (take(name))
      field = choice.fields.integers(name);
    return *this;
  }
  FieldReader &operator()(const char *name, const char *&field) {
    static std::set<std::string> kept;
    if (take(name))
      field = kept.insert(choice.fields.string(name, "")).first->c_str();
    return *this;
  }

private:
  bool take(const char *name) {
    read.insert(name);
    return choice.fields.has(name);
  }
  const KernelChoice &choice;
  std::set<std::string> read;
};

#define FIELD(name) (#name, f.name)

/// The pointers of a call with their types.
struct At {
  const std::vector<void *> &p;
  float *operator[](size_t i) const { return static_cast<float *>(p.at(i)); }
  int64_t *labels(size_t i) const { return static_cast<int64_t *>(p.at(i)); }
};

template <class Kernel, class Fields, class Call>
KernelCall made(const runtime::Device &device, Fields f, Call call) {
  auto kernel = std::make_shared<Kernel>(device, f);
  return [kernel, call](const runtime::Run &run, const std::vector<void *> &p, bool add) {
    call(*kernel, started(run), At{p}, p.size(), add);
    finish();
  };
}

#define CALL                                                                                       \
  [](auto &k, const runtime::Run &r, At p, [[maybe_unused]] size_t n, [[maybe_unused]] bool add)

/// A call of a kernel that takes any number of pointers, from `Least` to `Most`.
template <size_t Most, size_t Least = 1, class Kernel>
void callWithAll(Kernel &kernel, const runtime::Run &run, At p, size_t count) {
  if constexpr (Most > Least)
    if (count < Most)
      return callWithAll<Most - 1, Least>(kernel, run, p, count);
  [&]<size_t... I>(std::index_sequence<I...>) { kernel(run, p[I]...); }
  (std::make_index_sequence<Most>());
}

} // namespace pdc
