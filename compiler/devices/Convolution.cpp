#include "compiler/devices/ConvolutionRules.h"
#include "compiler/devices/LibraryAnswer.h"

#include <algorithm>

namespace pdc {

namespace {

using runtime::ConvolutionFields;
using runtime::Fallback;

/// One of a convolution's three products in one form, and what the library makes of it.
struct Candidate {
  ConvolutionForm form;
  Fallback speed;
  int64_t scratchBytes;
  int threads; ///< of the library's kernel
};

ConvolutionShape shapeOf(const UnitReader &reader, std::vector<int64_t> input,
                         std::vector<int64_t> weight, std::vector<int64_t> output) {
  if (input.size() < 3 || input.size() > 5)
    reader.refuse("convolutions run over 1, 2 or 3 spatial dimensions");
  const UnitNode &node = reader.node(0);
  std::vector<int64_t> kernel(weight.begin() + 2, weight.end());
  Window window = resolveWindow(reader.view(node), input, kernel);
  int64_t groups = node.attributes->integer("group", 1);
  return {std::move(input), std::move(weight), std::move(output), std::move(window), groups};
}

/// The kernel's fields; texts live as long as `form`.
ConvolutionFields fieldsOf(const UnitReader &reader, const ConvolutionShape &g,
                           const ConvolutionForm &form) {
  ConvolutionFields fields;
  fields.algorithm = form.winograd ? "winograd" : "direct";
  fields.dilations = g.window.dilations;
  fields.groups = g.groups;
  fields.input = g.input;
  fields.inputLayout = form.input.c_str();
  fields.output = g.output;
  fields.outputLayout = form.output.c_str();
  fields.padsBegin = g.window.padsBegin;
  fields.padsEnd = g.window.padsEnd;
  fields.relu = reader.nodes.size() > 1;
  fields.strides = g.window.strides;
  fields.weight = g.weight;
  fields.weightLayout = form.weight.c_str();
  return fields;
}

/// The answer for one form, packing included.
std::optional<LibraryAnswer> ask(const ConvolutionFields &fields, ConvolutionUse use, bool bias,
                                 int threads) {
  int64_t packing = 0;
  auto answer = askLibrary(threads, [&] {
    runtime::ConvolutionGeometry geometry(fields, use);
    if (use == ConvolutionUse::forward) {
      auto description = describeConvolution(geometry, bias, fields.relu != 0);
      packing = packingBytes(geometry.plainWeight, description.weights_desc());
      return dnnl::primitive_desc_base(description);
    }
    if (use == ConvolutionUse::inputGradient) {
      auto description = describeConvolutionInputGradient(geometry);
      packing = packingBytes(geometry.plainWeight, description.weights_desc());
      return dnnl::primitive_desc_base(description);
    }
    auto description = describeConvolutionWeightGradient(geometry);
    packing = packingBytes(geometry.plainWeight, description.diff_weights_desc());
    return dnnl::primitive_desc_base(description);
  });
  if (answer)
    answer->scratchBytes += packing;
  return answer;
}

/// What the library makes of a form with this many threads; nothing where it has no implementation.
/// A forward kernel is made with and without bias, so both count.
std::optional<Candidate> tryForm(const UnitReader &reader, const ConvolutionShape &g,
                                 ConvolutionUse use, const ConvolutionForm &form, int threads) {
  Candidate candidate{form, Fallback::none, 0, threads};
  ConvolutionFields fields = fieldsOf(reader, g, candidate.form);
  for (bool bias : {false, true}) {
    auto answer = ask(fields, use, bias, threads);
    if (!answer)
      return std::nullopt;
    candidate.speed = std::max(candidate.speed, answer->speed);
    candidate.scratchBytes = std::max(candidate.scratchBytes, answer->scratchBytes);
  }
  return candidate;
}

/// The same with the program's threads; but a gemm sums in an order that depends on them, so where
/// bits must not, it has one.
std::optional<Candidate> tryForm(const UnitReader &reader, const ConvolutionShape &g,
                                 ConvolutionUse use, const ConvolutionForm &form) {
  auto candidate = tryForm(reader, g, use, form, reader.options.threads);
  if (candidate && candidate->speed == Fallback::gemm && reader.options.exact)
    return tryForm(reader, g, use, form, 1);
  return candidate;
}

/// The first form that the library runs fast, else the first of the least slow ones.
Candidate chooseForm(const UnitReader &reader, const ConvolutionShape &g, ConvolutionUse use) {
  ConvolutionForm preferred = preferredForm(reader, g, use);
  if (!canAskLibrary(reader.options))
    return {preferred, Fallback::reference, 0, reader.options.threads};
  std::string last = channelsLast(static_cast<int64_t>(g.input.size()));
  std::optional<Candidate> best;
  for (const ConvolutionForm &form :
       {preferred, ConvolutionForm{last, "", last, false}, ConvolutionForm{}}) {
    std::optional<Candidate> candidate = tryForm(reader, g, use, form);
    if (candidate && (!best || candidate->speed < best->speed))
      best = candidate;
    if (best && best->speed == Fallback::none)
      break;
  }
  if (!best)
    reader.refuse("oneDNN has no kernel for this convolution");
  return *best;
}

const char *nameOf(Fallback fallback) {
  return fallback == Fallback::none ? "none" : fallback == Fallback::gemm ? "gemm" : "reference";
}

std::string remarkOn(const UnitReader &reader, const ConvolutionShape &g, Fallback speed) {
  if (speed == Fallback::none)
    return "";
  auto list = [](const char *name, const std::vector<int64_t> &values) {
    std::string text;
    for (int64_t value : values)
      text += (text.empty() ? "" : ",") + std::to_string(value);
    return std::string(name) + " " + text;
  };
  std::vector<int64_t> pads = g.window.padsBegin;
  pads.insert(pads.end(), g.window.padsEnd.begin(), g.window.padsEnd.end());
  return "unit '" + std::string(reader.unit.name) + "' (" + std::string(reader.node(0).op) +
         " of " + std::to_string(g.input[1]) + " to " + std::to_string(g.output[1]) +
         " channels, " + list("kernel", g.window.kernel) + ", " +
         list("strides", g.window.strides) + ", " + list("pads", pads) + ", " +
         list("dilations", g.window.dilations) + ", groups " + std::to_string(g.groups) +
         "): oneDNN has no fast kernel for this; it will run " +
         (speed == Fallback::gemm ? "as im2col and matrix products, several times slower than usual"
                                  : "as plain loops, very slowly");
}

/// Fields of a convolution that is no algorithm of the library's.
Attributes geometryOf(const ConvolutionShape &g, const std::string &input,
                      const std::string &output) {
  return {{"dilations", g.window.dilations},
          {"groups", g.groups},
          {"input", g.input},
          {"inputLayout", input},
          {"output", g.output},
          {"outputLayout", output},
          {"padsBegin", g.window.padsBegin},
          {"padsEnd", g.window.padsEnd},
          {"strides", g.window.strides},
          {"weight", g.weight}};
}

KernelChoice choiceFor(const UnitReader &reader, std::string kernel, const ConvolutionShape &g,
                       ConvolutionUse use, ConvolutionForm &form) {
  Candidate chosen = chooseForm(reader, g, use);
  form = chosen.form;
  ConvolutionFields fields = fieldsOf(reader, g, form);
  KernelChoice choice;
  choice.kernel = std::move(kernel);
  choice.fields = geometryOf(g, form.input, form.output);
  choice.fields.set("algorithm", std::string(fields.algorithm));
  choice.fields.set("name", std::string(reader.unit.name));
  choice.fields.set("weightLayout", form.weight);
  if (fields.relu)
    choice.fields.set("relu", fields.relu);
  if (chosen.speed != Fallback::none)
    choice.fields.set("fallback", std::string(nameOf(chosen.speed)));
  choice.multipliesPlain = chosen.speed == Fallback::gemm;
  if (chosen.threads != reader.options.threads)
    choice.fields.set("threads", int64_t(chosen.threads));
  choice.workspaceBytes = preferredWorkspace(reader, g, use, form);
  choice.workspaceBytes = std::max(choice.workspaceBytes, chosen.scratchBytes);
  if (canAskLibrary(reader.options))
    choice.remark = remarkOn(reader, g, chosen.speed);
  return choice;
}

/// The gradient of the input from the result's and the weight, or that of the weight from the
/// result's and the input.
KernelChoice chooseGradient(const UnitReader &reader, ConvolutionUse use) {
  const UnitNode &node = reader.node(0);
  bool ofInput = use == ConvolutionUse::inputGradient;
  const std::vector<int64_t> &written = node.outputs[0].shape;
  const std::vector<int64_t> &read = reader.inputType(node, 1).shape;
  ConvolutionShape g = shapeOf(reader, ofInput ? written : read, ofInput ? read : written,
                               reader.inputType(node, 0).shape);
  ConvolutionForm form;
  KernelChoice choice = choiceFor(
      reader, ofInput ? "ConvolutionInputGradient" : "ConvolutionWeightGradient", g, use, form);
  addArgument(choice, reader, node, 0, form.output);
  addArgument(choice, reader, node, 1, ofInput ? form.weight : form.input);
  choice.outputLayouts = {ofInput ? form.input : form.weight};
  return choice;
}

} // namespace

KernelChoice chooseConvolution(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  ConvolutionShape g = shapeOf(reader, reader.inputType(node, 0).shape,
                               reader.inputType(node, 1).shape, node.outputs[0].shape);
  ConvolutionForm form;
  KernelChoice choice = choiceFor(reader, "Convolution", g, ConvolutionUse::forward, form);
  addArgument(choice, reader, node, 0, form.input);
  addArgument(choice, reader, node, 1, form.weight);
  if (reader.hasInput(node, 2))
    addArgument(choice, reader, node, 2);
  choice.outputLayouts = {form.output};
  return choice;
}

KernelChoice chooseConvolutionInputGradient(const UnitReader &reader) {
  return chooseGradient(reader, ConvolutionUse::inputGradient);
}

/// In the layout of the convolution itself.
static KernelChoice chooseDepthwiseWeightGradient(const UnitReader &reader,
                                                  const ConvolutionShape &g) {
  const UnitNode &node = reader.node(0);
  const ConvolutionForm forward = chooseForm(reader, g, ConvolutionUse::forward).form;
  const std::string layout = forward.input.empty() ? imageLayout(reader, 3) : forward.input;
  KernelChoice choice;
  choice.kernel = "DepthwiseWeightGradient";
  choice.fields = geometryOf(g, layout, layout);
  choice.accumulates = true;
  addArgument(choice, reader, node, 0, layout);
  addArgument(choice, reader, node, 1, layout);
  choice.outputLayouts = {""};
  return choice;
}

KernelChoice chooseConvolutionWeightGradient(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  KernelChoice choice = chooseGradient(reader, ConvolutionUse::weightGradient);
  const ConvolutionShape g = shapeOf(reader, reader.inputType(node, 1).shape, node.outputs[0].shape,
                                     reader.inputType(node, 0).shape);
  if (choice.fields.has("fallback") && runtime::isDepthwiseLine(g.input, g.weight, g.groups))
    return chooseDepthwiseWeightGradient(reader, g);
  choice.accumulates = true;
  // A sum is computed beside its memory and added.
  choice.workspaceBytes += bytesInLayout(reader.node(0).outputs[0], choice.outputLayouts[0]) + 64;
  return choice;
}

} // namespace pdc
