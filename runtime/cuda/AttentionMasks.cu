#include "runtime/cuda/AttentionMasks.h"

namespace pdc::runtime::cuda {

namespace {

/// In the place of the mask that there is, where a library knows only numbers that are added.
__global__ void addedMask(AttentionFields f, AddedMask made, float hidden, const void *mask,
                          float *to) {
  const int64_t e = globalThread();
  if (e >= made.elements())
    return;
  const int64_t j = e % made.sizes[3], i = e / made.sizes[3] % made.sizes[2],
                head = e / (made.sizes[3] * made.sizes[2]) % made.sizes[1],
                b = e / (made.sizes[3] * made.sizes[2] * made.sizes[1]);
  const bool isSeen = !AddedMask::hidesKeys(f) || j < f.visible(i);
  if (!mask) {
    to[e] = isSeen ? 0 : hidden;
    return;
  }
  const Dimensions &s = f.maskStrides;
  const int64_t at = b * s[0] + head * s[1] + i * s[2] + j * s[3];
  if (f.boolean)
    to[e] = isSeen && static_cast<const uint8_t *>(mask)[at] ? 0 : hidden;
  else
    to[e] = isSeen ? static_cast<const float *>(mask)[at] : hidden;
}

/// 1 for each share of a part that dropout keeps, else 0.
template <class T>
__global__ void keptShares(AttentionFields f, int64_t batch, int64_t heads, int64_t firstSample,
                           int64_t firstHead, const int64_t *random, T *kept) {
  const int64_t e = globalThread(), scores = f.queries * f.keys;
  if (e >= batch * heads * scores)
    return;
  const int64_t b = firstSample + e / (heads * scores), head = firstHead + e / scores % heads;
  kept[e] = T(keptOf(f, random, b, head, e / f.keys % f.queries, e % f.keys) > 0 ? 1.0f : 0.0f);
}

} // namespace

const void *maskFor(const Run &run, const AttentionFields &f, const AttentionPlan &plan,
                    const void *mask) {
  float *place = plan.maskPlace(run);
  if (!place)
    return mask;
  const AddedMask made(f);
  launchOver(run, made.elements(), addedMask, f, made, AttentionPlan::hiddenScore(), mask, place);
  return place;
}
template <class T>
AttentionPlan::BeforePart keptFor(const Run &run, const AttentionFields &f,
                                  const AttentionPlan &plan, const int64_t *random) {
  T *place = static_cast<T *>(plan.keptPlace(run));
  if (!place)
    return {};
  return [&run, &f, random, place](const AttentionFields &part, int64_t b, int64_t head) {
    launchOver(run, part.batch * part.heads * f.queries * f.keys, keptShares<T>, f, part.batch,
               part.heads, b, head, random, place);
  };
}

template AttentionPlan::BeforePart keptFor<float>(const Run &, const AttentionFields &,
                                                  const AttentionPlan &, const int64_t *);
template AttentionPlan::BeforePart keptFor<BFloat16>(const Run &, const AttentionFields &,
                                                     const AttentionPlan &, const int64_t *);
template AttentionPlan::BeforePart keptFor<Float16>(const Run &, const AttentionFields &,
                                                    const AttentionPlan &, const int64_t *);

} // namespace pdc::runtime::cuda
