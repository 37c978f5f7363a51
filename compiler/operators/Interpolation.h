#pragma once

#include "compiler/operators/Composition.h"

namespace pdc {

/// One dimension of a tensor that Resize changes.
struct ResizedAxis {
  int64_t dimension, from, to;
  double scale;
  double start = 0, end = 1; ///< of the part that is read (tf_crop_and_resize)
};

/// Which elements of an axis make one of the result, with which weights (ONNX Resize, opset 10 to
/// 28).
/// Throws Error for a mode that ONNX does not name.
class Interpolation {
public:
  explicit Interpolation(const CompositionBuilder &node);

  bool isNearest() const { return mode == "nearest"; }
  bool crops() const { return coordinates == "tf_crop_and_resize"; }

  /// The element that each of the result is, for mode nearest.
  std::vector<int64_t> places(const ResizedAxis &axis) const;
  /// [to, from]: the weights of each row add up to 1, or are zeros where all they are for is
  /// excluded.
  Tensor matrix(const ResizedAxis &axis, ElementType element) const;
  /// bool [to]: whether each of the result lies on the axis; a crop may reach beyond it.
  Tensor onAxis(const ResizedAxis &axis) const;

private:
  double source(const ResizedAxis &axis, int64_t position) const;
  int64_t nearest(const ResizedAxis &axis, double position) const;
  double weightAt(double distance) const;

  std::string mode, coordinates, rounding;
  double cubic;
  bool excludes, smooths;
};

} // namespace pdc
