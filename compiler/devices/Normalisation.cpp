#include "compiler/devices/UnitReader.h"
#include "runtime/kernels/BatchNormalizationFields.h"

#include <algorithm>

namespace pdc {

namespace {

/// Images as the device stores them; matrices as they are.
std::string normalisationLayout(const UnitReader &reader, const TensorType &x) {
  return x.rank() == 2 ? "" : imageLayout(reader, x.rank());
}

KernelChoice choiceFor(const UnitReader &reader, std::string kernel, const TensorType &x,
                       const std::string &layout) {
  KernelChoice choice;
  choice.kernel = std::move(kernel);
  choice.fields = {{"input", x.shape}, {"layout", layout}};
  if (reader.nodes.back()->op == "Relu")
    choice.fields.set("relu", int64_t(1));
  return choice;
}

/// What has one number per channel.
void setChannels(KernelChoice &choice, const UnitReader &reader, const UnitNode &node) {
  choice.fields.set("epsilon", node.attributes->number("epsilon", 1e-5));
  for (size_t i = 1; i < 5; ++i)
    addArgument(choice, reader, node, i);
}

/// Those that the choice does not have yet. Result slot 0 is an image, the others have one value
/// per channel.
void setResults(KernelChoice &choice, const UnitReader &reader, const UnitNode &node,
                const std::string &layout) {
  std::vector<int64_t> slots = reader.resultSlots(node, choice.outputLayouts.size());
  for (int64_t slot : slots)
    choice.outputLayouts.push_back(slot == 0 ? layout : "");
  choice.fields.set("results", slots);
}

/// The image that operand 0 is may become result slot 0: a channel block is summed before it is
/// written.
void shareImage(KernelChoice &choice, const UnitReader &reader, const UnitNode &node) {
  std::vector<int64_t> slots = reader.resultSlots(node);
  for (size_t result = 0; result < slots.size(); ++result)
    if (slots[result] == 0)
      choice.inPlace.push_back({0, static_cast<int>(result)});
}

/// The new running mean and variance (result slots 1 and 2), which are momentum parts the old ones
/// (the last two arguments), take their place.
void keepRunningStatistics(KernelChoice &choice, const UnitNode &node) {
  choice.fields.set("momentum", node.attributes->number("momentum", 0.9));
  const std::vector<int64_t> slots = choice.fields.integers("results");
  const size_t before = choice.outputLayouts.size() - slots.size();
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i] == 1 || slots[i] == 2)
      choice.inPlace.push_back(
          {static_cast<int>(choice.arguments.size()) - 3 + static_cast<int>(slots[i]),
           static_cast<int>(before + i)});
}

/// The image that is added to the normalised one, if there is one; behind all other operands. Its
/// place may be taken by the sum.
void addAddend(KernelChoice &choice, const UnitReader &reader, const std::string &layout) {
  auto isAdd = [](const UnitNode *node) { return node->op == "Add"; };
  const auto add = std::ranges::find_if(reader.nodes, isAdd);
  if (add == reader.nodes.end())
    return;
  const bool isFirst = (*add)->inputs.at(0).kind == UnitValue::Kind::operand;
  choice.fields.set("addend", int64_t(1));
  const int argument = static_cast<int>(choice.arguments.size());
  addArgument(choice, reader, **add, isFirst ? 0 : 1, layout);
  for (size_t i = 0; i < reader.unit.results.size(); ++i)
    if (&reader.unit.nodes.at(static_cast<size_t>(reader.unit.results[i].index)) ==
        reader.nodes.back())
      choice.inPlace.push_back({argument, static_cast<int>(i)});
}

} // namespace

KernelChoice chooseBatchNormalization(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  const TensorType &x = reader.inputType(node, 0);
  std::string layout = normalisationLayout(reader, x);
  KernelChoice choice = choiceFor(reader, "BatchNormalization", x, layout);
  addArgument(choice, reader, node, 0, layout);
  setChannels(choice, reader, node);
  setResults(choice, reader, node, layout);
  shareImage(choice, reader, node);
  keepRunningStatistics(choice, node);
  return choice;
}

