#include "runtime/cuda/ApartOrTogether.h"
#include "runtime/cuda/ConvolutionPlan.h"
#include "runtime/cuda/Epilogue.h"
#include "runtime/cuda/Kernels.h"

namespace pdc::runtime::cuda {

static KernelRules rulesOf(const Device &device, const ConvolutionFields &fields) {
  return {factorsOf(fields.compute, fields.name) != Factors::fp32, !device.exact,
          workspaceRoom(device), !device.exact};
}

static std::shared_ptr<ConvolutionPlan> makePlan(const Device &device,
                                                 const ConvolutionFields &fields,
                                                 ConvolutionUse use, bool adds = false) {
  return ConvolutionPlan::shared(rulesOf(device, fields), fields, use, adds, device.tuning);
}

/// The library fuses a bias, and a relu behind it, into kernels for tensor cores only.
static bool hasBothWays(const ConvolutionFields &fields) {
  return fields.bias && factorsOf(fields.compute, fields.name) != Factors::fp32;
}

static std::string problemOf(const ConvolutionFields &fields) {
  return "cuDNN " + std::to_string(cudnnGetVersion()) + ", " +
         ConvolutionPlan::problemOf(fields, ConvolutionUse::finished) + ", in one kernel or in two";
}

/// A convolution, its bias and its relu, as the library's kernel and a pass over the image or,
/// where that is measured to be faster, as one of the library's.
class FinishedConvolution {
public:
  FinishedConvolution(const Device &device, const ConvolutionFields &fields)
      : fields(fields), ways(device.tuning, problemOf(fields)),
        apart(makePlan(device, this->fields, ConvolutionUse::forward)) {
    if (hasBothWays(fields))
      ways.make(together, PlanTarget{networkHandle(), nullptr}, rulesOf(device, fields),
                this->fields, ConvolutionUse::finished, false, device.tuning);
  }

  void operator()(const Run &run, const void *x, const void *w, const float *bias, void *y) {
    auto start = [&](ApartOrTogether::Way way) {
      if (way == ApartOrTogether::kTogether)
        return (*together)(run, {x, w, y, bias});
      (*apart)(run, {x, w, y});
      auto finish = [&](auto *to) {
        addChannelBias(run, fields.output, bias, fields.relu != 0, to);
      };
      asStored(factorsOf(fields.compute, fields.name), y, finish);
    };
    if (hasBothWays(fields))
      ways.choose(run, together.has_value(), start);
    start(ways.taken());
  }

private:
  const ConvolutionFields fields;
  ApartOrTogether ways;
  std::shared_ptr<ConvolutionPlan> apart;
  std::optional<ConvolutionPlan> together;
};

/// Those that are measured are, once for all that are equal.
Convolution::Convolution(const Device &device, const ConvolutionFields &fields)
    : plan(sharedPlan<FinishedConvolution>(
          hasBothWays(fields) ? device.tuning : nullptr, problemOf(fields),
          [&] { return std::make_shared<FinishedConvolution>(device, fields); })) {}
Convolution::~Convolution() = default;

void Convolution::operator()(const Run &run, const void *x, const void *w, const float *bias,
                             void *y) {
  (*plan)(run, x, w, bias, y);
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
  if (!add && adding)
    adding->tryOut(run, {x, dw, dy});
  (add ? *adding : *fresh)(run, {x, dw, dy});
}

} // namespace pdc::runtime::cuda
