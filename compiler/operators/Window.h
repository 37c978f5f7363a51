#pragma once

#include "compiler/operators/Operator.h"

#include <algorithm>

namespace pdc {

/// The geometry of a convolution or pooling over the spatial dimensions of an NC... tensor, with
/// defaults filled in and auto_pad resolved.
struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<int64_t> padsBegin, padsEnd; ///< as the attributes say or auto_pad resolves them
  std::vector<int64_t> output;             ///< spatial output shape, ceil_mode included

  int64_t rank() const { return static_cast<int64_t>(kernel.size()); }
  /// Whether it steps over elements.
  bool hasHoles() const {
    return std::ranges::any_of(dilations, [](int64_t dilation) { return dilation != 1; });
  }
  /// Input position along dimension d of kernel tap `tap` at output `position`; may lie outside.
  int64_t source(size_t d, int64_t position, int64_t tap) const {
    return position * strides[d] - padsBegin[d] + tap * dilations[d];
  }
};

/// Resolves a node's window over an input of this shape. `kernel` is the weight's spatial shape, or
/// empty: the attribute kernel_shape.
Window resolveWindow(const NodeView &node, const std::vector<int64_t> &inputShape,
                     std::vector<int64_t> kernel = {});

/// The attributes of a gradient node: the window resolved and the forward input's shape.
Attributes windowAttributes(const Window &window, const std::vector<int64_t> &inputShape);

/// Whether a source index lies inside the spatial dimensions of the shape; if so, `offset` is its
/// offset within one channel.
bool sourceOffset(const Window &window, const std::vector<int64_t> &position,
                  const std::vector<int64_t> &tap, const std::vector<int64_t> &inputShape,
                  int64_t &offset);

/// What each output of an AveragePool is divided by: the taps inside the input, or with
/// count_include_pad those inside the padded input (a partial last window of ceil_mode reaches
/// beyond even that).
std::vector<double> averageDivisors(const NodeView &node, const Window &window,
                                    const std::vector<int64_t> &inputShape);

/// The offset of an element of a row-major NC... tensor where each channel is stored with its first
/// spatial dimension fastest (MaxPool's storage_order 1).
int64_t columnMajorOffset(int64_t offset, const std::vector<int64_t> &inputShape);

} // namespace pdc