KernelChoice chooseBatchNormalizationInference(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  if (node.attributes->integer("training_mode", 0))
    reader.refuse("BatchNormalization in training mode is BatchNormInternal here");
  const TensorType &x = reader.inputType(node, 0);
  std::string layout = normalisationLayout(reader, x);
  KernelChoice choice = choiceFor(reader, "BatchNormalizationInference", x, layout);
  addArgument(choice, reader, node, 0, layout);
  setChannels(choice, reader, node);
  choice.outputLayouts = {layout};
  choice.inPlace = {{0, 0}};
  return choice;
}

/// BatchNormalization [+ Add] [+ Relu].
KernelChoice chooseCudaNormalisationInference(const UnitReader &reader) {
  KernelChoice choice = chooseBatchNormalizationInference(reader);
  addAddend(choice, reader, choice.outputLayouts[0]);
  return choice;
}

/// [Conv +] BatchNormInternal [+ Add] [+ Relu]. The convolution's result is the first pointer
/// behind the operands.
KernelChoice chooseCudaNormalisation(const UnitReader &reader) {
  const UnitNode &convolution = reader.node(0);
  if (convolution.op != "Conv") {
    KernelChoice choice = chooseBatchNormalization(reader);
    addAddend(choice, reader, choice.fields.string("layout", ""));
    return choice;
  }
  const UnitNode &node = reader.node(1);
  if (reader.unit.results.empty() ||
      &reader.unit.nodes.at(reader.unit.results[0].index) != &convolution)
    reader.refuse("nothing reads what '" + std::string(convolution.name) + "' makes but '" +
                  std::string(node.name) + "'; form-units keeps them apart then");
  KernelChoice choice = chooseCudaConvolution(reader);
  choice.kernel = "NormalisedConvolution";
  const std::string layout = choice.outputLayouts[0];
  setChannels(choice, reader, node);
  setResults(choice, reader, node, layout);
  keepRunningStatistics(choice, node);
  addAddend(choice, reader, layout);
  return choice;
}

/// [ReluGrad +] BatchNormalizationGrad.
KernelChoice chooseBatchNormalizationGradient(const UnitReader &reader) {
  const UnitNode &node = *reader.nodes.back();
  const TensorType &x = reader.inputType(node, 1);
  std::string layout = normalisationLayout(reader, x);
  KernelChoice choice = choiceFor(reader, "BatchNormalizationGradient", x, layout);
  if (reader.nodes.size() > 1) {
    addArgument(choice, reader, reader.node(0), 0, layout);
    addArgument(choice, reader, reader.node(0), 1, layout);
    choice.fields.set("relu", int64_t(1));
  } else {
    addArgument(choice, reader, node, 0, layout);
  }
  addArgument(choice, reader, node, 1, layout);
  for (size_t i = 2; i < 5; ++i)
    addArgument(choice, reader, node, i);
  setResults(choice, reader, node, layout);
  shareImage(choice, reader, node);
  return choice;
}

/// Refuses what is not the chain below: the kernel computes nothing else.
static void checkArriving(const UnitReader &reader, const UnitNode *sum, const UnitNode *relu,
                          const UnitNode *image) {
  const UnitNode &node = *reader.nodes.back();
  auto reads = [&](const UnitNode *by, size_t input, const UnitNode *made) {
    const UnitValue value = by->inputs.at(input);
    return value.kind == UnitValue::Kind::node &&
           &reader.unit.nodes.at(static_cast<size_t>(value.index)) == made;
  };
  const size_t all = 1 + (sum != nullptr) + (relu != nullptr) + (image != nullptr);
  bool isChain = reader.nodes.size() == all && (relu || (!sum && !image));
  isChain = isChain && (!relu || (relu->inputs.size() == 2 && reads(&node, 0, relu)));
  isChain = isChain && (!sum || reads(relu, 0, sum));
  if (isChain && image) {
    const std::vector<UnitValue> &its = image->inputs;
    isChain = reads(relu, 1, image) && its.size() == 5 && its[0] == node.inputs[1] &&
              its[1] == node.inputs[2] && its[3] == node.inputs[3] && its[4] == node.inputs[4];
  }
  if (!isChain)
    reader.refuse("the kernel sums, masks by a relu and differentiates a normalisation, in this "
                  "order and nothing else");
  if (sum && sum->inputs.size() > mostArrivingTerms())
    reader.refuse("the kernel adds up to " + std::to_string(mostArrivingTerms()) + " gradients");
}

