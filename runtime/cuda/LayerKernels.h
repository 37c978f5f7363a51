#pragma once

#include "runtime/Program.h"
#include "runtime/SmallFloats.h"
#include "runtime/cuda/Fields.h"

#include <array>
#include <initializer_list>
#include <memory>
#include <type_traits>

/// What layers are made of, and the gradients of them. T: float, BFloat16, Float16; sums,
/// statistics and whatever has one number per channel or row are f32.
namespace pdc::runtime::cuda {

/// cuDNN's convolution, then bias and relu in one pass over the result; or, with tensor cores and
/// where that is measured to be faster, all of it in one of the library's kernels.
class Convolution {
public:
  Convolution(const Device &device, const ConvolutionFields &fields);
  ~Convolution();
  /// Of the types that the fields name; biases are f32.
  void operator()(const Run &run, const void *x, const void *w, const float *bias, void *y);
  void operator()(const Run &run, const void *x, const void *w, void *y) {
    (*this)(run, x, w, nullptr, y);
  }

private:
  std::shared_ptr<class FinishedConvolution> plan;
};

class ConvolutionInputGradient {
public:
  ConvolutionInputGradient(const Device &device, const ConvolutionFields &fields);
  ~ConvolutionInputGradient();
  void operator()(const Run &run, const void *dy, const void *w, void *dx);

private:
  std::shared_ptr<class ConvolutionPlan> plan;
};

/// A sum is cuDNN's beta = 1, of f32 alone: what adds is chosen in the first call that does not.
class ConvolutionWeightGradient {
public:
  ConvolutionWeightGradient(const Device &device, const ConvolutionFields &fields);
  ~ConvolutionWeightGradient();
  void operator()(const Run &run, const void *dy, const void *x, void *dw, bool add = false);

private:
  std::shared_ptr<class ConvolutionPlan> fresh, adding;
};

class Pooling {
public:
  Pooling(const Device &, const PoolingFields &fields) : fields(fields) {}
  template <class T> void operator()(const Run &run, const T *x, T *y) const;
  /// `positions`: the tap of each maximum within its window, in bytes below 256 taps, else i32.
  template <class T> void operator()(const Run &run, const T *x, T *y, void *positions) const;

private:
  PoolingFields fields;
};

class PoolingGradient {
public:
  PoolingGradient(const Device &, const PoolingFields &fields) : fields(fields) {}
  template <class T> void operator()(const Run &run, const T *dy, T *dx) const;
  template <class T>
  void operator()(const Run &run, const T *dy, const void *positions, T *dx) const;

private:
  PoolingFields fields;
};

/// A kernel whose tensors come as one list, which its `call<T>` takes apart: pointers of any type,
/// nullptr for what is left out. T: float, BFloat16 or Float16, as what the first points to is
/// stored.
template <class Kernel, class Fields> class OfPointers {
public:
  OfPointers(const Device &, const Fields &fields) : fields(fields) {}
  template <class T, class... Others>
  void operator()(const Run &run, T *first, Others... others) const {
    static_cast<const Kernel *>(this)->template call<std::remove_const_t<T>>(run,
                                                                             {first, others...});
  }

protected:
  Fields fields;
};

class BatchNormalization : public OfPointers<BatchNormalization, BatchNormalizationFields> {
public:
  using OfPointers::OfPointers;
  template <class T> void call(const Run &run, std::initializer_list<const void *> pointers) const;
};

/// A convolution of fp16 and the normalisation behind it, which wants sums of its result: cuDNN can
/// make them while it convolves. With a tuning that is measured against both by themselves, without
/// one they are by themselves.
class NormalisedConvolution {
public:
  NormalisedConvolution(const Device &device, const NormalisedConvolutionFields &fields);
  ~NormalisedConvolution();
  /// Image, weight, scale, bias, running mean and variance, the addend where there is one; then
  /// what is convolved, and the normalisation's results.
  template <class... Pointers> void operator()(const Run &run, Pointers *...pointers) {
    call(run, {pointers...});
  }

private:
  void call(const Run &run, std::initializer_list<const void *> pointers);
  NormalisedConvolutionFields fields;
  std::shared_ptr<class SummedConvolution> plan;
};

class BatchNormalizationInference {
public:
  BatchNormalizationInference(const Device &, const BatchNormalizationFields &fields)
      : fields(fields) {}
  template <class T>
  void operator()(const Run &run, const T *x, const float *scale, const float *bias,
                  const float *mean, const float *variance, T *y) const;
  template <class T>
  void operator()(const Run &run, const T *x, const float *scale, const float *bias,
                  const float *mean, const float *variance, const T *addend, T *y) const;

private:
  BatchNormalizationFields fields;
};

class BatchNormalizationGradient
    : public OfPointers<BatchNormalizationGradient, BatchNormalizationFields> {
public:
  using OfPointers::OfPointers;
  template <class T> void call(const Run &run, std::initializer_list<const void *> pointers) const;
};

class GroupNormalization : public OfPointers<GroupNormalization, GroupNormalizationFields> {
public:
  using OfPointers::OfPointers;
  template <class T> void call(const Run &run, std::initializer_list<const void *> pointers) const;
};

class GroupNormalizationGradient
    : public OfPointers<GroupNormalizationGradient, GroupNormalizationFields> {
public:
  using OfPointers::OfPointers;
  template <class T> void call(const Run &run, std::initializer_list<const void *> pointers) const;
};

class LayerNormalization : public OfPointers<LayerNormalization, LayerNormalizationFields> {
public:
  using OfPointers::OfPointers;
  template <class T> void call(const Run &run, std::initializer_list<const void *> pointers) const;
};

class LayerNormalizationInputGradient
    : public OfPointers<LayerNormalizationInputGradient, LayerNormalizationFields> {
public:
  using OfPointers::OfPointers;
  template <class T> void call(const Run &run, std::initializer_list<const void *> pointers) const;
};

class LayerNormalizationScaleGradient {
public:
  LayerNormalizationScaleGradient(const Device &, const LayerNormalizationFields &fields)
      : fields(fields) {}
  template <class T>
  void operator()(const Run &run, const T *dy, const T *x, const float *mean, const float *inverse,
                  float *dscale, bool add) const;
  /// And the bias's, of what is read once.
  template <class T>
  void operator()(const Run &run, const T *dy, const T *x, const float *mean, const float *inverse,
                  float *dscale, float *dbias, bool add) const;

private:
  LayerNormalizationFields fields;
};

class AttentionPlan;

class Attention {
public:
  Attention(const Device &device, const AttentionFields &fields);
  template <class T>
  void operator()(const Run &run, const T *q, const T *k, const T *v, const void *mask,
                  const int64_t *random, T *y) const {
    (*this)(run, q, k, v, mask, random, y, nullptr);
  }
  template <class T>
  void operator()(const Run &run, const T *q, const T *k, const T *v, const void *mask,
                  const int64_t *random, T *y, float *logSums) const;

private:
  AttentionFields fields;
  std::shared_ptr<AttentionPlan> plan; ///< null: the kernel here
};

class AttentionGradient {
public:
  AttentionGradient(const Device &device, const AttentionFields &fields);
  template <class T, class... Results>
  void operator()(const Run &run, const T *dy, const T *q, const T *k, const T *v, const T *y,
                  const float *logSums, const void *mask, const int64_t *random,
                  Results *...results) const {
    call<T>(run, {dy, q, k, v, y}, logSums, mask, random, {results...});
  }

private:
  template <class T>
  void call(const Run &run, std::array<const T *, 5> operands, const float *logSums,
            const void *mask, const int64_t *random, std::initializer_list<void *> results) const;
  AttentionFields fields;
  std::shared_ptr<AttentionPlan> plan; ///< null: the kernels here
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

class RotateHalves {
public:
  RotateHalves(const Device &, const RotateHalvesFields &fields) : fields(fields) {}
  /// T: float, BFloat16, Float16.
  template <class T>
  void operator()(const Run &run, const T *x, const float *cosines, const float *sines, T *y) const;

private:
  RotateHalvesFields fields;
};

class Softmax {
public:
  Softmax(const Device &, const SoftmaxFields &fields) : fields(fields) {}
  template <class T> void operator()(const Run &run, const T *x, T *y) const;

private:
  SoftmaxFields fields;
};

class SoftmaxGradient {
public:
  SoftmaxGradient(const Device &, const SoftmaxFields &fields) : fields(fields) {}
  template <class T> void operator()(const Run &run, const T *dy, const T *y, T *dx) const;

private:
  SoftmaxFields fields;
};

class Dropout {
public:
  Dropout(const Device &, const DropoutFields &fields) : fields(fields) {}
  template <class T> void operator()(const Run &run, const T *x, const int64_t *random, T *y) const;

private:
  DropoutFields fields;
};

class UniformRandom {
public:
  UniformRandom(const Device &, const UniformRandomFields &fields) : fields(fields) {}
  void operator()(const Run &run, const int64_t *random, float *y) const;

private:
  UniformRandomFields fields;
};

} // namespace pdc::runtime::cuda
