#pragma once

#include "runtime/cuda/LibraryPlan.h"
#include "runtime/kernels/ConvolutionFields.h"

#include <initializer_list>
#include <optional>

namespace pdc::runtime::cuda {

/// `sums`: forward, which also makes each channel's sum over the result, and that of its squares.
/// `finished`: forward, with the bias and, where the fields say so, the relu behind it.
enum class ConvolutionUse { forward, inputGradient, weightGradient, sums, finished };

/// A convolution or one of its gradients as a cuDNN plan. Tensors are channels-last; those of one
/// spatial dimension get a second one of size 1, since the library knows none with one.
class ConvolutionPlan {
public:
  /// Takes the first configuration that keeps the rules and fits into the device's workspace, or
  /// the one that `tuning` finds; throws Error naming the unit where there is none. `adds`: the
  /// result is added to what lies there, once, so that others are only tried where `tryOut` is.
  ConvolutionPlan(const PlanTarget &target, const KernelRules &rules,
                  const ConvolutionFields &fields, ConvolutionUse use, bool adds,
                  Tuning *tuning = nullptr);

  /// Forward: x, w, y; input gradient: dx, w, dy; weight gradient: x, dw, dy; sums: x, w, y, the
  /// sums, those of squares; finished: x, w, y, the bias in f32.
  void operator()(const Run &run, std::initializer_list<const void *> tensors);

  /// Before the first call, where the result does not matter: it is written over next.
  void tryOut(const Run &run, std::initializer_list<const void *> tensors);

  /// One that others may share, who have as much room; without a tuning it is new.
  static std::shared_ptr<ConvolutionPlan> shared(const KernelRules &rules,
                                                 const ConvolutionFields &fields,
                                                 ConvolutionUse use, bool adds, Tuning *tuning);

  /// How many configurations keep the rules, best first; for tests.
  size_t candidates() const { return plan->candidates(); }
  int64_t workspaceBytes() const { return plan->workspaceBytes(); }

  /// What decides how fast which kernel is.
  static std::string problemOf(const ConvolutionFields &fields, ConvolutionUse use);

private:
  void run(const Run &run, std::initializer_list<const void *> tensors, FirstRun first);
  Descriptor describeGraph(const PlanTarget &target) const;

  const ConvolutionFields fields;
  const ConvolutionUse use;
  const bool adds;
  const size_t room; ///< the library's workspace
  const Factors factors;
  std::optional<LibraryPlan> plan;
};

} // namespace pdc::runtime::cuda
