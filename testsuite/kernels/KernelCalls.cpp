#include "testsuite/kernels/KernelCalls.h"

#ifdef PDC_CUDA_KERNELS
#include "runtime/cuda/Kernels.h"

#include <cuda_runtime_api.h>
#else
#include "runtime/kernels/AdagradUpdate.h"
#include "runtime/kernels/AdamUpdate.h"
#include "runtime/kernels/BatchNormalization.h"
#include "runtime/kernels/BatchNormalizationGradient.h"
#include "runtime/kernels/BatchNormalizationInference.h"
#include "runtime/kernels/ColumnSum.h"
#include "runtime/kernels/Concat.h"
#include "runtime/kernels/Convolution.h"
#include "runtime/kernels/ConvolutionInputGradient.h"
#include "runtime/kernels/ConvolutionWeightGradient.h"
#include "runtime/kernels/CorrectPredictions.h"
#include "runtime/kernels/CumulativeSum.h"
#include "runtime/kernels/Dropout.h"
#include "runtime/kernels/Gather.h"
#include "runtime/kernels/GatherGradient.h"
#include "runtime/kernels/LocalResponse.h"
#include "runtime/kernels/LocalResponseGradient.h"
#include "runtime/kernels/LossWeight.h"
#include "runtime/kernels/MatrixProduct.h"
#include "runtime/kernels/MomentumUpdate.h"
#include "runtime/kernels/NegativeLogLikelihood.h"
#include "runtime/kernels/NegativeLogLikelihoodGradient.h"
#include "runtime/kernels/PairLoss.h"
#include "runtime/kernels/PairLossGradient.h"
#include "runtime/kernels/Pooling.h"
#include "runtime/kernels/PoolingGradient.h"
#include "runtime/kernels/Reduce.h"
#include "runtime/kernels/ReduceSum.h"
#include "runtime/kernels/Reorder.h"
#include "runtime/kernels/SgdUpdate.h"
#include "runtime/kernels/Softmax.h"
#include "runtime/kernels/SoftmaxCrossEntropy.h"
#include "runtime/kernels/SoftmaxCrossEntropyGradient.h"
#include "runtime/kernels/SoftmaxGradient.h"
#include "runtime/kernels/StridedCopy.h"
#endif

#include <map>
#include <memory>
#include <set>
#include <stdexcept>

