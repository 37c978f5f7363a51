#include "runtime/kernels/Convolution.h"

#include "runtime/kernels/ConvolutionInputGradient.h"
#include "runtime/kernels/ConvolutionWeightGradient.h"
#include "runtime/kernels/Elementwise.h"
#include "runtime/kernels/Layouts.h"

#include <sstream>
#include <string_view>

namespace pdc::runtime {

using Descriptor = dnnl::memory::desc;
using Dimensions = dnnl::memory::dims;

static std::string shapeText(const std::vector<int64_t> &shape) {
  std::ostringstream text;
  for (size_t i = 0; i < shape.size(); ++i)
    text << (i ? "," : "[") << shape[i];
  text << ']';
  return text.str();
}

static std::string unitText(const ConvolutionFields &f) {
  return std::string(f.name) + " (input " + shapeText(f.input) + " " + f.inputLayout + ", weight " +
         shapeText(f.weight) + " " + f.weightLayout + ", output " + shapeText(f.output) + " " +
         f.outputLayout + ")";
}

namespace {

/// What the library calls the same convolution.
struct Geometry {
  Descriptor x, w, y, bias;
  Descriptor plainWeight; ///< grouped weights as the model stores them
  Dimensions strides, dilations, padsBegin, padsEnd;
  dnnl::algorithm algorithm;
  Fallback fallback;

  /// The library takes few input channels only with a row-major image; `roundChannels` gives it the
  /// zero lanes of a blocked one as channels of their own.
  Geometry(const ConvolutionFields &f, bool roundChannels)
      : strides(f.strides), padsBegin(f.padsBegin), padsEnd(f.padsEnd),
        algorithm(std::string_view(f.algorithm) == "winograd"
                      ? dnnl::algorithm::convolution_winograd
                      : dnnl::algorithm::convolution_direct),
        fallback(*f.inputLayout || *f.outputLayout ? Fallback::none : Fallback::reference) {
    for (int64_t dilation : f.dilations)
      dilations.push_back(dilation - 1);
    std::vector<int64_t> input = f.input, kernel = f.weight;
    int64_t lanes = channelBlock(f.inputLayout);
    if (roundChannels && f.groups == 1 && input[1] % lanes)
      input[1] = kernel[1] = (input[1] + lanes - 1) / lanes * lanes;
    x = describe(input, f.inputLayout);
    y = describe(f.output, f.outputLayout);
    bias = describe({f.weight[0]}, "");
    setWeight(f, kernel);
  }

