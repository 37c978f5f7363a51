#include "runtime/kernels/AdagradUpdate.h"
#include "runtime/kernels/AdamUpdate.h"
#include "runtime/kernels/Elementwise.h"
#include "runtime/kernels/MomentumUpdate.h"
#include "runtime/kernels/SgdUpdate.h"

#include <algorithm>
#include <cmath>

namespace pdc::runtime {

namespace {

/// Elements that are looked at once they are updated: caches still hold them.
constexpr int64_t kUpdatedTogether = 1 << 18;

bool holdsNaN(int64_t count, const float *values) {
  int found = 0;
#pragma omp parallel for simd reduction(|                                                          \
                                        : found)                                                   \
    schedule(static) if (parallel                                                                  \
                         : count >= kParallelElements)
  for (int64_t i = 0; i < count; ++i)
    found |= values[i] != values[i];
  return found != 0;
}

/// elementwise(), the first result of which are weights.
template <class Body, class... Elements>
void update(const Run &run, int64_t count, Body body, float *weights, Elements *...others) {
  for (int64_t begin = 0; begin < count; begin += kUpdatedTogether) {
    const int64_t size = std::min(kUpdatedTogether, count - begin);
    elementwise(run, size, body, weights + begin, others + begin...);
    if (run.lost && holdsNaN(size, weights + begin))
      *run.lost = 1;
  }
}

} // namespace

void SgdUpdate::operator()(const Run &run, const float *w, const float *g, const float *scale,
                           const float *learningRate, float *nextW) const {
  const float s = *scale, rate = *learningRate, decay = static_cast<float>(fields.weight_decay);
  update(
      run, fields.count, [=](float w, float g) { return w - rate * (g * s + decay * w); }, nextW, w,
      g);
}

void MomentumUpdate::operator()(const Run &run, const float *w, const float *g, const float *v,
                                const float *scale, const float *learningRate, const float *step,
                                float *nextW, float *nextV) const {
  const float s = *scale, rate = *learningRate, decay = static_cast<float>(fields.weight_decay);
  const bool first = *step + static_cast<float>(fields.first_step) <= 2;
  const float kept = first ? 0 : static_cast<float>(fields.momentum);
  const float fresh = first ? 1 : static_cast<float>(1 - fields.dampening);
  const float ahead = static_cast<float>(fields.momentum);
  auto velocity = [=](float w, float g, float v) { return kept * v + fresh * (g * s + decay * w); };
  if (fields.nesterov)
    update(
        run, fields.count,
        [=](float w, float g, float v) {
          float next = velocity(w, g, v);
          return results(w - rate * ((g * s + decay * w) + ahead * next), next);
        },
        nextW, nextV, w, g, v);
  else
    update(
        run, fields.count,
        [=](float w, float g, float v) {
          float next = velocity(w, g, v);
          return results(w - rate * next, next);
        },
        nextW, nextV, w, g, v);
}

void AdagradUpdate::operator()(const Run &run, const float *w, const float *g, const float *h,
                               const float *scale, const float *learningRate, const float *step,
                               float *nextW, float *nextH) const {
  const double before = *step + fields.first_step - 2;
  const float rate = static_cast<float>(*learningRate / (1 + before * fields.lr_decay));
  const float s = *scale, decay = static_cast<float>(fields.weight_decay);
  const float epsilon = static_cast<float>(fields.epsilon);
  update(
      run, fields.count,
      [=](float w, float g, float h) {
        float gradient = g * s + decay * w;
        float next = h + gradient * gradient;
        return results(w - rate * gradient / (std::sqrt(next) + epsilon), next);
      },
      nextW, nextH, w, g, h);
}

void AdamUpdate::operator()(const Run &run, const float *w, const float *g, const float *m,
                            const float *v, const float *scale, const float *learningRate,
                            const float *step, float *nextW, float *nextM, float *nextV) const {
  const double number = *step + fields.first_step - 1;
  const double correction1 = number > 0 ? 1 - std::pow(fields.beta1, number) : 1;
  const double correction2 = number > 0 ? std::sqrt(1 - std::pow(fields.beta2, number)) : 1;
  const bool isDirection = fields.decoupled == 3;
  const float rate = isDirection ? -1 : *learningRate;
  const float s = *scale, size = static_cast<float>(rate / correction1);
  const float root = static_cast<float>(correction2);
  const float epsilon =
      static_cast<float>(fields.scaled_epsilon != 0 ? fields.epsilon / correction2 : fields.epsilon);
  const float beta1 = static_cast<float>(fields.beta1),
              rest1 = static_cast<float>(1 - fields.beta1);
  const float beta2 = static_cast<float>(fields.beta2),
              rest2 = static_cast<float>(1 - fields.beta2);
  const float decay = static_cast<float>(fields.weight_decay);
  const float inGradient = fields.decoupled ? 0 : decay;
  const float shrunk = 1 - rate * decay;
  const float after = fields.decoupled == 2 ? shrunk : static_cast<float>(1 - fields.post_decay);
  const float shrink = isDirection ? decay : fields.decoupled == 1 ? shrunk : 1;
  update(
      run, fields.count,
      [=](float w, float g, float m, float v) {
        float gradient = g * s + inGradient * w;
        float nextM = beta1 * m + rest1 * gradient;
        float nextV = beta2 * v + rest2 * gradient * gradient;
        float denominator = std::sqrt(nextV) / root + epsilon;
        return results(after * (shrink * w - size * nextM / denominator), nextM, nextV);
      },
      nextW, nextM, nextV, w, g, m, v);
}

} // namespace pdc::runtime
