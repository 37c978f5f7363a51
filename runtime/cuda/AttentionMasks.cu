#include "runtime/cuda/AttentionMasks.h"

#include "runtime/cuda/Loop.h"
#include "runtime/cuda/Team.h"

#include <limits>

namespace pdc::runtime::cuda {

namespace {

constexpr int kRowThreads = 128;
constexpr int kStoredTogether = 8; ///< 16 bytes of 16 bits

/// A block for each row. In the place of the mask that there is, where a library knows only numbers
/// that are added.
__global__ void addedMask(AttentionFields f, AddedMask made, float hidden, const void *mask,
                          float *to) {
  const int64_t row = blockIdx.x, keys = made.sizes[3];
  const int64_t i = row % made.sizes[2], head = row / made.sizes[2] % made.sizes[1],
                b = row / made.sizes[2] / made.sizes[1];
  const int64_t seen = AddedMask::hidesKeys(f) ? f.visible(i) : keys;
  const Dimensions &s = f.maskStrides;
  const int64_t first = mask ? f.maskOf(b) * s[0] + head * s[1] + i * s[2] : 0,
                apart = mask ? s[3] : 0;
  for (int64_t j = threadIdx.x; j < keys; j += kRowThreads) {
    float value = j < seen ? 0 : hidden;
    if (mask && j < seen) {
      const int64_t at = first + j * apart;
      value = !f.boolean                               ? static_cast<const float *>(mask)[at]
              : static_cast<const uint8_t *>(mask)[at] ? 0
                                                       : hidden;
    }
    to[row * keys + j] = value;
  }
}

template <class T> struct alignas(16) StoredTogether { T values[kStoredTogether]; };

/// A block for each row: 1 for each share of a part that dropout keeps, else 0, as where no key is
/// seen, whose share is 0 in any case.
template <class T>
__global__ void keptShares(AttentionFields f, int64_t heads, int64_t firstSample, int64_t firstHead,
                           const int64_t *random, T *kept) {
  const int64_t row = blockIdx.x, i = row % f.queries;
  const int64_t head = firstHead + row / f.queries % heads,
                b = firstSample + row / f.queries / heads;
  const KeptShares those(f, random, b, head);
  const int64_t seen = f.visible(i);
  T *to = kept + row * f.keys;
  const bool isAligned = f.keys % kStoredTogether == 0;
  for (int64_t first = threadIdx.x * kStoredTogether; first < f.keys;
       first += kRowThreads * kStoredTogether) {
    StoredTogether<T> made;
    for (int c = 0; c < kStoredTogether; c += 4) {
      const uint64_t bits = those.bitsFrom(i, first + c);
      for (int lane = 0; lane < 4; ++lane)
        made.values[c + lane] =
            T(first + c + lane < seen && those.keeps(bits, lane) ? 1.0f : 0.0f);
    }
    if (isAligned)
      *reinterpret_cast<StoredTogether<T> *>(to + first) = made;
    else
      for (int c = 0; c < kStoredTogether && first + c < f.keys; ++c)
        to[first + c] = made.values[c];
  }
}

/// A thread for each row: hardly any has something to do. That of an unseen row of infinities is
/// NaN.
template <class T>
__global__ void unseenRows(AttentionFields f, float hidden, T *y, float *logSums) {
  const int64_t row = blockIdx.x * int64_t(kBlockThreads) + threadIdx.x;
  if (row >= f.batch * f.heads * f.queries || logSums[row] > hidden)
    return;
  const AttentionRows results(f, 3);
  const int64_t head = row / f.queries;
  T *to = y + results.first(head / f.heads, head % f.heads) + row % f.queries * results.stride();
  for (int64_t d = 0; d < results.width; ++d)
    to[d] = T(0.0f);
  logSums[row] = std::numeric_limits<float>::infinity();
}

/// What 16 bits hold is written as it is.
struct Same {
  PDC_EITHER float operator()(float value) const { return value; }
};

/// A thread for each element of the gradients of masks that samples take in turn, as far as the
/// part's heads have it: what its samples have made, in ascending order, beside what those before
/// them have.
template <class T>
__global__ void addInTurn(AttentionFields f, int64_t samples, int64_t firstSample, int64_t ofHeads,
                          int64_t firstElement, const T *made, float *gradient) {
  const int64_t element = blockIdx.x * int64_t(kBlockThreads) + threadIdx.x;
  if (element >= f.masks * ofHeads)
    return;
  const int64_t mask = element / ofHeads, place = element % ofHeads;
  const int64_t first = (mask + f.masks - firstSample % f.masks) % f.masks;
  if (first >= samples)
    return;
  float *to = gradient + mask * f.heads * f.queries * f.keys + firstElement + place;
  float sum = firstSample + first < f.masks ? 0 : *to;
  for (int64_t sample = first; sample < samples; sample += f.masks)
    sum += float(made[sample * ofHeads + place]);
  *to = sum;
}

} // namespace

const void *maskFor(const Run &run, const AttentionFields &f, const AttentionPlan &plan,
                    const void *mask) {
  float *place = plan.maskPlace(run);
  if (!place)
    return mask;
  const AddedMask made(f);
  launch(run, made.elements() / made.sizes[3], kRowThreads, addedMask, f, made,
         AttentionPlan::hiddenScore(), mask, place);
  return place;
}
template <class T>
AttentionPlan::PartAction keptFor(const Run &run, const AttentionFields &f,
                                  const AttentionPlan &plan, const int64_t *random) {
  T *place = static_cast<T *>(plan.keptPlace(run));
  if (!place)
    return {};
  return [&run, &f, random, place](const AttentionFields &part, int64_t b, int64_t head) {
    launch(run, part.batch * part.heads * f.queries, kRowThreads, keptShares<T>, f, part.heads, b,
           head, random, place);
  };
}

template <class T>
AttentionPlan::PartAction maskGradientTo(const Run &run, const AttentionFields &f,
                                         const AttentionPlan &plan, float *gradient) {
  const T *place = static_cast<const T *>(plan.maskGradientPlace(run));
  if (!place)
    return {};
  if (f.masks != 0)
    return [&run, &f, place, gradient](const AttentionFields &part, int64_t b, int64_t head) {
      const int64_t ofHead = f.queries * f.keys, ofHeads = part.heads * ofHead;
      launch(run, ceilDivide(f.masks * ofHeads, kBlockThreads), kBlockThreads, addInTurn<T>, f,
             part.batch, b, ofHeads, head * ofHead, place, gradient);
    };
  return [&run, &f, place, gradient](const AttentionFields &part, int64_t b, int64_t head) {
    const bool isShared = f.maskStrides[0] == 0;
    // A part has all heads of its samples, or is of one sample, and begins at a multiple of four.
    float *to = gradient + ((isShared ? 0 : b * f.heads) + head) * f.queries * f.keys;
    if (isShared && b > 0)
      loop(run, part.maskGradientElements(), Add(), into(to), to, place);
    else
      loop(run, part.maskGradientElements(), Same(), into(to), place);
  };
}

template <class T>
void clearUnseen(const Run &run, const AttentionFields &f, T *y, float *logSums) {
  // Where what hides is finite, so is the sum of a row of such scores.
  const float hidden = AttentionPlan::hiddenScore() / 2;
  launch(run, ceilDivide(f.batch * f.heads * f.queries, kBlockThreads), kBlockThreads,
         unseenRows<T>, f, hidden, y, logSums);
}

#define PDC_MASKS(T)                                                                               \
  template AttentionPlan::PartAction keptFor<T>(const Run &, const AttentionFields &,              \
                                                const AttentionPlan &, const int64_t *);           \
  template AttentionPlan::PartAction maskGradientTo<T>(const Run &, const AttentionFields &,       \
                                                       const AttentionPlan &, float *);            \
  template void clearUnseen<T>(const Run &, const AttentionFields &, T *, float *);
PDC_MASKS(float)
PDC_MASKS(BFloat16)
PDC_MASKS(Float16)
#undef PDC_MASKS

} // namespace pdc::runtime::cuda
