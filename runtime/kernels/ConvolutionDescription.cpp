#include "runtime/kernels/ConvolutionDescription.h"

#include "runtime/kernels/Layouts.h"

#include <string_view>

namespace pdc::runtime {

using Descriptor = dnnl::memory::desc;

static Descriptor anyLayout(const dnnl::memory::dims &shape) {
  return Descriptor(shape, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any);
}

/// The library takes few input channels only with a row-major image; where the kernel reads them
/// in blocks, it is given their zero lanes as channels of their own.
static int64_t inputChannels(const ConvolutionFields &f, ConvolutionUse use) {
  int64_t lanes = channelBlock(f.inputLayout), channels = f.input[1];
  if (use == ConvolutionUse::inputGradient || f.groups != 1 || !*f.weightLayout)
    return channels;
  return (channels + lanes - 1) / lanes * lanes;
}

ConvolutionGeometry::ConvolutionGeometry(const ConvolutionFields &f, ConvolutionUse use)
    : strides(libraryList(f.strides)), padsBegin(libraryList(f.padsBegin)),
      padsEnd(libraryList(f.padsEnd)),
      algorithm(std::string_view(f.algorithm) == "winograd" ? dnnl::algorithm::convolution_winograd
                                                            : dnnl::algorithm::convolution_direct) {
  for (int64_t dilation : f.dilations)
    dilations.push_back(dilation - 1);
  Dimensions input = f.input;
  dnnl::memory::dims kernel = libraryList(f.weight);
  input[1] = inputChannels(f, use);
  x = describe(input, f.inputLayout);
  y = describe(f.output, f.outputLayout);
  bias = describe(Dimensions{f.weight[0]}, "");
  if (*f.weightLayout) {
    kernel[1] = input[1];
    w = describe(kernel, f.weightLayout);
    return;
  }
  if (f.groups != 1) {
    kernel[0] /= f.groups;
    kernel.insert(kernel.begin(), f.groups);
  }
  if (isDepthwiseLine(f.input, f.weight, f.groups))
    becomeImage(f, kernel);
  plainWeight = describe(kernel, "");
  w = anyLayout(kernel);
}

/// A line as an image of height 1, which has the same memory.
static Descriptor describeAsImage(const Dimensions &line, std::string_view layout) {
  std::string tag(layout);
  if (!tag.empty())
    tag.insert(tag.find('c') + 1, "d");
  return describe(std::vector<int64_t>{line[0], line[1], 1, line[2]}, tag);
}

/// The library's fast kernels for channels by themselves know images alone.
void ConvolutionGeometry::becomeImage(const ConvolutionFields &f, dnnl::memory::dims &kernel) {
  x = describeAsImage(f.input, f.inputLayout);
  y = describeAsImage(f.output, f.outputLayout);
  kernel.insert(kernel.end() - 1, 1);
  strides.insert(strides.begin(), 1);
  for (dnnl::memory::dims *list : {&dilations, &padsBegin, &padsEnd})
    list->insert(list->begin(), 0);
}

using Forward = dnnl::convolution_forward;

Forward::primitive_desc describeConvolution(const ConvolutionGeometry &g, bool bias, bool relu) {
  dnnl::primitive_attr attributes = libraryAttributes();
  if (relu) {
    dnnl::post_ops epilogue;
    epilogue.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    attributes.set_post_ops(epilogue);
  }
  auto kind = dnnl::prop_kind::forward_training;
  Forward::desc description = bias ? Forward::desc(kind, g.algorithm, g.x, g.w, g.bias, g.y,
                                                   g.strides, g.dilations, g.padsBegin, g.padsEnd)
                                   : Forward::desc(kind, g.algorithm, g.x, g.w, g.y, g.strides,
                                                   g.dilations, g.padsBegin, g.padsEnd);
  return {description, attributes, libraryEngine()};
}

/// A forward description that the gradients' ones are made from; any layouts do.
static Forward::primitive_desc describeHint(const ConvolutionGeometry &g) {
  ConvolutionGeometry free = g;
  for (Descriptor *tensor : {&free.x, &free.w, &free.y})
    *tensor = anyLayout(tensor->dims());
  return describeConvolution(free, false, false);
}

dnnl::convolution_backward_data::primitive_desc
describeConvolutionInputGradient(const ConvolutionGeometry &g) {
  return {{g.algorithm, g.x, g.w, g.y, g.strides, g.dilations, g.padsBegin, g.padsEnd},
          libraryAttributes(),
          libraryEngine(),
          describeHint(g)};
}

dnnl::convolution_backward_weights::primitive_desc
describeConvolutionWeightGradient(const ConvolutionGeometry &g) {
  return {{g.algorithm, g.x, g.w, g.y, g.strides, g.dilations, g.padsBegin, g.padsEnd},
          libraryAttributes(),
          libraryEngine(),
          describeHint(g)};
}

} // namespace pdc::runtime