namespace pdc {

using namespace runtime;

namespace {

#ifdef PDC_CUDA_KERNELS
using cuda::AdagradUpdate;
using cuda::AdamUpdate;
using cuda::BatchNormalization;
using cuda::BatchNormalizationGradient;
using cuda::BatchNormalizationInference;
using cuda::ColumnSum;
using cuda::Concat;
using cuda::Convolution;
using cuda::ConvolutionInputGradient;
using cuda::ConvolutionWeightGradient;
using cuda::CorrectPredictions;
using cuda::Dropout;
using cuda::Gather;
using cuda::GatherGradient;
using cuda::LayerNormalization;
using cuda::LayerNormalizationInputGradient;
using cuda::LayerNormalizationScaleGradient;
using cuda::LocalResponse;
using cuda::LocalResponseGradient;
using cuda::LossWeight;
using cuda::MatrixProduct;
using cuda::MomentumUpdate;
using cuda::NegativeLogLikelihood;
using cuda::NegativeLogLikelihoodGradient;
using cuda::PairLoss;
using cuda::PairLossGradient;
using cuda::Pooling;
using cuda::PoolingGradient;
using cuda::ReduceSum;
using cuda::Reorder;
using cuda::SgdUpdate;
using cuda::Softmax;
using cuda::SoftmaxCrossEntropy;
using cuda::SoftmaxCrossEntropyGradient;
using cuda::SoftmaxGradient;
using cuda::Split;
using cuda::StridedCopy;

/// The stream of the tests. What is put into it runs when `finish` waits for it.
cudaStream_t testStream() {
  static cudaStream_t stream = [] {
    cudaStream_t made = nullptr;
    cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
    return made;
  }();
  return stream;
}
Run started(Run run) {
  run.queue = testStream();
  return run;
}
void finish() { cudaStreamSynchronize(testStream()); }
#else
const Run &started(const Run &run) { return run; }
void finish() {}
#endif

/// Reads a choice's fields into a struct, and complains about those that the struct lacks.
class FieldReader {
public:
  explicit FieldReader(const KernelChoice &choice) : choice(choice) {}
  ~FieldReader() noexcept(false) {
    for (const auto &[name, value] : choice.fields)
      if (!read.count(name) && !std::uncaught_exceptions())
        throw std::runtime_error(choice.kernel + " has no field " + name);
  }
  FieldReader &operator()(const char *name, int64_t &field) {
    if (take(name))
      field = choice.fields.integer(name, 0);
    return *this;
  }
  FieldReader &operator()(const char *name, double &field) {
    if (take(name))
      field = choice.fields.number(name, 0);
    return *this;
  }
  FieldReader &operator()(const char *name, Dimensions &field) {
    if (take(name))
      field = choice.fields.integers(name);
    return *this;
  }
  FieldReader &operator()(const char *name, std::vector<int64_t> &field) {
    if (take(name))
      field = choice.fields.integers(name);
    return *this;
  }
  FieldReader &operator()(const char *name, const char *&field) {
    static std::set<std::string> kept;
    if (take(name))
      field = kept.insert(choice.fields.string(name, "")).first->c_str();
    return *this;
  }

private:
  bool take(const char *name) {
    read.insert(name);
    return choice.fields.has(name);
  }
  const KernelChoice &choice;
  std::set<std::string> read;
};

#define FIELD(name) (#name, f.name)

ConvolutionFields convolution(const KernelChoice &choice) {
  ConvolutionFields f;
  FieldReader{choice} FIELD(algorithm) FIELD(dilations) FIELD(fallback) FIELD(groups) FIELD(input)
      FIELD(inputLayout) FIELD(name) FIELD(output) FIELD(outputLayout) FIELD(padsBegin)
          FIELD(padsEnd) FIELD(relu) FIELD(strides) FIELD(threads) FIELD(weight)
              FIELD(weightLayout);
  return f;
}
MatrixProductFields matrix(const KernelChoice &choice) {
  MatrixProductFields f;
  FieldReader{choice} FIELD(a) FIELD(alpha) FIELD(b) FIELD(bias) FIELD(name) FIELD(output)
      FIELD(relu) FIELD(transA) FIELD(transB);
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
  FieldReader{choice} FIELD(epsilon) FIELD(input) FIELD(layout) FIELD(momentum) FIELD(relu)
      FIELD(results);
  return f;
}
LabelledFields labelled(const KernelChoice &choice) {
  LabelledFields f;
  FieldReader{choice} FIELD(classes) FIELD(ignoreIndex) FIELD(ignores) FIELD(pixels) FIELD(samples);
  return f;
}
PairLossFields pair(const KernelChoice &choice) {
  PairLossFields f;
  FieldReader{choice} FIELD(count) FIELD(kind);
  return f;
}
SoftmaxFields softmax(const KernelChoice &choice) {
  SoftmaxFields f;
  FieldReader{choice} FIELD(inner) FIELD(logarithm) FIELD(outer) FIELD(size);
  return f;
}
#ifdef PDC_CUDA_KERNELS
LayerNormalizationFields rows(const KernelChoice &choice) {
  LayerNormalizationFields f;
  FieldReader{choice} FIELD(epsilon) FIELD(rows) FIELD(size);
  return f;
}
#endif
GatherFields gather(const KernelChoice &choice) {
  GatherFields f;
  FieldReader{choice} FIELD(count) FIELD(inner) FIELD(outer) FIELD(size);
  return f;
}
LocalResponseFields response(const KernelChoice &choice) {
  LocalResponseFields f;
  FieldReader{choice} FIELD(alpha) FIELD(beta) FIELD(bias) FIELD(input) FIELD(size);
  return f;
}

using Pointers = std::vector<void *>;

/// The pointers of a call with their types.
struct At {
  const Pointers &p;
  float *operator[](size_t i) const { return static_cast<float *>(p.at(i)); }
  int64_t *labels(size_t i) const { return static_cast<int64_t *>(p.at(i)); }
};

using Maker = std::function<KernelCall(const KernelChoice &, const Device &)>;

template <class Kernel, class Fields, class Call>
KernelCall made(const Device &device, Fields f, Call call) {
  auto kernel = std::make_shared<Kernel>(device, f);
  return [kernel, call](const Run &run, const Pointers &p, bool add) {
    call(*kernel, started(run), At{p}, p.size(), add);
    finish();
  };
}

#define CALL [](auto &k, const Run &r, At p, [[maybe_unused]] size_t n, [[maybe_unused]] bool add)

std::map<std::string, Maker> layerMakers() {
  return {
      {"Convolution",
       [](auto &c, auto &d) {
         return made<Convolution>(
             d, convolution(c),
             CALL { n == 4 ? k(r, p[0], p[1], p[2], p[3]) : k(r, p[0], p[1], p[2]); });
       }},
      {"ConvolutionInputGradient",
       [](auto &c, auto &d) {
         return made<ConvolutionInputGradient>(
             d, convolution(c), CALL { k(r, p[0], p[1], p[2]); });
       }},
      {"ConvolutionWeightGradient",
       [](auto &c, auto &d) {
         return made<ConvolutionWeightGradient>(
             d, convolution(c), CALL { k(r, p[0], p[1], p[2], add); });
       }},
      {"MatrixProduct",
       [](auto &c, auto &d) {
         return made<MatrixProduct>(
             d, matrix(c), CALL {
               n == 4 ? k(r, p[0], p[1], p[2], p[3])
               : add  ? k(r, p[0], p[1], p[2], add)
                      : k(r, p[0], p[1], p[2]);
             });
       }},
      {"Pooling",
       [](auto &c, auto &d) {
         return made<Pooling>(
             d, pooling(c), CALL { n == 3 ? k(r, p[0], p[1], p[2]) : k(r, p[0], p[1]); });
       }},
      {"PoolingGradient",
       [](auto &c, auto &d) {
         return made<PoolingGradient>(
             d, pooling(c), CALL { n == 3 ? k(r, p[0], p[1], p[2]) : k(r, p[0], p[1]); });
       }},
      {"BatchNormalization",
       [](auto &c, auto &d) {
         return made<BatchNormalization>(
             d, normalization(c),
             CALL { k(r, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9]); });
       }},
      {"BatchNormalizationInference",
       [](auto &c, auto &d) {
         return made<BatchNormalizationInference>(
             d, normalization(c), CALL { k(r, p[0], p[1], p[2], p[3], p[4], p[5]); });
       }},
      {"BatchNormalizationGradient",
       [](auto &c, auto &d) {
         return made<BatchNormalizationGradient>(
             d, normalization(c), CALL {
               n == 9 ? k(r, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8])
                      : k(r, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]);
             });
       }},
#ifdef PDC_CUDA_KERNELS
      {"LayerNormalization",
       [](auto &c, auto &d) {
         return made<LayerNormalization>(
             d, rows(c), CALL {
               n == 6 ? k(r, p[0], p[1], p[2], p[3], p[4], p[5]) : k(r, p[0], p[1], p[2], p[3]);
             });
       }},
      {"LayerNormalizationInputGradient",
       [](auto &c, auto &d) {
         return made<LayerNormalizationInputGradient>(
             d, rows(c), CALL { k(r, p[0], p[1], p[2], p[3], p[4], p[5]); });
       }},
      {"LayerNormalizationScaleGradient",
       [](auto &c, auto &d) {
         return made<LayerNormalizationScaleGradient>(
             d, rows(c), CALL { k(r, p[0], p[1], p[2], p[3], p[4], add); });
       }},
#endif
      {"LocalResponse",
       [](auto &c, auto &d) {
         return made<LocalResponse>(
             d, response(c), CALL { k(r, p[0], p[1]); });
       }},
      {"LocalResponseGradient",
       [](auto &c, auto &d) {
         return made<LocalResponseGradient>(
             d, response(c), CALL { k(r, p[0], p[1], p[2], p[3]); });
       }},
      {"ColumnSum",
       [](auto &c, auto &d) {
         ColumnSumFields f;
         FieldReader{c} FIELD(input) FIELD(layout);
         return made<ColumnSum>(
             d, f, CALL { k(r, p[0], p[1], add); });
       }},
      {"Dropout",
       [](auto &c, auto &d) {
         DropoutFields f;
         FieldReader{c} FIELD(input) FIELD(key) FIELD(layout) FIELD(ratio);
         return made<Dropout>(
             d, f, CALL { k(r, p[0], p.labels(1), p[2]); });
       }},
  };
}