  bool grouped() const { return plainWeight.data.ndims != 0; }

private:
  void setWeight(const ConvolutionFields &f, std::vector<int64_t> kernel) {
    if (f.groups == 1) {
      w = describe(kernel, f.weightLayout);
      return;
    }
    kernel[0] /= f.groups;
    kernel.insert(kernel.begin(), f.groups);
    plainWeight = describe(kernel, "");
    w = Descriptor(kernel, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any);
  }
};

} // namespace

using ForwardDescription = dnnl::convolution_forward::primitive_desc;

static ForwardDescription describeForward(const Geometry &g, bool bias, bool relu) {
  dnnl::primitive_attr attributes = libraryAttributes();
  if (relu) {
    dnnl::post_ops epilogue;
    epilogue.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    attributes.set_post_ops(epilogue);
  }
  auto kind = dnnl::prop_kind::forward_training;
  if (bias)
    return {
        {kind, g.algorithm, g.x, g.w, g.bias, g.y, g.strides, g.dilations, g.padsBegin, g.padsEnd},
        attributes,
        libraryEngine()};
  return {{kind, g.algorithm, g.x, g.w, g.y, g.strides, g.dilations, g.padsBegin, g.padsEnd},
          attributes,
          libraryEngine()};
}

/// A forward description that the gradients' ones are made from; any layouts do.
static ForwardDescription describeHint(const Geometry &g) {
  Geometry free = g;
  free.w = Descriptor(g.w.dims(), dnnl::memory::data_type::f32, dnnl::memory::format_tag::any);
  free.x = Descriptor(g.x.dims(), dnnl::memory::data_type::f32, dnnl::memory::format_tag::any);
  free.y = Descriptor(g.y.dims(), dnnl::memory::data_type::f32, dnnl::memory::format_tag::any);
  return describeForward(free, false, false);
}

PackedWeight::PackedWeight(const Device &device, const std::string &unit, const Descriptor &plain,
                           const Descriptor &packed, Direction direction)
    : bytes(alignedBytes(static_cast<int64_t>(packed.get_size()))) {
  const Descriptor &from = direction == Direction::intoLibrary ? plain : packed;
  const Descriptor &to = direction == Direction::intoLibrary ? packed : plain;
  call = LibraryCall::create<dnnl::reorder>(unit, device, Fallback::reference, [&] {
    return dnnl::reorder::primitive_desc(libraryEngine(), from, libraryEngine(), to,
                                         libraryAttributes());
  });
  call.addMemory(DNNL_ARG_FROM, from);
  call.addMemory(DNNL_ARG_TO, to);
}

void PackedWeight::copy(const void *from, void *to, void *scratch) {
  call.setData(DNNL_ARG_FROM, from);
  call.setData(DNNL_ARG_TO, to);
  call.execute(scratch);
}

Convolution::Convolution(const Device &device, const ConvolutionFields &f) {
  Geometry g(f, true);
  for (bool bias : {false, true}) {
    Descriptor weightDescription;
    LibraryCall call =
        LibraryCall::create<dnnl::convolution_forward>(unitText(f), device, g.fallback, [&] {
          ForwardDescription description = describeForward(g, bias, f.relu != 0);
          weightDescription = description.weights_desc();
          return description;
        });
    call.addMemory(DNNL_ARG_SRC, g.x);
    call.addMemory(DNNL_ARG_WEIGHTS, weightDescription);
    if (bias)
      call.addMemory(DNNL_ARG_BIAS, g.bias);
    call.addMemory(DNNL_ARG_DST, g.y);
    callFor(bias) = call;
    if (g.grouped())
      weight = PackedWeight(device, unitText(f), g.plainWeight, weightDescription,
                            PackedWeight::Direction::intoLibrary);
  }
}

void Convolution::operator()(const Run &run, const float *x, const float *w, const float *bias,
                             float *y) {
  std::byte *scratch = run.scratchBase;
  const void *packed = w;
  if (weight) {
    weight.copy(w, scratch, scratch + weight.packedBytes());
    packed = scratch;
    scratch += weight.packedBytes();
  }
  LibraryCall &call = callFor(bias != nullptr);
  call.setData(DNNL_ARG_SRC, x);
  call.setData(DNNL_ARG_WEIGHTS, packed);
  if (bias)
    call.setData(DNNL_ARG_BIAS, bias);
  call.setData(DNNL_ARG_DST, y);
  call.execute(scratch);
}

ConvolutionInputGradient::ConvolutionInputGradient(const Device &device,
                                                   const ConvolutionFields &f) {
  Geometry g(f, false);
  Descriptor weightDescription;
  call = LibraryCall::create<dnnl::convolution_backward_data>(unitText(f), device, g.fallback, [&] {
    dnnl::convolution_backward_data::primitive_desc description(
        {g.algorithm, g.x, g.w, g.y, g.strides, g.dilations, g.padsBegin, g.padsEnd},
        libraryAttributes(), libraryEngine(), describeHint(g));
    weightDescription = description.weights_desc();
    return description;
  });
  call.addMemory(DNNL_ARG_DIFF_DST, g.y);
  call.addMemory(DNNL_ARG_WEIGHTS, weightDescription);
  call.addMemory(DNNL_ARG_DIFF_SRC, g.x);
  if (g.grouped())
    weight = PackedWeight(device, unitText(f), g.plainWeight, weightDescription,
                          PackedWeight::Direction::intoLibrary);
}

void ConvolutionInputGradient::operator()(const Run &run, const float *dy, const float *w,
                                          float *dx) {
  std::byte *scratch = run.scratchBase;
  const void *packed = w;
  if (weight) {
    weight.copy(w, scratch, scratch + weight.packedBytes());
    packed = scratch;
    scratch += weight.packedBytes();
  }
  call.setData(DNNL_ARG_DIFF_DST, dy);
  call.setData(DNNL_ARG_WEIGHTS, packed);
  call.setData(DNNL_ARG_DIFF_SRC, dx);
  call.execute(scratch);
}

ConvolutionWeightGradient::ConvolutionWeightGradient(const Device &device,
                                                     const ConvolutionFields &f) {
  Geometry g(f, true);
  Descriptor gradient;
  call =
      LibraryCall::create<dnnl::convolution_backward_weights>(unitText(f), device, g.fallback, [&] {
        dnnl::convolution_backward_weights::primitive_desc description(
            {g.algorithm, g.x, g.w, g.y, g.strides, g.dilations, g.padsBegin, g.padsEnd},
            libraryAttributes(), libraryEngine(), describeHint(g));
        gradient = description.diff_weights_desc();
        return description;
      });
  call.addMemory(DNNL_ARG_DIFF_DST, g.y);
  call.addMemory(DNNL_ARG_SRC, g.x);
  call.addMemory(DNNL_ARG_DIFF_WEIGHTS, gradient);
  elements = static_cast<int64_t>(gradient.get_size() / sizeof(float));
  if (!g.grouped())
    return;
  elements = static_cast<int64_t>(g.plainWeight.get_size() / sizeof(float));
  weight = PackedWeight(device, unitText(f), g.plainWeight, gradient,
                        PackedWeight::Direction::outOfLibrary);
}

/// Adding goes through workspace: the library has no sum for weight gradients.
void ConvolutionWeightGradient::operator()(const Run &run, const float *dy, const float *x,
                                           float *dw, bool add) {
  std::byte *scratch = run.scratchBase;
  auto take = [&](int64_t bytes) {
    return reinterpret_cast<float *>(std::exchange(scratch, scratch + alignedBytes(bytes)));
  };
  float *written = add ? take(elements * sizeof(float)) : dw;
  float *packed = weight ? take(weight.packedBytes()) : written;
  call.setData(DNNL_ARG_DIFF_DST, dy);
  call.setData(DNNL_ARG_SRC, x);
  call.setData(DNNL_ARG_DIFF_WEIGHTS, packed);
  call.execute(scratch);
  if (weight)
    weight.copy(packed, written, scratch);
  if (add)
    accumulate(run, elements, dw, written, true);
}

} // namespace pdc::runtime
