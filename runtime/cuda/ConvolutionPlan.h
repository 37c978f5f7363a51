#pragma once

#include "runtime/cuda/CudnnGraph.h"
#include "runtime/kernels/ConvolutionFields.h"

#include <array>
#include <optional>

namespace pdc::runtime::cuda {

enum class ConvolutionUse { forward, inputGradient, weightGradient };

/// A convolution or one of its gradients as a cuDNN plan. Tensors are channels-last; those of one
/// spatial dimension get a second one of size 1, since the library knows none with one.
class ConvolutionPlan {
public:
  /// Takes the first configuration that keeps the rules and fits into the device's workspace;
  /// throws Error naming the unit where there is none. `adds`: the result is added to what lies
  /// there.
  ConvolutionPlan(const PlanTarget &target, const KernelRules &rules,
                  const ConvolutionFields &fields, ConvolutionUse use, bool adds);

  /// Forward: x, w, y; input gradient: dx, w, dy; weight gradient: x, dw, dy.
  void operator()(const Run &run, const void *image, const void *weight, const void *result);

  /// How many configurations keep the rules, best first; for tests.
  size_t candidates() const { return count; }
  int64_t workspaceBytes() const { return workspace; }

private:
  enum Tensor : int64_t { kImage = 1, kWeight, kResult };

  Descriptor describeTensor(Tensor id, const Dimensions &shape) const;
  Descriptor describeGraph(const PlanTarget &target);
  void choose(const PlanTarget &target, const KernelRules &rules, const Descriptor &graph);

  const ConvolutionFields fields;
  const ConvolutionUse use;
  const bool adds;
  const Factors factors;
  /// The pointers of a call as the library wants them; there are as many as slots and versions.
  struct Pack {
    const void *image, *weight, *result, *scratch;
    Descriptor descriptor;
  };
  Pack &packFor(const void *image, const void *weight, const void *result, void *scratch);

  std::optional<Descriptor> plan;
  std::vector<Pack> packs;
  size_t count = 0;
  int64_t workspace = 0;
};

} // namespace pdc::runtime::cuda
