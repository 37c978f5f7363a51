#include "runtime/cuda/Epilogue.h"

#include "runtime/cuda/Channels.h"
#include "runtime/cuda/Loop.h"
#include "runtime/cuda/Strides.h"

#include <cmath>

namespace pdc::runtime::cuda {

namespace {

PDC_EITHER float rectified(float value, bool relu) { return relu && value < 0 ? 0 : value; }

template <class Bias, class Y>
__global__ void biasKernel(StridedWalk walk, const Bias *bias, bool relu, Y *y) {
  const int64_t i = globalThread();
  if (i >= walk.elements)
    return;
  Y &element = y[walk.to(i)];
  const float value = static_cast<float>(element);
  element = static_cast<Y>(
      rectified(bias ? value + static_cast<float>(bias[walk.from(i)]) : value, relu));
}

/// Of a tensor whose rows lie so far apart.
std::vector<int64_t> stridesOf(std::span<const int64_t> shape, int64_t pitch) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= d + 1 == shape.size() && pitch ? pitch : shape[d];
  }
  return strides;
}

template <class Y> struct AddChannelBias {
  const float *bias;
  bool relu;
  Y *to;
  template <int Width> __device__ Packed<Y, Width> fetched(int64_t i) const {
    return fetch<Width>(to + i);
  }
  template <int Width> __device__ Lanes<float, Width> numbers(int64_t c) const {
    return bias ? load<Width>(bias + c) : Lanes<float, Width>{};
  }
  template <int Width>
  __device__ Lanes<float, Width> of(const Packed<Y, Width> &element,
                                    const Lanes<float, Width> &added) const {
    auto value = widened(element);
    for (int lane = 0; lane < Width; ++lane)
      value.at[lane] = rectified(bias ? value.at[lane] + added.at[lane] : value.at[lane], relu);
    return value;
  }
};

/// sqrt(2 / pi) (x + 0.044715 x^3), and the tangent of it.
PDC_EITHER float tangent(float x) {
  return std::tanh(0.79788456080f * (x + 0.044715f * x * x * x));
}

struct Gelu {
  PDC_EITHER float operator()(float x) const { return x * (1 + tangent(x)) / 2; }
};
struct GeluGradient {
  PDC_EITHER float operator()(float dy, float x) const {
    return dy * (1 + tangent(x)) / 2 *
           (1 + x * (1 - tangent(x)) * 0.79788456080f * (1 + 0.134145f * x * x));
  }
};

} // namespace

template <class Bias, class Y>
void addBias(const Run &run, std::span<const int64_t> shape, std::span<const int64_t> biasShape,
             const Bias *bias, bool relu, Y *y, int64_t pitch) {
  std::vector<int64_t> strides(shape.size(), 0);
  int64_t stride = 1;
  for (size_t d = biasShape.size(); d-- > 0; stride *= biasShape[d])
    strides[d + shape.size() - biasShape.size()] = biasShape[d] == 1 ? 0 : stride;
  const StridedWalk walk(shape, strides, stridesOf(shape, pitch));
  launchOver(run, walk.elements, biasKernel<Bias, Y>, walk, bias, relu, y);
}

template <class Y>
void addChannelBias(const Run &run, std::span<const int64_t> shape, const float *bias, bool relu,
                    Y *y) {
  if (bias || relu)
    overChannels(run, Channels(shape), AddChannelBias<Y>{bias, relu, y});
}

template <class T> void gelu(const Run &run, int64_t count, const T *x, T *y) {
  loop(run, count, Gelu(), into(y), x);
}

template <class T>
void geluGradient(const Run &run, int64_t count, const T *dy, const T *x, T *dx) {
  loop(run, count, GeluGradient(), into(dx), dy, x);
}

#define PDC_ADD_BIAS(Bias, Y)                                                                      \
  template void addBias(const Run &, std::span<const int64_t>, std::span<const int64_t>,           \
                        const Bias *, bool, Y *, int64_t);
#define PDC_EPILOGUES(T)                                                                           \
  PDC_ADD_BIAS(T, T)                                                                               \
  template void addChannelBias(const Run &, std::span<const int64_t>, const float *, bool, T *);   \
  template void gelu(const Run &, int64_t, const T *, T *);                                        \
  template void geluGradient(const Run &, int64_t, const T *, const T *, T *);
PDC_EPILOGUES(float)
PDC_EPILOGUES(BFloat16)
PDC_EPILOGUES(Float16)
PDC_ADD_BIAS(BFloat16, float)
PDC_ADD_BIAS(Float16, float)
#undef PDC_EPILOGUES
#undef PDC_ADD_BIAS

} // namespace pdc::runtime::cuda