std::map<std::string, Maker> lossMakers() {
  return {
      {"SoftmaxCrossEntropy",
       [](auto &c, auto &d) {
         return made<SoftmaxCrossEntropy>(
             d, labelled(c), CALL {
               n == 5 && !p[3] ? k(r, p[0], p.labels(1), p[2], nullptr, p[4])
               : n == 5 ? k(r, p[0], p.labels(1), p[2], p[3], p[4])
               : n == 4 ? k(r, p[0], p.labels(1), p[2], p[3])
                        : k(r, p[0], p.labels(1), p[2]);
             });
       }},
      {"SoftmaxCrossEntropyGradient",
       [](auto &c, auto &d) {
         return made<SoftmaxCrossEntropyGradient>(
             d, labelled(c), CALL {
               n == 5 ? k(r, p[0], p[1], p.labels(2), p[3], p[4])
                      : k(r, p[0], p[1], p.labels(2), p[3]);
             });
       }},
      {"NegativeLogLikelihood",
       [](auto &c, auto &d) {
         return made<NegativeLogLikelihood>(
             d, labelled(c), CALL {
               n == 4 ? k(r, p[0], p.labels(1), p[2], p[3]) : k(r, p[0], p.labels(1), p[2]);
             });
       }},
      {"NegativeLogLikelihoodGradient",
       [](auto &c, auto &d) {
         return made<NegativeLogLikelihoodGradient>(
             d, labelled(c), CALL {
               n == 4 ? k(r, p[0], p.labels(1), p[2], p[3]) : k(r, p[0], p.labels(1), p[2]);
             });
       }},
      {"CorrectPredictions",
       [](auto &c, auto &d) {
         return made<CorrectPredictions>(
             d, labelled(c), CALL { k(r, p[0], p.labels(1), p[2]); });
       }},
      {"LossWeight",
       [](auto &c, auto &d) {
         LossWeightFields f;
         FieldReader{c} FIELD(count) FIELD(ignoreIndex) FIELD(ignores);
         return made<LossWeight>(
             d, f, CALL { n == 3 ? k(r, p.labels(0), p[1], p[2]) : k(r, p.labels(0), p[1]); });
       }},
      {"PairLoss",
       [](auto &c, auto &d) {
         return made<PairLoss>(
             d, pair(c), CALL { k(r, p[0], p[1], p[2]); });
       }},
      {"PairLossGradient",
       [](auto &c, auto &d) {
         return made<PairLossGradient>(
             d, pair(c), CALL { k(r, p[0], p[1], p[2], p[3]); });
       }},
      {"Softmax",
       [](auto &c, auto &d) {
         return made<Softmax>(
             d, softmax(c), CALL { k(r, p[0], p[1]); });
       }},
      {"SoftmaxGradient",
       [](auto &c, auto &d) {
         return made<SoftmaxGradient>(
             d, softmax(c), CALL { k(r, p[0], p[1], p[2]); });
       }},
  };
}

