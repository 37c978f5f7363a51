#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Loop.h"
#include "runtime/cuda/Parts.h"

#include <cmath>

namespace pdc::runtime::cuda {

namespace {

/// What an optimizer does with four neighbours of a weight, by PyTorch's rules; says whether one of
/// them is NaN now. `Step` is what all elements of a step share.
struct Sgd {
  explicit Sgd(const UpdateRule &) {}
  struct Step {
    float scale, rate;
  };
  PDC_EITHER Step at(float scale, float rate, double) const { return {scale, rate}; }
  __device__ bool quad(int64_t quad, const UpdatedWeight &of, const Step &s) const {
    bool lost = false;
    auto body = [&](float w, float g) {
      const float nextW = w - s.rate * (g * s.scale + of.decay * w);
      lost |= nextW != nextW;
      return nextW;
    };
    detail::computeGroup<kLanes>(quad, of.count, body, detail::sink(detail::Whole{of.nextW}),
                                 Elements{of.w}, Elements{of.g});
    return lost;
  }
};

struct Momentum {
  float momentum, damped;
  double firstStep;
  bool nesterov;
  explicit Momentum(const UpdateRule &rule)
      : momentum(float(rule.momentum)), damped(float(1 - rule.dampening)),
        firstStep(rule.firstStep), nesterov(rule.nesterov != 0) {}
  struct Step {
    float scale, rate, kept, taken;
  };
  PDC_EITHER Step at(float scale, float rate, double step) const {
    const bool first = step + firstStep <= 2;
    return {scale, rate, first ? 0 : momentum, first ? 1 : damped};
  }
  __device__ bool quad(int64_t quad, const UpdatedWeight &of, const Step &s) const {
    bool lost = false;
    auto body = [&](float w, float g, float v) {
      const float gradient = g * s.scale + of.decay * w;
      const float nextV = s.kept * v + s.taken * gradient;
      const float nextW = w - s.rate * (nesterov ? gradient + momentum * nextV : nextV);
      lost |= nextW != nextW;
      return results(nextW, nextV);
    };
    detail::computeGroup<kLanes>(
        quad, of.count, body,
        detail::sink(detail::Whole{of.nextW}, detail::Whole{of.nextStates[0]}), Elements{of.w},
        Elements{of.g}, Elements{of.states[0]});
    return lost;
  }
};

struct Adagrad {
  float epsilon, rateDecay, firstStep;
  explicit Adagrad(const UpdateRule &rule)
      : epsilon(float(rule.epsilon)), rateDecay(float(rule.rateDecay)),
        firstStep(float(rule.firstStep)) {}
  struct Step {
    float scale, size;
  };
  PDC_EITHER Step at(float scale, float rate, double step) const {
    return {scale, rate / (1 + (static_cast<float>(step) + firstStep - 2) * rateDecay)};
  }
  __device__ bool quad(int64_t quad, const UpdatedWeight &of, const Step &s) const {
    bool lost = false;
    auto body = [&](float w, float g, float h) {
      const float gradient = g * s.scale + of.decay * w;
      const float nextH = h + gradient * gradient;
      const float nextW = w - s.size * gradient / (sqrtf(nextH) + epsilon);
      lost |= nextW != nextW;
      return results(nextW, nextH);
    };
    detail::computeGroup<kLanes>(
        quad, of.count, body,
        detail::sink(detail::Whole{of.nextW}, detail::Whole{of.nextStates[0]}), Elements{of.w},
        Elements{of.g}, Elements{of.states[0]});
    return lost;
  }
};

struct Adam {
  double beta1, beta2, firstStep;
  float epsilon;
  int64_t decoupled;
  bool scaledEpsilon;
  explicit Adam(const UpdateRule &rule)
      : beta1(rule.beta1), beta2(rule.beta2), firstStep(rule.firstStep),
        epsilon(float(rule.epsilon)), decoupled(rule.decoupled),
        scaledEpsilon(rule.scaledEpsilon != 0) {}
  struct Step {
    float scale, rate, size, root;
  };
  /// In f64 as PyTorch computes it.
  PDC_EITHER Step at(float scale, float rate, double step) const {
    const double taken = step + firstStep - 1;
    if (decoupled == 3)
      rate = -1; // the result is a direction
    return {scale, rate,
            static_cast<float>(taken > 0 ? rate / (1 - pow(beta1, taken)) : double(rate)),
            static_cast<float>(taken > 0 ? sqrt(1 - pow(beta2, taken)) : 1)};
  }
  __device__ bool quad(int64_t quad, const UpdatedWeight &of, const Step &s) const {
    const float shrunk = 1 - s.rate * of.decay;
    const float shrink = decoupled == 3 ? of.decay : decoupled == 1 ? shrunk : 1;
    const float after = decoupled == 2 ? shrunk : 1 - of.postDecay;
    const float beside = scaledEpsilon ? epsilon / s.root : epsilon;
    bool lost = false;
    auto body = [&](float w, float g, float m, float v) {
      const float gradient = g * s.scale + (decoupled ? 0 : of.decay) * w;
      const float nextM = static_cast<float>(beta1) * m + static_cast<float>(1 - beta1) * gradient;
      const float nextV =
          static_cast<float>(beta2) * v + static_cast<float>(1 - beta2) * gradient * gradient;
      const float nextW = after * (shrink * w - s.size * nextM / (sqrtf(nextV) / s.root + beside));
      lost |= nextW != nextW;
      return results(nextW, nextM, nextV);
    };
    detail::computeGroup<kLanes>(
        quad, of.count, body,
        detail::sink(detail::Whole{of.nextW}, detail::Whole{of.nextStates[0]},
                     detail::Whole{of.nextStates[1]}),
        Elements{of.w}, Elements{of.g}, Elements{of.states[0]}, Elements{of.states[1]});
    return lost;
  }
};

/// Elements that a block updates: of one weight.
constexpr int kQuadsPerThread = 4;
constexpr int64_t kBlockElements = int64_t(kBlockThreads) * kLanes * kQuadsPerThread;

/// Weight i is done by blocks firstBlock[i] to firstBlock[i + 1] - 1 (tensorOf).
template <class Rule> struct Table {
  Rule rule;
  const float *scale, *learningRate, *step;
  int *lost; ///< Run::lost
  int size;
  unsigned firstBlock[kMostUpdated + 1];
  UpdatedWeight weights[kMostUpdated];
};
static_assert(sizeof(Table<Adam>) <= kParameterBytes, "CUDA takes no more parameters");

/// The parameters stay where they are: a copy of the table in each thread would be slow.
template <class Rule> __global__ void updateKernel(const __grid_constant__ Table<Rule> table) {
  __shared__ typename Rule::Step step;
  if (threadIdx.x == 0)
    step = table.rule.at(*table.scale, *table.learningRate, table.step ? *table.step : 0);
  __syncthreads();
  const int i = tensorOf(table.firstBlock, table.size, blockIdx.x);
  const UpdatedWeight &weight = table.weights[i];
  const int64_t quads = ceilDivide(weight.count, kLanes);
  int64_t quad = (blockIdx.x - table.firstBlock[i]) * (kBlockElements / kLanes) + threadIdx.x;
  for (int turn = 0; turn < kQuadsPerThread && quad < quads; ++turn, quad += kBlockThreads)
    if (table.rule.quad(quad, weight, step) && table.lost)
      *table.lost = 1;
}

template <class Rule>
void start(const Run &run, const UpdateRule &rule, const UpdatedWeight *weights, int size) {
  Table<Rule> table{Rule(rule), rule.scale, rule.learningRate, rule.step, run.lost, size, {}, {}};
  std::copy_n(weights, size, table.weights);
  for (int i = 0; i < size; ++i)
    table.firstBlock[i + 1] =
        table.firstBlock[i] + static_cast<unsigned>(ceilDivide(weights[i].count, kBlockElements));
  launch(run, table.firstBlock[size], kBlockThreads, updateKernel<Rule>, table);
}

} // namespace

void Updates::add(const UpdateRule &next, const UpdatedWeight &weight) {
  if (size == kMostUpdated || next != rule)
    launch();
  rule = next;
  weights[size++] = weight;
}

void Updates::launch() {
  const int added = size;
  size = 0;
  if (added == 0)
    return;
  switch (rule.kind) {
  case UpdateRule::Kind::sgd:
    return start<Sgd>(run, rule, weights.data(), added);
  case UpdateRule::Kind::momentum:
    return start<Momentum>(run, rule, weights.data(), added);
  case UpdateRule::Kind::adagrad:
    return start<Adagrad>(run, rule, weights.data(), added);
  case UpdateRule::Kind::adam:
    return start<Adam>(run, rule, weights.data(), added);
  }
}

void SgdUpdate::operator()(Updates &updates, const float *w, const float *g, const float *scale,
                           const float *learningRate, float *nextW) const {
  updates.add({.kind = UpdateRule::Kind::sgd,
               .scale = scale,
               .learningRate = learningRate,
               .step = nullptr},
              {w, g, {}, nextW, {}, fields.count, static_cast<float>(fields.weight_decay), 0});
}

void MomentumUpdate::operator()(Updates &updates, const float *w, const float *g, const float *v,
                                const float *scale, const float *learningRate, const float *step,
                                float *nextW, float *nextV) const {
  updates.add(
      {.kind = UpdateRule::Kind::momentum,
       .firstStep = fields.first_step,
       .momentum = fields.momentum,
       .dampening = fields.dampening,
       .nesterov = fields.nesterov,
       .scale = scale,
       .learningRate = learningRate,
       .step = step},
      {w, g, {v}, nextW, {nextV}, fields.count, static_cast<float>(fields.weight_decay), 0});
}

void AdagradUpdate::operator()(Updates &updates, const float *w, const float *g, const float *h,
                               const float *scale, const float *learningRate, const float *step,
                               float *nextW, float *nextH) const {
  updates.add(
      {.kind = UpdateRule::Kind::adagrad,
       .firstStep = fields.first_step,
       .epsilon = fields.epsilon,
       .rateDecay = fields.lr_decay,
       .scale = scale,
       .learningRate = learningRate,
       .step = step},
      {w, g, {h}, nextW, {nextH}, fields.count, static_cast<float>(fields.weight_decay), 0});
}

void AdamUpdate::operator()(Updates &updates, const float *w, const float *g, const float *m,
                            const float *v, const float *scale, const float *learningRate,
                            const float *step, float *nextW, float *nextM, float *nextV) const {
  updates.add({.kind = UpdateRule::Kind::adam,
               .firstStep = fields.first_step,
               .epsilon = fields.epsilon,
               .beta1 = fields.beta1,
               .beta2 = fields.beta2,
               .decoupled = fields.decoupled,
               .scaledEpsilon = fields.scaled_epsilon,
               .scale = scale,
               .learningRate = learningRate,
               .step = step},
              {w,
               g,
               {m, v},
               nextW,
               {nextM, nextV},
               fields.count,
               static_cast<float>(fields.weight_decay),
               static_cast<float>(fields.post_decay)});
}

} // namespace pdc::runtime::cuda
