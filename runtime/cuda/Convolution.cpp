#include "runtime/cuda/ConvolutionPlan.h"
#include "runtime/cuda/Epilogue.h"
#include "runtime/cuda/Kernels.h"

#include <functional>
#include <numeric>

namespace pdc::runtime::cuda {

static std::unique_ptr<ConvolutionPlan> makePlan(const Device &device,
                                                 const ConvolutionFields &fields,
                                                 ConvolutionUse use, bool adds = false) {
  const KernelRules rules{computesInTf32(fields.compute, fields.name), !device.exact,
                          workspaceRoom(device)};
  return std::make_unique<ConvolutionPlan>(PlanTarget{networkHandle(), nullptr}, rules, fields, use,
                                           adds);
}

Convolution::Convolution(const Device &device, const ConvolutionFields &fields)
    : fields(fields), plan(makePlan(device, fields, ConvolutionUse::forward)) {}
Convolution::~Convolution() = default;

/// Bias and relu in one pass: the library fuses them into kernels for tensor cores only.
void Convolution::operator()(const Run &run, const float *x, const float *w, const float *bias,
                             float *y) {
  (*plan)(run, x, w, y);
  const int64_t elements = std::accumulate(fields.output.begin(), fields.output.end(), int64_t(1),
                                           std::multiplies<int64_t>());
  addChannelBias(run, elements, fields.output[1], bias, fields.relu != 0, y);
}

ConvolutionInputGradient::ConvolutionInputGradient(const Device &device,
                                                   const ConvolutionFields &fields)
    : plan(makePlan(device, fields, ConvolutionUse::inputGradient)) {}
ConvolutionInputGradient::~ConvolutionInputGradient() = default;

void ConvolutionInputGradient::operator()(const Run &run, const float *dy, const float *w,
                                          float *dx) {
  (*plan)(run, dx, w, dy);
}

ConvolutionWeightGradient::ConvolutionWeightGradient(const Device &device,
                                                     const ConvolutionFields &fields)
    : fresh(makePlan(device, fields, ConvolutionUse::weightGradient)),
      adding(makePlan(device, fields, ConvolutionUse::weightGradient, true)) {}
ConvolutionWeightGradient::~ConvolutionWeightGradient() = default;

void ConvolutionWeightGradient::operator()(const Run &run, const float *dy, const float *x,
                                           float *dw, bool add) {
  (add ? *adding : *fresh)(run, x, dw, dy);
}

} // namespace pdc::runtime::cuda
