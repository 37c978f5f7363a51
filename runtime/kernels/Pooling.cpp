#include "runtime/kernels/Pooling.h"

#include "runtime/kernels/Layouts.h"
#include "runtime/kernels/Library.h"
#include "runtime/kernels/PoolingGradient.h"

#include <string_view>

namespace pdc::runtime {

using Description = dnnl::pooling_forward::primitive_desc;

namespace {

struct Geometry {
  dnnl::memory::desc x, y;
  dnnl::memory::dims kernel, strides, padsBegin, padsEnd;
  dnnl::algorithm algorithm;

  explicit Geometry(const PoolingFields &f)
      : x(describe(wholeBlocks(f.input, f.layout), f.layout)),
        y(describe(wholeBlocks(f.output, f.layout), f.layout)),
        kernel(libraryList(f.kernel)), strides(libraryList(f.strides)),
        padsBegin(libraryList(f.padsBegin)), algorithm(algorithmOf(f.mode)) {
    // The library wants pads that explain the output exactly, also where the last window reaches
    // beyond the model's own pads or stops short of them.
    for (size_t d = 0; d < kernel.size(); ++d)
      padsEnd.push_back((f.output[d + 2] - 1) * strides[d] + kernel[d] - f.input[d + 2] -
                        padsBegin[d]);
  }

private:
  /// With the zeros behind the last channel as channels, which are pooled to zeros: a block in part
  /// takes the library's AVX2 kernels three times as long as a whole one.
  static Dimensions wholeBlocks(Dimensions shape, std::string_view layout) {
    const int64_t block = channelBlock(layout);
    shape[1] = (shape[1] + block - 1) / block * block;
    return shape;
  }
  static dnnl::algorithm algorithmOf(std::string_view mode) {
    if (mode == "max")
      return dnnl::algorithm::pooling_max;
    return mode == "average" ? dnnl::algorithm::pooling_avg_exclude_padding
                             : dnnl::algorithm::pooling_avg_include_padding;
  }
};

} // namespace

static Description describeForward(const Geometry &g, bool training) {
  return {{training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference,
           g.algorithm, g.x, g.y, g.strides, g.kernel, g.padsBegin, g.padsEnd},
          libraryAttributes(),
          libraryEngine()};
}

/// A primitive that reads one image and writes another, and knows where maxima were. `describe`
/// returns its description and sets that of the positions.
template <class Primitive, class Describe>
static LibraryCall makeCall(const Device &device, const PoolingFields &f, Describe describe) {
  dnnl::memory::desc positions;
  LibraryCall call = makeLibraryCall<Primitive>(f.name, device, Fallback::none,
                                                [&] { return describe(positions); });
  if (f.positions)
    call.addMemory(DNNL_ARG_WORKSPACE, positions);
  return call;
}

Pooling::Pooling(const Device &device, const PoolingFields &f) {
  Geometry g(f);
  call = makeCall<dnnl::pooling_forward>(device, f, [&](dnnl::memory::desc &positions) {
    Description description = describeForward(g, f.positions);
    positions = description.workspace_desc();
    return description;
  });
  call.addMemory(DNNL_ARG_SRC, g.x);
  call.addMemory(DNNL_ARG_DST, g.y);
}

void Pooling::operator()(const Run &run, const float *x, float *y) {
  call.setData(DNNL_ARG_SRC, x);
  call.setData(DNNL_ARG_DST, y);
  call.execute(run.scratchBase);
}

void Pooling::operator()(const Run &run, const float *x, float *y, void *positions) {
  call.setData(DNNL_ARG_WORKSPACE, positions);
  (*this)(run, x, y);
}

PoolingGradient::PoolingGradient(const Device &device, const PoolingFields &f) {
  Geometry g(f);
  call = makeCall<dnnl::pooling_backward>(device, f, [&](dnnl::memory::desc &positions) {
    Description forward = describeForward(g, true);
    positions = forward.workspace_desc();
    return dnnl::pooling_backward::primitive_desc(
        {g.algorithm, g.x, g.y, g.strides, g.kernel, g.padsBegin, g.padsEnd}, libraryAttributes(),
        libraryEngine(), forward);
  });
  call.addMemory(DNNL_ARG_DIFF_DST, g.y);
  call.addMemory(DNNL_ARG_DIFF_SRC, g.x);
}

void PoolingGradient::operator()(const Run &run, const float *dy, float *dx) {
  call.setData(DNNL_ARG_DIFF_DST, dy);
  call.setData(DNNL_ARG_DIFF_SRC, dx);
  call.execute(run.scratchBase);
}

void PoolingGradient::operator()(const Run &run, const float *dy, const void *positions,
                                 float *dx) {
  call.setData(DNNL_ARG_WORKSPACE, positions);
  (*this)(run, dy, dx);
}

} // namespace pdc::runtime
