#pragma once

#include "runtime/Program.h"
#include "runtime/cuda/Fields.h"

#include <array>

/// What gives weights their next versions. The weights of a task share a kernel: each adds itself
/// to the task's `Updates`, which are launched together.
namespace pdc::runtime::cuda {

/// What weights of one kernel have in common; numbers that the optimizer does not use are 0.
struct UpdateRule {
  enum class Kind : uint8_t { sgd, momentum, adagrad, adam } kind;
  double firstStep = 0, momentum = 0, dampening = 0, epsilon = 0, rateDecay = 0, beta1 = 0,
         beta2 = 0;
  int64_t nesterov = 0, decoupled = 0, scaledEpsilon = 0;
  /// In device memory, so that a captured graph stays good.
  const float *scale, *learningRate, *step;
  bool operator==(const UpdateRule &) const = default;
};

/// A weight with its gradient and up to two states of its size.
struct UpdatedWeight {
  const float *w, *g, *states[2];
  float *nextW, *nextStates[2];
  int64_t count;
  float decay, postDecay;
};

/// The weights of one kernel travel as its parameters, of which CUDA takes 32,764 bytes.
inline constexpr int kMostUpdated = 400;

class Updates {
public:
  explicit Updates(const Run &run) : run(run) {}
  Updates(const Updates &) = delete;

  /// Of another rule than the weights before it, or one too many: those are launched first.
  void add(const UpdateRule &rule, const UpdatedWeight &weight);
  /// One kernel for the weights added since the last launch.
  void launch();

private:
  const Run &run;
  UpdateRule rule{};
  std::array<UpdatedWeight, kMostUpdated> weights;
  int size = 0;
};

class SgdUpdate {
public:
  SgdUpdate(const Device &, const SgdUpdateFields &fields) : fields(fields) {}
  void operator()(Updates &updates, const float *w, const float *g, const float *scale,
                  const float *learningRate, float *nextW) const;

private:
  SgdUpdateFields fields;
};

class MomentumUpdate {
public:
  MomentumUpdate(const Device &, const MomentumUpdateFields &fields) : fields(fields) {}
  void operator()(Updates &updates, const float *w, const float *g, const float *v,
                  const float *scale, const float *learningRate, const float *step, float *nextW,
                  float *nextV) const;

private:
  MomentumUpdateFields fields;
};

class AdagradUpdate {
public:
  AdagradUpdate(const Device &, const AdagradUpdateFields &fields) : fields(fields) {}
  void operator()(Updates &updates, const float *w, const float *g, const float *h,
                  const float *scale, const float *learningRate, const float *step, float *nextW,
                  float *nextH) const;

private:
  AdagradUpdateFields fields;
};

class AdamUpdate {
public:
  AdamUpdate(const Device &, const AdamUpdateFields &fields) : fields(fields) {}
  void operator()(Updates &updates, const float *w, const float *g, const float *m, const float *v,
                  const float *scale, const float *learningRate, const float *step, float *nextW,
                  float *nextM, float *nextV) const;

private:
  AdamUpdateFields fields;
};

} // namespace pdc::runtime::cuda
