#pragma once

#include "runtime/kernels/ConvolutionFields.h"
#include "runtime/kernels/Library.h"

/// What oneDNN is asked for a convolution: by the kernels, which run the answer, and by the
/// compiler, which chooses layouts and algorithm by it.
namespace pdc::runtime {

/// Which of a convolution's three products.
enum class ConvolutionUse { forward, inputGradient, weightGradient };

/// A convolution in the library's terms.
struct ConvolutionGeometry {
  ConvolutionGeometry(const ConvolutionFields &fields, ConvolutionUse use);

  dnnl::memory::desc x, w, y, bias;
  /// Weights as the model stores them, where the kernel leaves their order to the library; empty
  /// where they are stored as `w`.
  dnnl::memory::desc plainWeight;
  dnnl::memory::dims strides, dilations, padsBegin, padsEnd;
  dnnl::algorithm algorithm;

  bool packsWeight() const { return plainWeight.data.ndims != 0; }

private:
  void becomeImage(const ConvolutionFields &fields, dnnl::memory::dims &kernel);
};

/// Throw dnnl::error where the library has no implementation.
dnnl::convolution_forward::primitive_desc describeConvolution(const ConvolutionGeometry &geometry,
                                                              bool bias, bool relu);
dnnl::convolution_backward_data::primitive_desc
describeConvolutionInputGradient(const ConvolutionGeometry &geometry);
dnnl::convolution_backward_weights::primitive_desc
describeConvolutionWeightGradient(const ConvolutionGeometry &geometry);

} // namespace pdc::runtime
