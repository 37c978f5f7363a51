#pragma once

#include "runtime/Program.h"
#include "runtime/cuda/Fields.h"

#include <concepts>
#include <initializer_list>
#include <memory>

/// What layers are made of, and the gradients of them.
namespace pdc::runtime::cuda {

/// cuDNN's convolution, then bias and relu in one pass over the result.
class Convolution {
public:
  Convolution(const Device &device, const ConvolutionFields &fields);
  ~Convolution();
  void operator()(const Run &run, const float *x, const float *w, const float *bias, float *y);
  void operator()(const Run &run, const float *x, const float *w, float *y) {
    (*this)(run, x, w, nullptr, y);
  }

private:
  ConvolutionFields fields;
  std::unique_ptr<class ConvolutionPlan> plan;
};

class ConvolutionInputGradient {
public:
  ConvolutionInputGradient(const Device &device, const ConvolutionFields &fields);
  ~ConvolutionInputGradient();
  void operator()(const Run &run, const float *dy, const float *w, float *dx);

private:
  std::unique_ptr<class ConvolutionPlan> plan;
};

/// A sum is cuDNN's beta = 1.
class ConvolutionWeightGradient {
public:
  ConvolutionWeightGradient(const Device &device, const ConvolutionFields &fields);
  ~ConvolutionWeightGradient();
  void operator()(const Run &run, const float *dy, const float *x, float *dw, bool add);

private:
  std::unique_ptr<class ConvolutionPlan> fresh, adding;
};

/// cuBLASLt, with its epilogues for a bias per column and relu; any other bias is added behind.
class MatrixProduct {
public:
  MatrixProduct(const Device &device, const MatrixProductFields &fields);
  ~MatrixProduct();
  void operator()(const Run &run, const float *a, const float *b, const float *bias, float *y) {
    call(run, a, b, bias, y, false);
  }
  void operator()(const Run &run, const float *a, const float *b, float *y) {
    call(run, a, b, nullptr, y, false);
  }
  void operator()(const Run &run, const float *a, const float *b, float *y,
                  std::same_as<bool> auto add) {
    call(run, a, b, nullptr, y, add);
  }

private:
  void call(const Run &run, const float *a, const float *b, const float *bias, float *y, bool add);
  std::unique_ptr<class MatrixProductPlan> plan;
};

class Pooling {
public:
  Pooling(const Device &, const PoolingFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, float *y) const;
  /// `positions`: the tap of each maximum within its window, in bytes below 256 taps, else i32.
  void operator()(const Run &run, const float *x, float *y, void *positions) const;

private:
  PoolingFields fields;
};

class PoolingGradient {
public:
  PoolingGradient(const Device &, const PoolingFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *dy, float *dx) const;
  void operator()(const Run &run, const float *dy, const void *positions, float *dx) const;

private:
  PoolingFields fields;
};

class BatchNormalization {
public:
  BatchNormalization(const Device &, const BatchNormalizationFields &fields) : fields(fields) {}
  template <class... Pointers> void operator()(const Run &run, Pointers *...pointers) const {
    call(run, {pointers...});
  }

private:
  void call(const Run &run, std::initializer_list<const float *> pointers) const;
  BatchNormalizationFields fields;
};

class BatchNormalizationInference {
public:
  BatchNormalizationInference(const Device &, const BatchNormalizationFields &fields)
      : fields(fields) {}
  void operator()(const Run &run, const float *x, const float *scale, const float *bias,
                  const float *mean, const float *variance, float *y) const;

private:
  BatchNormalizationFields fields;
};

class BatchNormalizationGradient {
public:
  BatchNormalizationGradient(const Device &, const BatchNormalizationFields &fields)
      : fields(fields) {}
  template <class... Pointers> void operator()(const Run &run, Pointers *...pointers) const {
    call(run, {pointers...});
  }

private:
  void call(const Run &run, std::initializer_list<const float *> pointers) const;
  BatchNormalizationFields fields;
};

class LayerNormalization {
public:
  LayerNormalization(const Device &, const LayerNormalizationFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, const float *scale, const float *bias,
                  float *y) const {
    (*this)(run, x, scale, bias, y, nullptr, nullptr);
  }
  void operator()(const Run &run, const float *x, const float *scale, const float *bias, float *y,
                  float *inverse) const {
    (*this)(run, x, scale, bias, y, nullptr, inverse);
  }
  void operator()(const Run &run, const float *x, const float *scale, const float *bias, float *y,
                  float *mean, float *inverse) const;

private:
  LayerNormalizationFields fields;
};

class LayerNormalizationInputGradient {
public:
  LayerNormalizationInputGradient(const Device &, const LayerNormalizationFields &fields)
      : fields(fields) {}
  void operator()(const Run &run, const float *dy, const float *x, const float *scale,
                  const float *mean, const float *inverse, float *dx) const;

private:
  LayerNormalizationFields fields;
};

class LayerNormalizationScaleGradient {
public:
  LayerNormalizationScaleGradient(const Device &, const LayerNormalizationFields &fields)
      : fields(fields) {}
  void operator()(const Run &run, const float *dy, const float *x, const float *mean,
                  const float *inverse, float *dscale, bool add) const;

private:
  LayerNormalizationFields fields;
};

class Attention {
public:
  Attention(const Device &, const AttentionFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *q, const float *k, const float *v, const void *mask,
                  const int64_t *random, float *y) const {
    (*this)(run, q, k, v, mask, random, y, nullptr);
  }
  void operator()(const Run &run, const float *q, const float *k, const float *v, const void *mask,
                  const int64_t *random, float *y, float *logSums) const;

private:
  AttentionFields fields;
};

class AttentionGradient {
public:
  AttentionGradient(const Device &, const AttentionFields &fields) : fields(fields) {}
  template <class... Results>
  void operator()(const Run &run, const float *dy, const float *q, const float *k, const float *v,
                  const float *y, const float *logSums, const void *mask, const int64_t *random,
                  Results *...results) const {
    call(run, {dy, q, k, v, y, logSums, mask, random}, {results...});
  }

private:
  void call(const Run &run, const AttentionOperands &operands,
            std::initializer_list<float *> results) const;
  AttentionFields fields;
};

class LocalResponse {
public:
  LocalResponse(const Device &, const LocalResponseFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, float *y) const;

private:
  LocalResponseFields fields;
};

class LocalResponseGradient {
public:
  LocalResponseGradient(const Device &, const LocalResponseFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *dy, const float *x, const float *y, float *dx) const;

private:
  LocalResponseFields fields;
};

class Softmax {
public:
  Softmax(const Device &, const SoftmaxFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, float *y) const;

private:
  SoftmaxFields fields;
};

class SoftmaxGradient {
public:
  SoftmaxGradient(const Device &, const SoftmaxFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *dy, const float *y, float *dx) const;

private:
  SoftmaxFields fields;
};

class Dropout {
public:
  Dropout(const Device &, const DropoutFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, const int64_t *random, float *y) const;

private:
  DropoutFields fields;
};

} // namespace pdc::runtime::cuda
