#pragma once

#include "runtime/cuda/Launch.h"
#include "runtime/kernels/PoolingFields.h"

/// The index arithmetic of windows over images that are stored [sample][pixel][channel].
namespace pdc::runtime::cuda {

/// One to three spatial dimensions, those that are missing of size one. Pixels of all samples, and
/// windows of all samples, are counted through.
struct Windows {
  int64_t channels;
  int64_t input[3], output[3], kernel[3], strides[3], pads[3];

  explicit Windows(const PoolingFields &f) : channels(f.input[1]) {
    const size_t rank = f.kernel.size(), missing = 3 - rank;
    for (size_t d = 0; d < 3; ++d) {
      const bool there = d >= missing;
      input[d] = there ? f.input[d - missing + 2] : 1;
      output[d] = there ? f.output[d - missing + 2] : 1;
      kernel[d] = there ? f.kernel[d - missing] : 1;
      strides[d] = there ? f.strides[d - missing] : 1;
      pads[d] = there ? f.padsBegin[d - missing] : 0;
    }
  }

  PDC_EITHER int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }

  /// Indices of one dimension, from `begin` to before `end`; none where that is not more.
  struct Range {
    int64_t begin, end;
  };
  /// The taps of window `at` of a dimension that lie inside the image.
  PDC_EITHER Range tapsInside(int d, int64_t at) const {
    const int64_t begin = at * strides[d] - pads[d], left = input[d] - begin;
    return {begin < 0 ? -begin : 0, left < kernel[d] ? left : kernel[d]};
  }
  /// The windows of a dimension that have pixel `at` under one of their taps.
  PDC_EITHER Range windowsOver(int d, int64_t at) const {
    const int64_t last = (at + pads[d]) / strides[d], before = at + pads[d] - kernel[d];
    return {before < 0 ? 0 : before / strides[d] + 1, last + 1 < output[d] ? last + 1 : output[d]};
  }

  /// Where a pixel, or a window, stands.
  struct Place {
    int64_t sample, at[3];
  };
  PDC_EITHER Place placeOf(int64_t number, const int64_t (&sizes)[3]) const {
    Place place = {};
    for (int d = 2; d >= 0; --d) {
      place.at[d] = number % sizes[d];
      number /= sizes[d];
    }
    place.sample = number;
    return place;
  }

  /// visit(pixel, tap) for each tap of a window that lies inside the image; how many.
  template <class Visit> PDC_EITHER int64_t overTaps(int64_t window, Visit visit) const {
    const Place w = placeOf(window, output);
    const Range planes = tapsInside(0, w.at[0]), rows = tapsInside(1, w.at[1]),
                columns = tapsInside(2, w.at[2]);
    for (int64_t p = planes.begin; p < planes.end; ++p)
      for (int64_t r = rows.begin; r < rows.end; ++r)
        for (int64_t c = columns.begin; c < columns.end; ++c)
          visit(((w.sample * input[0] + start(w, 0) + p) * input[1] + start(w, 1) + r) * input[2] +
                    start(w, 2) + c,
                (p * kernel[1] + r) * kernel[2] + c);
    return (planes.end - planes.begin) * (rows.end - rows.begin) * (columns.end - columns.begin);
  }

  /// visit(window, tap, how many of its taps lie inside the image) for each window that has a pixel
  /// under a tap.
  template <class Visit> PDC_EITHER void overWindows(int64_t pixel, Visit visit) const {
    const Place p = placeOf(pixel, input);
    const Range planes = windowsOver(0, p.at[0]), rows = windowsOver(1, p.at[1]),
                columns = windowsOver(2, p.at[2]);
    for (int64_t i = planes.begin; i < planes.end; ++i)
      for (int64_t j = rows.begin; j < rows.end; ++j)
        for (int64_t k = columns.begin; k < columns.end; ++k)
          visit(((p.sample * output[0] + i) * output[1] + j) * output[2] + k,
                (tapOf(p, 0, i) * kernel[1] + tapOf(p, 1, j)) * kernel[2] + tapOf(p, 2, k),
                inside(0, i) * inside(1, j) * inside(2, k));
  }

private:
  PDC_EITHER int64_t start(const Place &window, int d) const {
    return window.at[d] * strides[d] - pads[d];
  }
  PDC_EITHER int64_t tapOf(const Place &pixel, int d, int64_t window) const {
    return pixel.at[d] + pads[d] - window * strides[d];
  }
  PDC_EITHER int64_t inside(int d, int64_t window) const {
    const Range taps = tapsInside(d, window);
    return taps.end - taps.begin;
  }
};

} // namespace pdc::runtime::cuda