std::map<std::string, Maker> otherMakers() {
  return {
      {"Reorder",
       [](auto &c, auto &d) {
         ReorderFields f;
         FieldReader{c} FIELD(from) FIELD(name) FIELD(shape) FIELD(to);
         return made<Reorder>(
             d, f, CALL { k(r, p[0], p[1]); });
       }},
      {"StridedCopy",
       [](auto &c, auto &d) {
         StridedCopyFields f;
         FieldReader{c} FIELD(fill) FIELD(inputOffset) FIELD(inputStrides) FIELD(outputElements)
             FIELD(outputOffset) FIELD(outputStrides) FIELD(shape);
         return made<StridedCopy>(
             d, f, CALL { k(r, p[0], p[1]); });
       }},
      {"Concat",
       [](auto &c, auto &d) {
         ConcatFields f;
         FieldReader{c} FIELD(blockBytes) FIELD(outer);
         return made<Concat>(
             d, f, CALL { n == 4 ? k(r, p[0], p[1], p[2], p[3]) : k(r, p[0], p[1], p[2]); });
       }},
      {"Gather",
       [](auto &c, auto &d) {
         return made<Gather>(
             d, gather(c), CALL { k(r, p[0], p.labels(1), p[2]); });
       }},
      {"GatherGradient",
       [](auto &c, auto &d) {
         return made<GatherGradient>(
             d, gather(c), CALL { k(r, p.labels(0), p[1], p[2], add); });
       }},
      {"ReduceSum",
       [](auto &c, auto &d) {
         ReduceSumFields f;
         FieldReader{c} FIELD(keptShape) FIELD(keptStrides) FIELD(scale) FIELD(sumShape)
             FIELD(sumStrides);
         return made<ReduceSum>(
             d, f, CALL { k(r, p[0], p[1], add); });
       }},
#ifndef PDC_CUDA_KERNELS
      {"Reduce",
       [](auto &c, auto &d) {
         ReduceFields f;
         FieldReader{c} FIELD(keptShape) FIELD(keptStrides) FIELD(operation) FIELD(reducedShape)
             FIELD(reducedStrides);
         return made<Reduce>(
             d, f, CALL { k(r, p[0], p[1]); });
       }},
      {"CumulativeSum",
       [](auto &c, auto &d) {
         CumulativeSumFields f;
         FieldReader{c} FIELD(exclusive) FIELD(inner) FIELD(outer) FIELD(reverse) FIELD(size);
         return made<CumulativeSum>(
             d, f, CALL { k(r, p[0], p[1]); });
       }},
#endif
      {"SgdUpdate",
       [](auto &c, auto &d) {
         SgdUpdateFields f;
         FieldReader{c} FIELD(count) FIELD(weight_decay);
         return made<SgdUpdate>(
             d, f, CALL { k(r, p[0], p[1], p[2], p[3], p[4]); });
       }},
      {"MomentumUpdate",
       [](auto &c, auto &d) {
         MomentumUpdateFields f;
         FieldReader{c} FIELD(count) FIELD(dampening) FIELD(first_step) FIELD(momentum)
             FIELD(nesterov) FIELD(weight_decay);
         return made<MomentumUpdate>(
             d, f, CALL { k(r, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]); });
       }},
      {"AdagradUpdate",
       [](auto &c, auto &d) {
         AdagradUpdateFields f;
         FieldReader{c} FIELD(count) FIELD(epsilon) FIELD(first_step) FIELD(lr_decay)
             FIELD(weight_decay);
         return made<AdagradUpdate>(
             d, f, CALL { k(r, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]); });
       }},
      {"AdamUpdate",
       [](auto &c, auto &d) {
         AdamUpdateFields f;
         FieldReader{c} FIELD(beta1) FIELD(beta2) FIELD(count) FIELD(decoupled) FIELD(epsilon)
             FIELD(first_step) FIELD(post_decay) FIELD(scaled_epsilon) FIELD(weight_decay);
         return made<AdamUpdate>(
             d, f, CALL { k(r, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9]); });
       }},
  };
}

} // namespace

KernelCall makeKernel(const KernelChoice &choice, const Device &device) {
  for (auto makers : {layerMakers, lossMakers, otherMakers}) {
    auto table = makers();
    if (auto found = table.find(choice.kernel); found != table.end())
      return found->second(choice, device);
  }
  throw std::runtime_error("no kernel is called '" + choice.kernel + "'");
}

} // namespace pdc
