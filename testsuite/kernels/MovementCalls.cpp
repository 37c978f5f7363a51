#include "testsuite/kernels/KernelMakers.h"

#ifndef PDC_CUDA_KERNELS
#include "runtime/kernels/ArgMax.h"
#include "runtime/kernels/Concat.h"
#include "runtime/kernels/CumulativeSum.h"
#include "runtime/kernels/Gather.h"
#include "runtime/kernels/GatherGradient.h"
#include "runtime/kernels/Reduce.h"
#include "runtime/kernels/ReduceSum.h"
#include "runtime/kernels/Reorder.h"
#include "runtime/kernels/ScatterMaximum.h"
#include "runtime/kernels/Split.h"
#include "runtime/kernels/StridedCopy.h"
#include "runtime/kernels/TopK.h"
#endif

namespace pdc {

using namespace runtime;

namespace {

GatherFields gather(const KernelChoice &choice) {
  GatherFields f;
  FieldReader{choice} FIELD(count) FIELD(inner) FIELD(outer) FIELD(size);
  return f;
}

} // namespace

KernelMakers movementMakers() {
  return {
      {"Reorder",
       [](auto &c, auto &d) {
         ReorderFields f;
         FieldReader{c} FIELD(from) FIELD(name) FIELD(shape) FIELD(to);
         return made<kernels::Reorder>(
             d, f, CALL { k(r, p[0], p[1]); });
       }},
      {"StridedCopy",
       [](auto &c, auto &d) {
         StridedCopyFields f;
         FieldReader{c} FIELD(fill) FIELD(inputOffset) FIELD(inputStrides) FIELD(outputElements)
             FIELD(outputOffset) FIELD(outputStrides) FIELD(shape);
         return made<kernels::StridedCopy>(
             d, f, CALL { k(r, p[0], p[1]); });
       }},
      {"Concat",
       [](auto &c, auto &d) {
         ConcatFields f;
         FieldReader{c} FIELD(blockBytes) FIELD(outer);
         return made<kernels::Concat>(
             d, f, CALL { n == 4 ? k(r, p[0], p[1], p[2], p[3]) : k(r, p[0], p[1], p[2]); });
       }},
      {"Split",
       [](auto &c, auto &d) {
         SplitFields f;
         FieldReader{c} FIELD(blockBytes) FIELD(outer) FIELD(results);
         return made<kernels::Split>(
             d, f, CALL { k(r, p[0], p[1], p[2]); });
       }},
      {"Gather",
       [](auto &c, auto &d) {
         return made<kernels::Gather>(
             d, gather(c), CALL { k(r, p[0], p.labels(1), p[2]); });
       }},
      {"GatherGradient",
       [](auto &c, auto &d) {
         return made<kernels::GatherGradient>(
             d, gather(c), CALL { k(r, p.labels(0), p[1], p[2], add); });
       }},
      {"ScatterMaximum",
       [](auto &c, auto &d) {
         return made<kernels::ScatterMaximum>(
             d, gather(c), CALL { k(r, p.labels(0), p[1], p[2]); });
       }},
      {"ReduceSum",
       [](auto &c, auto &d) {
         ReduceSumFields f;
         FieldReader{c} FIELD(keptShape) FIELD(keptStrides) FIELD(scale) FIELD(sumShape)
             FIELD(sumStrides);
         return made<kernels::ReduceSum>(
             d, f, CALL { k(r, p[0], p[1], add); });
       }},
      {"Reduce",
       [](auto &c, auto &d) {
         ReduceFields f;
         FieldReader{c} FIELD(keptShape) FIELD(keptStrides) FIELD(operation) FIELD(reducedShape)
             FIELD(reducedStrides);
         return made<kernels::Reduce>(
             d, f, CALL { k(r, p[0], p[1]); });
       }},
      {"CumulativeSum",
       [](auto &c, auto &d) {
         CumulativeSumFields f;
         FieldReader{c} FIELD(exclusive) FIELD(inner) FIELD(outer) FIELD(reverse) FIELD(size);
         return made<kernels::CumulativeSum>(
             d, f, CALL { k(r, p[0], p[1]); });
       }},
      {"ArgMax",
       [](auto &c, auto &d) {
         ArgMaxFields f;
         FieldReader{c} FIELD(inner) FIELD(last) FIELD(outer) FIELD(size);
         return made<kernels::ArgMax>(
             d, f, CALL { k(r, p[0], p.labels(1)); });
       }},
      {"TopK",
       [](auto &c, auto &d) {
         TopKFields f;
         FieldReader{c} FIELD(count) FIELD(inner) FIELD(largest) FIELD(outer) FIELD(size);
         return made<kernels::TopK>(
             d, f, CALL { k(r, p[0], p.labels(1)); });
       }},
  };
}

} // namespace pdc
