#pragma once

#include "testsuite/kernels/KernelCalls.h"

#include "compiler/operators/Operator.h"

#include <deque>
#include <new>
#include <random>

namespace pdc {

/// Tensors lie on cache lines: the library's streaming stores fault elsewhere.
template <class T> struct LineAllocator {
  using value_type = T;
  T *allocate(size_t n) {
    return static_cast<T *>(::operator new(n * sizeof(T), std::align_val_t(64)));
  }
  void deallocate(T *p, size_t) { ::operator delete(p, std::align_val_t(64)); }
  bool operator==(const LineAllocator &) const = default;
};
using Buffer = std::vector<std::byte, LineAllocator<std::byte>>;

/// A unit with drawn operands: computed in double by the operators' references, and in f32 by the
/// kernel that the device chooses, in the layouts it asks for.
class UnitCase {
public:
  explicit UnitCase(uint32_t seed = 1) : random(seed) {}

  DeviceOptions options = detectDevice();
  runtime::Device device{1, 0};
  /// Numbers around zero, an f32 operand's values.
  UnitValue operand(std::vector<int64_t> shape, double from = -1, double to = 1,
                    std::string layout = "");
  UnitValue integers(std::vector<int64_t> shape, int64_t from, int64_t to);
  UnitValue given(Tensor value, std::string layout = "");
  UnitValue constant(Tensor value);
  /// A node with the results that its operator infers.
  UnitValue node(std::string op, std::vector<UnitValue> inputs, Attributes attributes = {},
                 size_t outputs = 1);
  void result(UnitValue value) { view.results.push_back(value); }
  const Tensor &operandValue(int operand) const { return operands.at(operand); }
  /// What the reference computes for the results of a node.
  const std::vector<Tensor> &referenceOf(int node) const { return computed.at(node); }

  /// Runs both and expects equal results, zero padding, equal bits at repeat without an
  /// allocation, sums where the kernel accumulates, and scratch within the bound. `tolerance` is
  /// relative to the largest value.
  void check(double tolerance = 2e-6);

  KernelChoice choice;
  /// What the kernel wrote, by result, as stored.
  std::vector<Buffer> stored;
  UnitView view;
  /// Operand values as they are stored, for those that a kernel made (other than by layout).
  std::vector<Buffer> storedOperands;

private:
  const Tensor &valueOf(UnitValue value) const;
  /// A call after the first.
  void callAgain(const KernelCall &kernel, const runtime::Run &run,
                 const std::vector<void *> &pointers, bool add);
  std::vector<void *> pointers();
  void compare(const Tensor &expected, size_t result, double factor, double tolerance);
  void compareIntegers(const Tensor &expected, size_t result);

  std::mt19937 random;
  std::vector<Tensor> operands;
  std::deque<Attributes> attributes;
  std::deque<std::string> names;
  std::vector<std::vector<Tensor>> computed; ///< by node
  std::vector<Buffer> packed;
};

} // namespace pdc
