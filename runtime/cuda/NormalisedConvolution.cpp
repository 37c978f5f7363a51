#include "runtime/cuda/ApartOrTogether.h"
#include "runtime/cuda/ConvolutionPlan.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Normalisation.h"

#include <sstream>

namespace pdc::runtime::cuda {

namespace {

int64_t bytesOfNormalisation(const NormalisedConvolutionFields &fields) {
  const Channels shape(fields.output);
  return normalisationBytes(shape.rows, shape.columns);
}

/// Sums lie in the workspace while the library uses its own, which begins behind them.
Run behindSums(Run run, const NormalisedConvolutionFields &fields) {
  run.scratchBase += bytesOfNormalisation(fields);
  return run;
}

KernelRules rulesOf(const Device &device, const NormalisedConvolutionFields &fields) {
  const size_t room = workspaceRoom(device),
               taken = static_cast<size_t>(bytesOfNormalisation(fields));
  return {true, !device.exact, room > taken ? room - taken : 0, !device.exact};
}

std::string problemOf(const NormalisedConvolutionFields &fields) {
  std::ostringstream text;
  text << "cuDNN " << cudnnGetVersion() << ", "
       << ConvolutionPlan::problemOf(fields.convolution(), ConvolutionUse::sums)
       << ", in one kernel or in two";
  return text.str();
}

} // namespace

/// A convolution and the statistics of each of its channels, as two kernels or, where that is
/// measured to be faster, as one of the library's. Each takes its fastest engine first. Units of
/// other constants share it, which come with each call.
class SummedConvolution {
public:
  SummedConvolution(const Device &device, const NormalisedConvolutionFields &fields)
      : fields(fields), ways(device.tuning, problemOf(fields)),
        apart(ConvolutionPlan::shared(rulesOf(device, fields), this->fields.convolution(),
                                      ConvolutionUse::forward, false, device.tuning)) {
    ways.make(together, PlanTarget{networkHandle(), nullptr}, rulesOf(device, fields),
              this->fields.convolution(), ConvolutionUse::sums, false, device.tuning);
  }

  void operator()(const Run &run, const BatchNormalizationFields &constants, const void *x,
                  const void *w, Float16 *y, const ChannelNumbers &numbers) {
    // Running statistics change once for a microbatch, however often the ways are started.
    ChannelNumbers measured = numbers;
    measured.newMean = measured.newVariance = nullptr;
    ways.choose(run, together.has_value(),
                [&](ApartOrTogether::Way way) { start(way, run, constants, x, w, y, measured); });
    start(ways.taken(), run, constants, x, w, y, numbers);
  }

private:
  void start(ApartOrTogether::Way way, const Run &run, const BatchNormalizationFields &constants,
             const void *x, const void *w, Float16 *y, const ChannelNumbers &numbers) {
    const Run ofLibrary = behindSums(run, fields);
    if (way == ApartOrTogether::kApart) {
      (*apart)(ofLibrary, {x, w, y});
      return findStatistics(run, constants, y, numbers);
    }
    float *sums = reinterpret_cast<float *>(run.scratchBase), *squares = sums + fields.output[1];
    (*together)(ofLibrary, {x, w, y, sums, squares});
    finishStatistics(run, constants, y, sums, squares, numbers);
  }

  const NormalisedConvolutionFields fields;
  ApartOrTogether ways;
  std::shared_ptr<ConvolutionPlan> apart;
  std::optional<ConvolutionPlan> together;
};

NormalisedConvolution::NormalisedConvolution(const Device &device,
                                             const NormalisedConvolutionFields &fields)
    : fields(fields), plan(sharedPlan<SummedConvolution>(device.tuning, problemOf(fields), [&] {
        return std::make_shared<SummedConvolution>(device, fields);
      })) {}
NormalisedConvolution::~NormalisedConvolution() = default;

void NormalisedConvolution::call(const Run &run, std::initializer_list<const void *> all) {
  const BatchNormalizationFields normalisation = fields.normalisation();
  const size_t operands = 6 + size_t(fields.addend);
  const NormalisationPointers<5> p(normalisation.results, operands + 1, all);
  const ChannelNumbers numbers = channelNumbers(run, normalisation, p, 2);
  auto *y = static_cast<Float16 *>(const_cast<void *>(p.inputs[operands]));
  (*plan)(run, normalisation, p.inputs[0], p.inputs[1], y, numbers);
  cuda::normalise(run, normalisation, static_cast<const Float16 *>(y), numbers,
                  fields.addend ? p.image<Float16>(6) : nullptr,
                  static_cast<Float16 *>(p.outputs[0]));
}

} // namespace pdc::runtime::cuda
