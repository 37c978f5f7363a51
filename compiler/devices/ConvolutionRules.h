#pragma once

#include "compiler/devices/UnitReader.h"
#include "compiler/operators/Window.h"
#include "runtime/kernels/ConvolutionDescription.h"

/// oneDNN 2.6's convolutions. What it prefers where it may choose (asked over a sweep of shapes,
/// held by a test): blocked activations; weights with input channels innermost for the input
/// gradient and output channels innermost else; a row-major image for at most three input channels.
namespace pdc {

using runtime::ConvolutionUse;

struct ConvolutionShape {
  std::vector<int64_t> input, weight, output;
  Window window;
  int64_t groups;

  bool isDense() const;
  bool hasKernel(int64_t size) const;
  bool hasStrides() const;
};

/// Layouts of activations and weights, and the algorithm.
struct ConvolutionForm {
  std::string input, weight, output;
  bool winograd = false;
};

/// What the library runs fastest, as measured; row-major where it has no blocked kernel. A few
/// shapes have none in the preferred form either: the library is to be asked.
ConvolutionForm preferredForm(const UnitReader &reader, const ConvolutionShape &shape,
                              ConvolutionUse use);

/// Bytes of scratch memory of the preferred form, an upper bound over machines.
int64_t preferredWorkspace(const UnitReader &reader, const ConvolutionShape &shape,
                           ConvolutionUse use, const ConvolutionForm &form);

} // namespace pdc
