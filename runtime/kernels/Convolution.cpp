#include "runtime/kernels/Convolution.h"

#include "runtime/ShapeText.h"
#include "runtime/kernels/ConvolutionDescription.h"
#include "runtime/kernels/ConvolutionInputGradient.h"
#include "runtime/kernels/ConvolutionWeightGradient.h"
#include "runtime/kernels/Elementwise.h"

namespace pdc::runtime {

using Descriptor = dnnl::memory::desc;

static std::string unitText(const ConvolutionFields &f) {
  return std::string(f.name) + " (input " + shapeText(f.input) + " " + f.inputLayout + ", weight " +
         shapeText(f.weight) + " " + f.weightLayout + ", output " + shapeText(f.output) + " " +
         f.outputLayout + ")";
}

/// The device as a kernel with its own number of threads sees it.
static Device deviceFor(Device device, const ConvolutionFields &f) {
  requireSinglePrecision(unitText(f), f.compute);
  if (f.threads > 0)
    device.threads = static_cast<int>(f.threads);
  return device;
}

Convolution::Convolution(const Device &given, const ConvolutionFields &f) {
  const Device device = deviceFor(given, f);
  const std::string unit = unitText(f);
  ConvolutionGeometry g(f, ConvolutionUse::forward);
  for (bool bias : {false, true}) {
    Descriptor weightDescription;
    LibraryCall call =
        makeLibraryCall<dnnl::convolution_forward>(unit, device, fallbackNamed(f.fallback), [&] {
          auto description = describeConvolution(g, bias, f.relu != 0);
          weightDescription = description.weights_desc();
          return description;
        });
    call.addMemory(DNNL_ARG_SRC, g.x);
    call.addMemory(DNNL_ARG_WEIGHTS, weightDescription);
    if (bias)
      call.addMemory(DNNL_ARG_BIAS, g.bias);
    call.addMemory(DNNL_ARG_DST, g.y);
    callFor(bias) = {std::move(call),
                     PackedWeight(device, unit.c_str(), g.plainWeight, weightDescription,
                                  PackedWeight::Direction::intoLibrary)};
    requireWorkspace(unit, callFor(bias).weight.packedBytes() + callFor(bias).library.scratch(),
                     device);
  }
}

void Convolution::operator()(const Run &run, const float *x, const float *w, const float *bias,
                             float *y) {
  auto &[call, weight] = callFor(bias != nullptr);
  std::byte *scratch = run.scratchBase;
  call.setData(DNNL_ARG_WEIGHTS, weight.pack(w, scratch));
  call.setData(DNNL_ARG_SRC, x);
  if (bias)
    call.setData(DNNL_ARG_BIAS, bias);
  call.setData(DNNL_ARG_DST, y);
  call.execute(scratch);
}

ConvolutionInputGradient::ConvolutionInputGradient(const Device &given,
                                                   const ConvolutionFields &f) {
  const Device device = deviceFor(given, f);
  const std::string unit = unitText(f);
  ConvolutionGeometry g(f, ConvolutionUse::inputGradient);
  Descriptor weightDescription;
  call = makeLibraryCall<dnnl::convolution_backward_data>(
      unit, device, fallbackNamed(f.fallback), [&] {
        auto description = describeConvolutionInputGradient(g);
        weightDescription = description.weights_desc();
        return description;
      });
  call.addMemory(DNNL_ARG_DIFF_DST, g.y);
  call.addMemory(DNNL_ARG_WEIGHTS, weightDescription);
  call.addMemory(DNNL_ARG_DIFF_SRC, g.x);
  weight = PackedWeight(device, unit.c_str(), g.plainWeight, weightDescription,
                        PackedWeight::Direction::intoLibrary);
  requireWorkspace(unit, weight.packedBytes() + call.scratch(), device);
}

void ConvolutionInputGradient::operator()(const Run &run, const float *dy, const float *w,
                                          float *dx) {
  std::byte *scratch = run.scratchBase;
  call.setData(DNNL_ARG_WEIGHTS, weight.pack(w, scratch));
  call.setData(DNNL_ARG_DIFF_DST, dy);
  call.setData(DNNL_ARG_DIFF_SRC, dx);
  call.execute(scratch);
}

ConvolutionWeightGradient::ConvolutionWeightGradient(const Device &given,
                                                     const ConvolutionFields &f) {
  const Device device = deviceFor(given, f);
  const std::string unit = unitText(f);
  ConvolutionGeometry g(f, ConvolutionUse::weightGradient);
  Descriptor gradient;
  call = makeLibraryCall<dnnl::convolution_backward_weights>(
      unit, device, fallbackNamed(f.fallback), [&] {
        auto description = describeConvolutionWeightGradient(g);
        gradient = description.diff_weights_desc();
        return description;
      });
  call.addMemory(DNNL_ARG_DIFF_DST, g.y);
  call.addMemory(DNNL_ARG_SRC, g.x);
  call.addMemory(DNNL_ARG_DIFF_WEIGHTS, gradient);
  const Descriptor &written = g.packsWeight() ? g.plainWeight : gradient;
  elements = static_cast<int64_t>(written.get_size() / sizeof(float));
  weight = PackedWeight(device, unit.c_str(), g.plainWeight, gradient,
                        PackedWeight::Direction::outOfLibrary);
  requireWorkspace(unit, weight.packedBytes() + call.scratch(), device);
}

/// Adding goes through workspace: the library has no sum for weight gradients.
void ConvolutionWeightGradient::operator()(const Run &run, const float *dy, const float *x,
                                           float *dw, bool add) {
  std::byte *scratch = run.scratchBase;
  auto take = [&](int64_t bytes) {
    return reinterpret_cast<float *>(std::exchange(scratch, scratch + alignedBytes(bytes)));
  };
  float *written = add ? take(elements * sizeof(float)) : dw;
  float *packed = weight ? take(weight.packedBytes()) : written;
  call.setData(DNNL_ARG_DIFF_DST, dy);
  call.setData(DNNL_ARG_SRC, x);
  call.setData(DNNL_ARG_DIFF_WEIGHTS, packed);
  call.execute(scratch);
  if (weight)
    weight.copy(packed, written, scratch);
  if (add)
    accumulate(run, elements, dw, written, true);
}

} // namespace pdc::runtime
