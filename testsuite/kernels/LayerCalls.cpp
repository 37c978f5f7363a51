#include "testsuite/kernels/KernelMakers.h"

#ifndef PDC_CUDA_KERNELS
#include "runtime/kernels/Attention.h"
#include "runtime/kernels/AttentionGradient.h"
#include "runtime/kernels/BatchNormalization.h"
#include "runtime/kernels/BatchNormalizationGradient.h"
#include "runtime/kernels/BatchNormalizationInference.h"
#include "runtime/kernels/ColumnSum.h"
#include "runtime/kernels/Convolution.h"
#include "runtime/kernels/ConvolutionInputGradient.h"
#include "runtime/kernels/ConvolutionWeightGradient.h"
#include "runtime/kernels/DepthwiseWeightGradient.h"
#include "runtime/kernels/Dropout.h"
#include "runtime/kernels/GroupNormalization.h"
#include "runtime/kernels/GroupNormalizationGradient.h"
#include "runtime/kernels/GruCell.h"
#include "runtime/kernels/GruCellGradient.h"
#include "runtime/kernels/LayerNormalization.h"
#include "runtime/kernels/LayerNormalizationInputGradient.h"
#include "runtime/kernels/LayerNormalizationScaleGradient.h"
#include "runtime/kernels/LocalResponse.h"
#include "runtime/kernels/LocalResponseGradient.h"
#include "runtime/kernels/LstmCell.h"
#include "runtime/kernels/LstmCellGradient.h"
#include "runtime/kernels/MatrixProduct.h"
#include "runtime/kernels/Pooling.h"
#include "runtime/kernels/PoolingGradient.h"
#include "runtime/kernels/RotateHalves.h"
#include "runtime/kernels/Softmax.h"
#include "runtime/kernels/SoftmaxGradient.h"
#include "runtime/kernels/UniformRandom.h"
#endif

