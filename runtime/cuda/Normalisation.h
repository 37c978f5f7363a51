#pragma once

#include "runtime/Program.h"
#include "runtime/cuda/Channels.h"
#include "runtime/cuda/NormalisationPointers.h"
#include "runtime/cuda/Workspace.h"
#include "runtime/kernels/BatchNormalizationFields.h"

/// A batch normalisation in its two parts: the statistics of each channel, and what is made of the
/// image with them.
namespace pdc::runtime::cuda {

/// One number per channel each.
struct ChannelNumbers {
  const float *scale, *bias;
  const float *mean, *variance;    ///< running ones
  float *newMean, *newVariance;    ///< null: they are not wanted
  float *savedMean, *savedInverse; ///< of this image: what it is normalised with
};

/// Of a call whose numbers begin at input `first`: scale, bias, running mean and variance. What is
/// saved for nobody lies in the workspace.
inline ChannelNumbers channelNumbers(const Run &run, const BatchNormalizationFields &fields,
                                     const NormalisationPointers<5> &p, size_t first) {
  const Channels shape(fields.input);
  float *behindSums =
      reinterpret_cast<float *>(run.scratchBase + columnSumBytes(shape.rows, shape.columns, 2));
  return {p.input(first),
          p.input(first + 1),
          p.input(first + 2),
          p.input(first + 3),
          p.output(1),
          p.output(2),
          p.output(3) ? p.output(3) : behindSums,
          p.output(4) ? p.output(4) : behindSums + shape.columns};
}

/// What is new or saved, of x. T: float, BFloat16, Float16.
template <class T>
void findStatistics(const Run &run, const BatchNormalizationFields &fields, const T *x,
                    const ChannelNumbers &numbers);
/// The same, where a library has summed each channel of x and, at `squares`, what is squared.
template <class T>
void finishStatistics(const Run &run, const BatchNormalizationFields &fields, const T *x,
                      const float *sums, const float *squares, const ChannelNumbers &numbers);
/// y, null where it is not wanted, by what is saved; plus an addend, where there is one.
template <class T>
void normalise(const Run &run, const BatchNormalizationFields &fields, const T *x,
               const ChannelNumbers &numbers, const T *addend, T *y);

} // namespace pdc::runtime::cuda
