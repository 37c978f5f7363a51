#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Loop.h"

#include <cmath>

namespace pdc::runtime::cuda {

namespace {

/// PyTorch's rules. The numbers of a step stand in device memory: a captured graph stays good.
struct Sgd {
  float decay;
  __device__ float operator()(float w, float g, float scale, float rate) const {
    return w - rate * (g * scale + decay * w);
  }
};

struct Momentum {
  float decay, momentum, damped, firstStep;
  bool nesterov;
  __device__ Results2<float, float> operator()(float w, float g, float v, float scale, float rate,
                                               float step) const {
    const bool first = step + firstStep <= 2;
    const float gradient = g * scale + decay * w;
    const float next = (first ? 0 : momentum) * v + (first ? 1 : damped) * gradient;
    return results(w - rate * (nesterov ? gradient + momentum * next : next), next);
  }
};

struct Adagrad {
  float decay, epsilon, rateDecay, firstStep;
  __device__ Results2<float, float> operator()(float w, float g, float h, float scale, float rate,
                                               float step) const {
    const float gradient = g * scale + decay * w;
    const float next = h + gradient * gradient;
    const float size = rate / (1 + (step + firstStep - 2) * rateDecay);
    return results(w - size * gradient / (sqrtf(next) + epsilon), next);
  }
};

/// What depends on the step alone, in f64 as PyTorch computes it.
struct AdamStep {
  float size, root;
  static PDC_EITHER AdamStep of(double beta1, double beta2, double rate, double step) {
    return {static_cast<float>(step > 0 ? rate / (1 - pow(beta1, step)) : rate),
            static_cast<float>(step > 0 ? sqrt(1 - pow(beta2, step)) : 1)};
  }
};

struct Adam {
  double beta1, beta2, firstStep;
  float epsilon, decay, postDecay;
  int64_t decoupled;
  bool scaledEpsilon;
  PDC_EITHER Results3<float, float, float> update(AdamStep s, float w, float g, float m, float v,
                                                  float scale, float rate) const {
    const float gradient = g * scale + (decoupled ? 0 : decay) * w;
    const float nextM = static_cast<float>(beta1) * m + static_cast<float>(1 - beta1) * gradient;
    const float nextV =
        static_cast<float>(beta2) * v + static_cast<float>(1 - beta2) * gradient * gradient;
    const float shrunk = 1 - rate * decay;
    const float shrink = decoupled == 1 ? shrunk : 1, after = decoupled == 2 ? shrunk : 1 - postDecay;
    const float beside = scaledEpsilon ? epsilon / s.root : epsilon;
    const float nextW = shrink * w - s.size * nextM / (sqrtf(nextV) / s.root + beside);
    return results(after * nextW, nextM, nextV);
  }
};

/// A block computes the step's numbers once.
__global__ void adamKernel(int64_t count, Adam adam, const float *w, const float *g, const float *m,
                           const float *v, const float *scale, const float *rate, const float *step,
                           float *nextW, float *nextM, float *nextV) {
  __shared__ AdamStep s;
  if (threadIdx.x == 0)
    s = AdamStep::of(adam.beta1, adam.beta2, *rate, *step + adam.firstStep - 1);
  __syncthreads();
  for (int64_t i = globalThread(); i < count; i += int64_t(gridDim.x) * kBlockThreads) {
    const auto next = adam.update(s, w[i], g[i], m[i], v[i], *scale, *rate);
    nextW[i] = next.first;
    nextM[i] = next.second;
    nextV[i] = next.third;
  }
}

} // namespace

void SgdUpdate::operator()(const Run &run, const float *w, const float *g, const float *scale,
                           const float *learningRate, float *nextW) const {
  loop(run, fields.count, Sgd{static_cast<float>(fields.weight_decay)}, into(nextW), w, g,
       number(scale), number(learningRate));
}

void MomentumUpdate::operator()(const Run &run, const float *w, const float *g, const float *v,
                                const float *scale, const float *learningRate, const float *step,
                                float *nextW, float *nextV) const {
  const Momentum rule{static_cast<float>(fields.weight_decay), static_cast<float>(fields.momentum),
                      static_cast<float>(1 - fields.dampening),
                      static_cast<float>(fields.first_step), fields.nesterov != 0};
  loop(run, fields.count, rule, into(nextW, nextV), w, g, v, number(scale), number(learningRate),
       number(step));
}

void AdagradUpdate::operator()(const Run &run, const float *w, const float *g, const float *h,
                               const float *scale, const float *learningRate, const float *step,
                               float *nextW, float *nextH) const {
  const Adagrad rule{static_cast<float>(fields.weight_decay), static_cast<float>(fields.epsilon),
                     static_cast<float>(fields.lr_decay), static_cast<float>(fields.first_step)};
  loop(run, fields.count, rule, into(nextW, nextH), w, g, h, number(scale), number(learningRate),
       number(step));
}

void AdamUpdate::operator()(const Run &run, const float *w, const float *g, const float *m,
                            const float *v, const float *scale, const float *learningRate,
                            const float *step, float *nextW, float *nextM, float *nextV) const {
  const Adam rule{fields.beta1,
                  fields.beta2,
                  fields.first_step,
                  static_cast<float>(fields.epsilon),
                  static_cast<float>(fields.weight_decay),
                  static_cast<float>(fields.post_decay),
                  fields.decoupled,
                  fields.scaled_epsilon != 0};
  const int64_t blocks = std::min<int64_t>(ceilDivide(fields.count, 4 * kBlockThreads), 132 * 16);
  launch(run, blocks, kBlockThreads, adamKernel, fields.count, rule, w, g, m, v, scale,
         learningRate, step, nextW, nextM, nextV);
}

} // namespace pdc::runtime::cuda
