#include "runtime/cuda/Epilogue.h"

#include "runtime/cuda/Strides.h"

namespace pdc::runtime::cuda {

namespace {

PDC_EITHER float rectified(float value, bool relu) { return relu && !(value > 0) ? 0 : value; }

__global__ void biasKernel(StridedWalk walk, const float *bias, bool relu, float *y) {
  const int64_t i = globalThread();
  if (i < walk.elements)
    y[i] = rectified(y[i] + bias[walk.from(i)], relu);
}

__global__ void channelBiasKernel(int64_t elements, int64_t channels, const float *bias, bool relu,
                                  float *y) {
  const int64_t i = globalThread();
  if (i < elements)
    y[i] = rectified(bias ? y[i] + bias[i % channels] : y[i], relu);
}

} // namespace

void addBias(const Run &run, std::span<const int64_t> shape,
             std::span<const int64_t> biasShape, const float *bias, bool relu, float *y) {
  std::vector<int64_t> strides(shape.size(), 0);
  int64_t stride = 1;
  for (size_t d = biasShape.size(); d-- > 0; stride *= biasShape[d])
    strides[d + shape.size() - biasShape.size()] = biasShape[d] == 1 ? 0 : stride;
  const StridedWalk walk(shape, strides);
  launchOver(run, walk.elements, biasKernel, walk, bias, relu, y);
}

void addChannelBias(const Run &run, int64_t elements, int64_t channels, const float *bias,
                    bool relu, float *y) {
  if (bias || relu)
    launchOver(run, elements, channelBiasKernel, elements, channels, bias, relu, y);
}

} // namespace pdc::runtime::cuda