namespace pdc {

using namespace runtime;

namespace {

ConvolutionFields convolution(const KernelChoice &choice) {
  ConvolutionFields f;
  FieldReader{choice} FIELD(algorithm) FIELD(bias) FIELD(compute) FIELD(dilations) FIELD(fallback)
      FIELD(groups) FIELD(input) FIELD(inputLayout) FIELD(name) FIELD(output) FIELD(outputLayout)
          FIELD(padsBegin) FIELD(padsEnd) FIELD(relu) FIELD(strides) FIELD(threads) FIELD(weight)
              FIELD(weightLayout);
  return f;
}
MatrixProductFields matrix(const KernelChoice &choice) {
  MatrixProductFields f;
  FieldReader{choice} FIELD(a) FIELD(alpha) FIELD(b) FIELD(bias) FIELD(compute) FIELD(name)
      FIELD(output) FIELD(relu) FIELD(sums) FIELD(transA) FIELD(transB);
  return f;
}
PoolingFields pooling(const KernelChoice &choice) {
  PoolingFields f;
  FieldReader{choice} FIELD(input) FIELD(kernel) FIELD(layout) FIELD(mode) FIELD(name) FIELD(output)
      FIELD(padsBegin) FIELD(positions) FIELD(strides);
  return f;
}
BatchNormalizationFields normalization(const KernelChoice &choice) {
  BatchNormalizationFields f;
  FieldReader{choice} FIELD(addend) FIELD(epsilon) FIELD(input) FIELD(layout) FIELD(momentum)
      FIELD(relu) FIELD(reluOfImage) FIELD(results) FIELD(terms);
  return f;
}
SoftmaxFields softmax(const KernelChoice &choice) {
  SoftmaxFields f;
  FieldReader{choice} FIELD(inner) FIELD(logarithm) FIELD(outer) FIELD(size);
  return f;
}
GroupNormalizationFields groups(const KernelChoice &choice) {
  GroupNormalizationFields f;
  FieldReader{choice} FIELD(epsilon) FIELD(groups) FIELD(input) FIELD(layout) FIELD(results)
      FIELD(swish);
  return f;
}
LayerNormalizationFields rows(const KernelChoice &choice) {
  LayerNormalizationFields f;
  FieldReader{choice} FIELD(centred) FIELD(epsilon) FIELD(rows) FIELD(size);
  return f;
}
AttentionFields attention(const KernelChoice &choice) {
  AttentionFields f;
  FieldReader{choice} FIELD(batch) FIELD(boolean) FIELD(causal) FIELD(compute) FIELD(guarded)
      FIELD(heads) FIELD(joined) FIELD(key) FIELD(keyHeads) FIELD(keys) FIELD(maskStrides)
          FIELD(masks) FIELD(name) FIELD(past) FIELD(queries) FIELD(ratio) FIELD(results)
              FIELD(rowsFirst) FIELD(samples) FIELD(scale) FIELD(valueWidth) FIELD(width);
  return f;
}
LocalResponseFields response(const KernelChoice &choice) {
  LocalResponseFields f;
  FieldReader{choice} FIELD(alpha) FIELD(beta) FIELD(bias) FIELD(input) FIELD(size);
  return f;
}
RecurrentCellFields cells(const KernelChoice &choice) {
  RecurrentCellFields f;
  FieldReader{choice} FIELD(gates) FIELD(results) FIELD(rows) FIELD(terms) FIELD(width);
  return f;
}

} // namespace

KernelMakers layerMakers() {
  return {
      {"Convolution",
       [](auto &c, auto &d) {
         return made<kernels::Convolution>(
             d, convolution(c),
             CALL { n == 4 ? k(r, p[0], p[1], p[2], p[3]) : k(r, p[0], p[1], p[2]); });
       }},
      {"ConvolutionInputGradient",
       [](auto &c, auto &d) {
         return made<kernels::ConvolutionInputGradient>(
             d, convolution(c), CALL { k(r, p[0], p[1], p[2]); });
       }},
      {"ConvolutionWeightGradient",
       [](auto &c, auto &d) {
         return made<kernels::ConvolutionWeightGradient>(
             d, convolution(c), CALL { k(r, p[0], p[1], p[2], add); });
       }},
#ifndef PDC_CUDA_KERNELS
      {"DepthwiseWeightGradient",
       [](auto &c, auto &d) {
         return made<kernels::DepthwiseWeightGradient>(
             d, convolution(c), CALL { k(r, p[0], p[1], p[2], add); });
       }},
#endif
      {"MatrixProduct",
       [](auto &c, auto &d) {
         return made<kernels::MatrixProduct>(
             d, matrix(c), CALL {
               n == 4 ? k(r, p[0], p[1], p[2], p[3])
               : add  ? k(r, p[0], p[1], p[2], add)
                      : k(r, p[0], p[1], p[2]);
             });
       }},
      {"Pooling",
       [](auto &c, auto &d) {
         return made<kernels::Pooling>(
             d, pooling(c), CALL { n == 3 ? k(r, p[0], p[1], p[2]) : k(r, p[0], p[1]); });
       }},
      {"PoolingGradient",
       [](auto &c, auto &d) {
         return made<kernels::PoolingGradient>(
             d, pooling(c), CALL { n == 3 ? k(r, p[0], p[1], p[2]) : k(r, p[0], p[1]); });
       }},
      {"BatchNormalization",
       [](auto &c, auto &d) {
         return made<kernels::BatchNormalization>(
             d, normalization(c), CALL { callWithAll<11>(k, r, p, n); });
       }},
      {"BatchNormalizationInference",
       [](auto &c, auto &d) {
         return made<kernels::BatchNormalizationInference>(
             d, normalization(c), CALL {
#ifdef PDC_CUDA_KERNELS
               if (n == 7)
                 return k(r, p[0], p[1], p[2], p[3], p[4], p[5], p[6]);
#endif
               k(r, p[0], p[1], p[2], p[3], p[4], p[5]);
             });
       }},
      {"BatchNormalizationGradient",
       [](auto &c, auto &d) {
         return made<kernels::BatchNormalizationGradient>(
             d, normalization(c), CALL { callWithAll<13>(k, r, p, n); });
       }},
      {"GroupNormalization",
       [](auto &c, auto &d) {
         return made<kernels::GroupNormalization>(
             d, groups(c), CALL { (callWithAll<6, 4>(k, r, p, n)); });
       }},
      {"GroupNormalizationGradient",
       [](auto &c, auto &d) {
         return made<kernels::GroupNormalizationGradient>(
             d, groups(c), CALL { (callWithAll<9, 7>(k, r, p, n)); });
       }},
      {"LayerNormalization",
       [](auto &c, auto &d) {
         return made<kernels::LayerNormalization>(
             d, rows(c), CALL {
               if (n == 4)
                 k(r, p[0], p[1], p[2], p[3]);
               else if (n == 5)
                 k(r, p[0], p[1], p[2], p[3], p[4]);
               else
                 k(r, p[0], p[1], p[2], p[3], p[4], p[5]);
             });
       }},
      {"LayerNormalizationInputGradient",
       [](auto &c, auto &d) {
         return made<kernels::LayerNormalizationInputGradient>(
             d, rows(c), CALL { k(r, p[0], p[1], p[2], p[3], p[4], p[5]); });
       }},
      {"LayerNormalizationScaleGradient",
       [](auto &c, auto &d) {
         return made<kernels::LayerNormalizationScaleGradient>(
             d, rows(c), CALL { k(r, p[0], p[1], p[2], p[3], p[4], add); });
       }},
      {"Attention",
       [](auto &c, auto &d) {
         return made<kernels::Attention>(
             d, attention(c), CALL {
               if (n == 6)
                 k(r, p[0], p[1], p[2], p[3], p.labels(4), p[5]);
               else
                 k(r, p[0], p[1], p[2], p[3], p.labels(4), p[5], p[6]);
             });
       }},
      {"AttentionGradient",
       [](auto &c, auto &d) {
         return made<kernels::AttentionGradient>(
             d, attention(c), CALL {
               auto with = [&](auto... results) {
                 k(r, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p.labels(7), results...);
               };
               if (n == 9)
                 with(p[8]);
               else if (n == 10)
                 with(p[8], p[9]);
               else if (n == 11)
                 with(p[8], p[9], p[10]);
               else
                 with(p[8], p[9], p[10], p[11]);
             });
       }},
      {"LocalResponse",
       [](auto &c, auto &d) {
         return made<kernels::LocalResponse>(
             d, response(c), CALL { k(r, p[0], p[1]); });
       }},
      {"LocalResponseGradient",
       [](auto &c, auto &d) {
         return made<kernels::LocalResponseGradient>(
             d, response(c), CALL { k(r, p[0], p[1], p[2], p[3]); });
       }},
      {"RotateHalves",
       [](auto &c, auto &d) {
         RotateHalvesFields f;
         FieldReader{c} FIELD(interleaved) FIELD(inverse) FIELD(rows) FIELD(strides) FIELD(width);
         return made<kernels::RotateHalves>(
             d, f, CALL { k(r, p[0], p[1], p[2], p[3]); });
       }},
      {"ColumnSum",
       [](auto &c, auto &d) {
         ColumnSumFields f;
         FieldReader{c} FIELD(input) FIELD(layout);
         return made<kernels::ColumnSum>(
             d, f, CALL { k(r, p[0], p[1], add); });
       }},
      {"Dropout",
       [](auto &c, auto &d) {
         DropoutFields f;
         FieldReader{c} FIELD(input) FIELD(key) FIELD(layout) FIELD(ratio);
         return made<kernels::Dropout>(
             d, f, CALL { k(r, p[0], p.labels(1), p[2]); });
       }},
      {"UniformRandom",
       [](auto &c, auto &d) {
         UniformRandomFields f;
         FieldReader{c} FIELD(key) FIELD(shape);
         return made<kernels::UniformRandom>(
             d, f, CALL { k(r, p.labels(0), p[1]); });
       }},
      {"LstmCell",
       [](auto &c, auto &d) {
         return made<kernels::LstmCell>(
             d, cells(c), CALL { n == 3 ? k(r, p[0], p[1], p[2]) : k(r, p[0], p[1], p[2], p[3]); });
       }},
      {"LstmCellGradient",
       [](auto &c, auto &d) {
         return made<kernels::LstmCellGradient>(
             d, cells(c), CALL { (callWithAll<10, 6>(k, r, p, n)); });
       }},
      {"GruCell",
       [](auto &c, auto &d) {
         return made<kernels::GruCell>(
             d, cells(c), CALL { k(r, p[0], p[1], p[2], p[3]); });
       }},
      {"GruCellGradient",
       [](auto &c, auto &d) {
         return made<kernels::GruCellGradient>(
             d, cells(c), CALL { (callWithAll<10, 5>(k, r, p, n)); });
       }},
      {"Softmax",
       [](auto &c, auto &d) {
         return made<kernels::Softmax>(
             d, softmax(c), CALL { k(r, p[0], p[1]); });
       }},
      {"SoftmaxGradient",
       [](auto &c, auto &d) {
         return made<kernels::SoftmaxGradient>(
             d, softmax(c), CALL { k(r, p[0], p[1], p[2]); });
       }},
  };
}

} // namespace pdc
