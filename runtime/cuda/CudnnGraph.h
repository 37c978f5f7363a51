#pragma once

#include "runtime/cuda/Libraries.h"

#include <initializer_list>
#include <string>
#include <vector>

/// cuDNN's graph API, as far as convolutions need it: its backend descriptors, each finalised when
/// it is complete. No frontend: that header alone takes 26 s to compile.
namespace pdc::runtime::cuda {

/// One backend descriptor. `unit` is for errors and outlives it.
class Descriptor {
public:
  Descriptor(cudnnBackendDescriptorType_t type, const char *unit);
  Descriptor(Descriptor &&other) noexcept : raw(other.raw), unit(other.unit) {
    other.raw = nullptr;
  }
  ~Descriptor();

  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           const std::vector<T> &values) {
    setRaw(name, type, int64_t(values.size()), values.data());
  }
  void set(cudnnBackendAttributeName_t name, int64_t value) {
    setRaw(name, CUDNN_TYPE_INT64, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, float value) {
    setRaw(name, CUDNN_TYPE_FLOAT, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor &value) {
    setRaw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.raw);
  }
  void setRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
              const void *values);
  void finish();
  /// Whether finalising succeeds; where it does not, the library does not support what it says.
  bool canFinish() { return cudnnBackendFinalize(raw) == CUDNN_STATUS_SUCCESS; }
  int64_t integer(cudnnBackendAttributeName_t name) const;

  cudnnBackendDescriptor_t raw = nullptr;

private:
  const char *unit;
};

/// Where a plan is made for: this thread's device, or one that is described and absent
/// (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR), which tests ask.
struct PlanTarget {
  cudnnHandle_t handle = nullptr;
  const Descriptor *properties = nullptr;
};

/// Operations that follow one another, as one graph.
Descriptor graphOf(const std::vector<Descriptor> &operations, const PlanTarget &target,
                   const char *unit);

/// What kernels may do. Those whose sums have no fixed order never run.
struct KernelRules {
  bool tensorCores = false; ///< f32 factors lose 13 bits (TF32), those of 16 bits none
  bool transforms = true;   ///< Winograd, FFT
  size_t workspace = 0;
  bool replaced = true; ///< one that fails when it runs, by the next, of other bits
};

/// The library's ranked engine configurations for a graph that keep the rules, best first. Nothing
/// where there are none.
std::vector<Descriptor> rankedConfigurations(const Descriptor &graph, const PlanTarget &target,
                                             const KernelRules &rules, const char *unit);

} // namespace pdc::runtime::cuda
