#pragma once

#include "runtime/cuda/Divisor.h"
#include "runtime/kernels/PoolingFields.h"

#include <algorithm>

/// The index arithmetic of windows over images that are stored [sample][pixel][channel].
namespace pdc::runtime::cuda {

/// One to three spatial dimensions, those that are missing of size one. Pixels of all samples, and
/// windows of all samples, are counted through, by numbers of type Index.
template <class Index> struct Windows {
  Divisor<Index> input[3], output[3], strides[3];
  Index kernel[3], pads[3];

  explicit Windows(const PoolingFields &f) {
    const size_t rank = f.kernel.size(), missing = 3 - rank;
    for (size_t d = 0; d < 3; ++d) {
      const bool there = d >= missing;
      input[d] = Divisor<Index>(there ? f.input[d - missing + 2] : 1);
      output[d] = Divisor<Index>(there ? f.output[d - missing + 2] : 1);
      kernel[d] = there ? static_cast<Index>(f.kernel[d - missing]) : 1;
      strides[d] = Divisor<Index>(there ? f.strides[d - missing] : 1);
      pads[d] = there ? static_cast<Index>(f.padsBegin[d - missing]) : 0;
    }
  }

  PDC_EITHER Index taps() const { return kernel[0] * kernel[1] * kernel[2]; }

  /// Indices of one dimension, from `begin` to before `end`; none where that is not more.
  struct Range {
    Index begin, end;
  };
  /// The taps of window `at` of a dimension that lie inside the image.
  PDC_EITHER Range tapsInside(int d, Index at) const {
    const Index begin = at * strides[d].value() - pads[d], left = input[d].value() - begin;
    return {begin < 0 ? -begin : 0, left < kernel[d] ? left : kernel[d]};
  }
  /// The windows of a dimension that have pixel `at` under one of their taps.
  PDC_EITHER Range windowsOver(int d, Index at) const {
    const Index end = strides[d].quotient(at + pads[d]) + 1, before = at + pads[d] - kernel[d];
    return {before < 0 ? 0 : strides[d].quotient(before) + 1,
            end < output[d].value() ? end : output[d].value()};
  }

  /// Where a pixel, or a window, stands.
  struct Place {
    Index sample, at[3];
  };
  PDC_EITHER Place placeOf(Index number, const Divisor<Index> (&sizes)[3]) const {
    Place place = {};
    PDC_UNROLL
    for (int d = 2; d >= 0; --d) {
      const Index next = sizes[d].quotient(number);
      place.at[d] = number - next * sizes[d].value();
      number = next;
    }
    place.sample = number;
    return place;
  }

  /// visit(pixel, tap) for each tap of a window that lies inside the image; how many.
  template <class Visit> PDC_EITHER Index overTaps(Index window, Visit visit) const {
    const Place w = placeOf(window, output);
    const Range planes = tapsInside(0, w.at[0]), rows = tapsInside(1, w.at[1]),
                columns = tapsInside(2, w.at[2]);
    for (Index p = planes.begin; p < planes.end; ++p)
      for (Index r = rows.begin; r < rows.end; ++r)
        for (Index c = columns.begin; c < columns.end; ++c)
          visit(numberOf(w.sample, start(w, 0) + p, start(w, 1) + r, start(w, 2) + c, input),
                (p * kernel[1] + r) * kernel[2] + c);
    return (planes.end - planes.begin) * (rows.end - rows.begin) * (columns.end - columns.begin);
  }

  /// visit(window, tap, i, j, k) for each window that has a pixel under a tap, and stands at i, j
  /// and k.
  template <class Visit> PDC_EITHER void overWindows(Index pixel, Visit visit) const {
    const Place p = placeOf(pixel, input);
    const Range planes = windowsOver(0, p.at[0]), rows = windowsOver(1, p.at[1]),
                columns = windowsOver(2, p.at[2]);
    for (Index i = planes.begin; i < planes.end; ++i)
      for (Index j = rows.begin; j < rows.end; ++j)
        for (Index k = columns.begin; k < columns.end; ++k)
          visit(numberOf(p.sample, i, j, k, output),
                (tapOf(p, 0, i) * kernel[1] + tapOf(p, 1, j)) * kernel[2] + tapOf(p, 2, k), i, j,
                k);
  }

  /// How many taps of the window that stands at i, j and k lie inside the image.
  PDC_EITHER Index tapsInside(Index i, Index j, Index k) const {
    return inside(0, i) * inside(1, j) * inside(2, k);
  }

private:
  static PDC_EITHER Index numberOf(Index sample, Index i, Index j, Index k,
                                   const Divisor<Index> (&sizes)[3]) {
    return ((sample * sizes[0].value() + i) * sizes[1].value() + j) * sizes[2].value() + k;
  }
  PDC_EITHER Index start(const Place &window, int d) const {
    return window.at[d] * strides[d].value() - pads[d];
  }
  PDC_EITHER Index tapOf(const Place &pixel, int d, Index window) const {
    return pixel.at[d] + pads[d] - window * strides[d].value();
  }
  PDC_EITHER Index inside(int d, Index window) const {
    const Range taps = tapsInside(d, window);
    return taps.end - taps.begin;
  }
};

/// Whether 32 bits hold all that is computed here, and count the elements of both images.
inline bool areCountedIn32Bits(const PoolingFields &f) {
  auto isProductBelow = [](int64_t most, const Dimensions &sizes) {
    int64_t count = 1;
    return std::ranges::all_of(sizes, [&](int64_t size) { return (count *= size) < most; });
  };
  auto areBelow = [](int64_t most, const Dimensions &sizes) {
    return std::ranges::all_of(sizes, [&](int64_t size) { return size < most; });
  };
  constexpr int64_t mostElements = int64_t(1) << 30, mostSteps = int64_t(1) << 28;
  return isProductBelow(mostElements, f.input) && isProductBelow(mostElements, f.output) &&
         isProductBelow(mostSteps, f.kernel) && areBelow(mostSteps, f.strides) &&
         areBelow(mostSteps, f.padsBegin);
}

} // namespace pdc::runtime::cuda
