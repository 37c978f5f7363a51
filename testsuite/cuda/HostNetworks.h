#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

/// What cuDNN computes, written as plain loops from its documentation: the runtime's descriptions
/// are executed as they stand. Whether the library itself takes them is asked of it in CudnnTest,
/// CudnnAttentionTest and CudnnFinishedTest.
namespace pdc::testing {

/// A backend descriptor: attributes as bytes, other descriptors by value.
struct Described {
  cudnnBackendDescriptorType_t type;
  std::map<int, std::vector<std::byte>> values;
  std::map<int, std::vector<Described>> parts;

  template <class T> std::vector<T> list(int name) const {
    const std::vector<std::byte> &bytes = values.at(name);
    std::vector<T> result(bytes.size() / sizeof(T));
    std::memcpy(result.data(), bytes.data(), bytes.size());
    return result;
  }
  template <class T> T one(int name) const {
    T value;
    std::memcpy(&value, values.at(name).data(), sizeof value);
    return value;
  }
  const Described &part(int name) const { return parts.at(name).at(0); }
};

/// By the ids of the tensors in memory.
using Pointers = std::map<int64_t, void *>;

/// A convolution or one of its gradients, on tensors in memory.
void convolve(const Described &operation, const Pointers &pointers);
/// Each channel's sum, and that of its squares.
void sumChannels(const Described &operation, const Pointers &pointers);
/// Operations that follow one another.
void operate(const std::vector<Described> &operations, const Pointers &pointers);

} // namespace pdc::testing
