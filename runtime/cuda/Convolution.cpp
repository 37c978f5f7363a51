#include "runtime/cuda/ConvolutionPlan.h"
#include "runtime/cuda/Epilogue.h"
#include "runtime/cuda/Kernels.h"

namespace pdc::runtime::cuda {

static std::shared_ptr<ConvolutionPlan> makePlan(const Device &device,
                                                 const ConvolutionFields &fields,
                                                 ConvolutionUse use, bool adds = false) {
  const KernelRules rules{factorsOf(fields.compute, fields.name) != Factors::fp32, !device.exact,
                          workspaceRoom(device), !device.exact};
  return ConvolutionPlan::shared(rules, fields, use, adds, device.tuning);
}

Convolution::Convolution(const Device &device, const ConvolutionFields &fields)
    : fields(fields), plan(makePlan(device, fields, ConvolutionUse::forward)) {}
Convolution::~Convolution() = default;

/// Bias and relu in one pass: the library fuses them into kernels for tensor cores only.
void Convolution::operator()(const Run &run, const void *x, const void *w, const float *bias,
                             void *y) {
  (*plan)(run, {x, w, y});
  auto finish = [&](auto *to) { addChannelBias(run, fields.output, bias, fields.relu != 0, to); };
  asStored(factorsOf(fields.compute, fields.name), y, finish);
}

ConvolutionInputGradient::ConvolutionInputGradient(const Device &device,
                                                   const ConvolutionFields &fields)
    : plan(makePlan(device, fields, ConvolutionUse::inputGradient)) {}
ConvolutionInputGradient::~ConvolutionInputGradient() = default;

void ConvolutionInputGradient::operator()(const Run &run, const void *dy, const void *w, void *dx) {
  (*plan)(run, {dx, w, dy});
}

ConvolutionWeightGradient::ConvolutionWeightGradient(const Device &device,
                                                     const ConvolutionFields &fields)
    : fresh(makePlan(device, fields, ConvolutionUse::weightGradient)),
      adding(areNarrow(factorsOf(fields.compute, fields.name))
                 ? nullptr
                 : makePlan(device, fields, ConvolutionUse::weightGradient, true)) {}
ConvolutionWeightGradient::~ConvolutionWeightGradient() = default;

void ConvolutionWeightGradient::operator()(const Run &run, const void *dy, const void *x, void *dw,
                                           bool add) {
  (add ? *adding : *fresh)(run, {x, dw, dy});
}

} // namespace pdc::runtime::cuda
