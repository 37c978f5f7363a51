#include "testsuite/kernels/KernelMakers.h"

#ifndef PDC_CUDA_KERNELS
#include "runtime/kernels/CorrectPredictions.h"
#include "runtime/kernels/LossWeight.h"
#include "runtime/kernels/NegativeLogLikelihood.h"
#include "runtime/kernels/NegativeLogLikelihoodGradient.h"
#include "runtime/kernels/PairLoss.h"
#include "runtime/kernels/PairLossGradient.h"
#include "runtime/kernels/SoftmaxCrossEntropy.h"
#include "runtime/kernels/SoftmaxCrossEntropyGradient.h"
#endif

namespace pdc {

using namespace runtime;

namespace {

LabelledFields labelled(const KernelChoice &choice) {
  LabelledFields f;
  FieldReader{choice} FIELD(classes) FIELD(ignoreIndex) FIELD(ignores) FIELD(pixels) FIELD(results)
      FIELD(samples);
  return f;
}
PairLossFields pair(const KernelChoice &choice) {
  PairLossFields f;
  FieldReader{choice} FIELD(count) FIELD(kind);
  return f;
}

} // namespace

KernelMakers lossMakers() {
  return {
      {"SoftmaxCrossEntropy",
       [](auto &c, auto &d) {
         return made<kernels::SoftmaxCrossEntropy>(
             d, labelled(c), CALL {
               n == 6   ? k(r, p[0], p.labels(1), p[2], p[3], p[4], p[5])
               : n == 5 ? k(r, p[0], p.labels(1), p[2], p[3], p[4])
                        : k(r, p[0], p.labels(1), p[2], p[3]);
             });
       }},
      {"SoftmaxCrossEntropyGradient",
       [](auto &c, auto &d) {
         return made<kernels::SoftmaxCrossEntropyGradient>(
             d, labelled(c), CALL { k(r, p[0], p[1], p.labels(2), p[3], p[4], p[5]); });
       }},
      {"NegativeLogLikelihood",
       [](auto &c, auto &d) {
         return made<kernels::NegativeLogLikelihood>(
             d, labelled(c), CALL {
               n == 4 ? k(r, p[0], p.labels(1), p[2], p[3]) : k(r, p[0], p.labels(1), p[2]);
             });
       }},
      {"NegativeLogLikelihoodGradient",
       [](auto &c, auto &d) {
         return made<kernels::NegativeLogLikelihoodGradient>(
             d, labelled(c), CALL {
               n == 4 ? k(r, p[0], p.labels(1), p[2], p[3]) : k(r, p[0], p.labels(1), p[2]);
             });
       }},
      {"CorrectPredictions",
       [](auto &c, auto &d) {
         return made<kernels::CorrectPredictions>(
             d, labelled(c), CALL { k(r, p[0], p.labels(1), p[2]); });
       }},
      {"LossWeight",
       [](auto &c, auto &d) {
         LossWeightFields f;
         FieldReader{c} FIELD(classes) FIELD(count) FIELD(ignoreIndex) FIELD(ignores);
         return made<kernels::LossWeight>(
             d, f, CALL { n == 3 ? k(r, p.labels(0), p[1], p[2]) : k(r, p.labels(0), p[1]); });
       }},
      {"PairLoss",
       [](auto &c, auto &d) {
         return made<kernels::PairLoss>(
             d, pair(c), CALL { k(r, p[0], p[1], p[2]); });
       }},
      {"PairLossGradient",
       [](auto &c, auto &d) {
         return made<kernels::PairLossGradient>(
             d, pair(c), CALL { k(r, p[0], p[1], p[2], p[3]); });
       }},
  };
}

} // namespace pdc