size_t mostArrivingTerms() { return runtime::BatchNormalizationFields::kMostTerms; }

/// [[Sum +] [BatchNormApply +] ReluGrad +] BatchNormalizationGrad. Where what the relu lets through
/// is read outside, it is the first result.
KernelChoice chooseCudaNormalisationGradient(const UnitReader &reader) {
  const UnitNode &node = *reader.nodes.back();
  const TensorType &x = reader.inputType(node, 1);
  const std::string layout = normalisationLayout(reader, x);
  KernelChoice choice = choiceFor(reader, "BatchNormalizationGradient", x, layout);
  auto find = [&](std::string_view op) {
    auto is = [&](const UnitNode *other) { return other->op == op; };
    const auto found = std::ranges::find_if(reader.nodes, is);
    return found == reader.nodes.end() ? nullptr : *found;
  };
  const UnitNode *relu = find("ReluGrad"), *sum = find("Sum"), *image = find("BatchNormApply");
  checkArriving(reader, sum, relu, image);
  const UnitNode &first = sum ? *sum : relu ? *relu : node;
  const size_t terms = sum ? sum->inputs.size() : 1;
  for (size_t term = 0; term < terms; ++term)
    addArgument(choice, reader, first, term, layout);
  if (relu && !image)
    addArgument(choice, reader, *relu, 1, layout);
  addArgument(choice, reader, node, 1, layout);
  addArgument(choice, reader, node, 2);
  if (image)
    addArgument(choice, reader, *image, 2);
  addArgument(choice, reader, node, 3);
  addArgument(choice, reader, node, 4);
  if (relu)
    choice.fields.set("relu", int64_t(1));
  if (image)
    choice.fields.set("reluOfImage", int64_t(1));
  if (terms > 1)
    choice.fields.set("terms", static_cast<int64_t>(terms));
  const bool isKept =
      relu && !reader.unit.results.empty() &&
      &reader.unit.nodes.at(static_cast<size_t>(reader.unit.results[0].index)) == relu;
  if (isKept)
    choice.outputLayouts.push_back(layout);
  setResults(choice, reader, node, layout);
  std::vector<int64_t> slots = choice.fields.integers("results");
  if (isKept)
    slots.insert(slots.begin(), 3);
  choice.fields.set("results", slots);
  for (size_t term = 0; term < terms; ++term)
    for (size_t i = 0; i < slots.size(); ++i)
      if (slots[i] == 0 || slots[i] == 3)
        choice.inPlace.push_back({static_cast<int>(term), static_cast<int>(i)});
  return choice;
}

/// The window runs over channels. On the CPU pixels are the vector: row-major.
KernelChoice chooseLocalResponse(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  bool isGradient = node.op == "LRNGrad";
  KernelChoice choice;
  choice.kernel = isGradient ? "LocalResponseGradient" : "LocalResponse";
  choice.fields = {{"alpha", node.attributes->number("alpha", 1e-4)},
                   {"beta", node.attributes->number("beta", 0.75)},
                   {"bias", node.attributes->number("bias", 1)},
                   {"input", reader.inputType(node, 0).shape},
                   {"size", node.attributes->integer("size", 1)}};
  const bool isCpu = reader.options.kind == DeviceKind::cpu;
  const std::string layout = isCpu ? "" : imageLayout(reader, reader.inputType(node, 0).rank());
  for (size_t i = 0; i < (isGradient ? 3 : 1); ++i)
    addArgument(choice, reader, node, i, layout);
  choice.outputLayouts = {layout};
  int64_t plane = reader.inputType(node, 0).bytes();
  choice.workspaceBytes = isGradient ? 2 * plane + 128 : 0;
  return choice;
}

} // namespace pdc
