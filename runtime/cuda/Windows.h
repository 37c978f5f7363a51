#pragma once

#include "runtime/cuda/Launch.h"
#include "runtime/kernels/PoolingFields.h"

/// The index arithmetic of windows over images that are stored [sample][pixel][channel].
namespace pdc::runtime::cuda {

/// One to three spatial dimensions, those that are missing of size one. Pixels of all samples, and
/// windows of all samples, are counted through.
struct Windows {
  int64_t samples, channels;
  int64_t input[3], output[3], kernel[3], strides[3], pads[3];

  explicit Windows(const PoolingFields &f) : samples(f.input[0]), channels(f.input[1]) {
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
  PDC_EITHER int64_t inputPixels() const { return input[0] * input[1] * input[2]; }
  PDC_EITHER int64_t outputPixels() const { return output[0] * output[1] * output[2]; }
  PDC_EITHER int64_t inputElements() const { return samples * inputPixels() * channels; }
  PDC_EITHER int64_t outputElements() const { return samples * outputPixels() * channels; }

  /// The pixel under a tap of a window; -1 outside the image.
  PDC_EITHER int64_t pixelOf(int64_t window, int64_t tap) const {
    int64_t pixel = 0, scale = 1;
    for (int d = 2; d >= 0; --d) {
      const int64_t at = window % output[d] * strides[d] - pads[d] + tap % kernel[d];
      if (at < 0 || at >= input[d])
        return -1;
      pixel += at * scale;
      scale *= input[d];
      window /= output[d];
      tap /= kernel[d];
    }
    return window * scale + pixel;
  }

  /// The window that has a pixel under a tap; -1 where there is none.
  PDC_EITHER int64_t windowOf(int64_t pixel, int64_t tap) const {
    int64_t window = 0, scale = 1;
    for (int d = 2; d >= 0; --d) {
      const int64_t start = pixel % input[d] + pads[d] - tap % kernel[d];
      if (start < 0 || start % strides[d] != 0 || start / strides[d] >= output[d])
        return -1;
      window += start / strides[d] * scale;
      scale *= output[d];
      pixel /= input[d];
      tap /= kernel[d];
    }
    return pixel * scale + window;
  }

  /// How many taps of a window lie inside the image.
  PDC_EITHER int64_t inside(int64_t window) const {
    int64_t count = 1;
    for (int d = 2; d >= 0; --d) {
      const int64_t begin = window % output[d] * strides[d] - pads[d], end = begin + kernel[d];
      count *= (end < input[d] ? end : input[d]) - (begin > 0 ? begin : 0);
      window /= output[d];
    }
    return count;
  }
};

} // namespace pdc::runtime::cuda
