#include "compiler/onnx/OrtArtifacts.h"

#include "compiler/onnx/FlattenFunctions.h"
#include "compiler/onnx/NodeAttributes.h"
#include "compiler/onnx/OrtCheckpoint.h"

#include <algorithm>
#include <cmath>
#include <fstream>

namespace pdc {

namespace {

constexpr std::string_view bufferEnding = "_grad.accumulation.buffer";

bool isAccumulator(const onnx::NodeProto &node) {
  return node.domain() == "com.microsoft" &&
         (node.op_type() == "InPlaceAccumulatorV2" || node.op_type() == "InPlaceAccumulator");
}

/// The parameters whose gradients are accumulated, without what accumulates them.
std::set<std::string> takeAccumulators(onnx::GraphProto &graph) {
  std::set<std::string> parameters, flags;
  for (const onnx::NodeProto &node : graph.node()) {
    if (!isAccumulator(node))
      continue;
    const std::string buffer = node.input_size() ? node.input(0) : "";
    if (!buffer.ends_with(bufferEnding) || buffer.size() == bufferEnding.size())
      throw Error(describe(node) + ": accumulates into '" + buffer + "', expected PARAMETER" +
                  std::string(bufferEnding));
    parameters.insert(buffer.substr(0, buffer.size() - bufferEnding.size()));
    flags.insert(node.output().begin(), node.output().end());
  }
  auto &nodes = *graph.mutable_node();
  nodes.erase(std::remove_if(nodes.begin(), nodes.end(), isAccumulator), nodes.end());
  auto &outputs = *graph.mutable_output();
  outputs.erase(std::remove_if(outputs.begin(), outputs.end(),
                               [&](const auto &output) { return flags.contains(output.name()); }),
                outputs.end());
  return parameters;
}

/// `steps`: updates that were made before.
std::string adamOf(const onnx::NodeProto &node, double learningRate, int64_t steps) {
  auto integer = [&](std::string_view name, int64_t otherwise) {
    return integerOf(node, name, otherwise);
  };
  std::string text = "adamw,lr=" + textOf(learningRate) +
                     ",weight_decay=" + textOf(numberOf(node, "weight_decay", 1e-2)) +
                     ",beta1=" + textOf(numberOf(node, "alpha", 0.9)) +
                     ",beta2=" + textOf(numberOf(node, "beta", 0.999)) +
                     ",epsilon=" + textOf(numberOf(node, "epsilon", 1e-8));
  int64_t mode = integer("adam_mode", 0);
  if (mode != 0 && mode != 1)
    throw Error(describe(node) + ": adam_mode " + std::to_string(mode) + ", expected 0 or 1");
  if (mode == 1)
    text += ",scaled_epsilon=1,decay_last=1";
  // The correction of a step so late is none.
  if (!integer("correct_bias", 1))
    return text + ",first_step=1e9";
  return steps > 0 ? text + ",first_step=" + std::to_string(steps + 1) : text;
}

std::string readOptimizerModel(const std::filesystem::path &path, double learningRate,
                               int64_t steps) {
  onnx::ModelProto model;
  std::ifstream file(path, std::ios::binary);
  if (!file || !model.ParseFromIstream(&file))
    throw Error(path.string() + ": cannot be read as an ONNX model; give --optimizer, as a file or "
                                "as in adamw,lr=0.001");
  std::string found;
  for (const onnx::NodeProto &node : model.graph().node()) {
    bool isAdam = node.op_type() == "AdamWOptimizer", isSgd = node.op_type() == "SGDOptimizerV2";
    if (node.domain() != "com.microsoft" || (!isAdam && !isSgd) || !found.empty())
      throw Error(path.string() + ": " + describe(node) +
                  ": expected one AdamWOptimizer or SGDOptimizerV2 alone; give --optimizer (and "
                  "pdc-run --clip-norm where gradients are clipped)");
    found = isAdam ? adamOf(node, learningRate, steps) : "sgd,lr=" + textOf(learningRate);
  }
  if (found.empty())
    throw Error(path.string() + ": has no AdamWOptimizer or SGDOptimizerV2");
  return found;
}

/// ONNX Runtime's own where nothing is said. pdc has one rate for all weights.
double rateOf(const OrtCheckpoint &checkpoint, const std::filesystem::path &path) {
  if (checkpoint.learningRates.empty())
    return 1e-3;
  double first = checkpoint.learningRates.front();
  if (!(first >= 0 && std::isfinite(first)))
    throw Error(path.string() + ": its optimizer group has learning rate " + textOf(first) +
                ", expected at least 0 and finite; give --optimizer");
  for (double rate : checkpoint.learningRates)
    if (!(rate == first))
      throw Error(path.string() + ": its optimizer groups have learning rates " + textOf(first) + " and " +
                  textOf(rate) + ", expected one for all weights; give --optimizer");
  return first;
}

/// pdc counts the updates of all weights together.
int64_t stepsOf(const OrtCheckpoint &checkpoint, const std::filesystem::path &path) {
  for (int64_t steps : checkpoint.steps)
    if (steps != checkpoint.steps.front())
      throw Error(path.string() + ": its optimizer groups are of steps " +
                  std::to_string(checkpoint.steps.front()) + " and " + std::to_string(steps) +
                  ", expected one for all weights; give --optimizer to begin its states anew");
  return checkpoint.steps.empty() ? 0 : checkpoint.steps.front();
}

/// An average of squares is not negative either.
void checkNumbers(const Initializer &state, bool isOfSquares, const std::string &where,
                  const char *remedy) {
  for (double value : readTensor(state).data)
    if (!std::isfinite(value) || (isOfSquares && value < 0))
      throw Error(where + textOf(value) + " in optimizer state '" + state.name + "', expected " +
                  (isOfSquares ? "an average of squares (finite, at least 0)"
                               : "an average of gradients (finite)") +
                  remedy);
}

/// The states of AdamW where training was left, under the names that pdc's checkpoints have for
/// them.
std::map<std::string, Initializer> takeStates(OrtCheckpoint &checkpoint,
                                              const std::set<std::string> &trained,
                                              const std::filesystem::path &path) {
  std::map<std::string, Initializer> named;
  for (const Initializer &parameter : checkpoint.parameters) {
    if (!trained.contains(parameter.name))
      continue;
    const std::string where = path.string() + ": is of step " +
                              std::to_string(stepsOf(checkpoint, path)) + ", but '" +
                              parameter.name + "' has ";
    const char *const remedy = "; give --optimizer to begin its states anew";
    std::vector<Initializer> &states = checkpoint.states[parameter.name];
    if (states.size() != 2)
      throw Error(where + std::to_string(states.size()) + " optimizer states, expected AdamW's 2" +
                  remedy);
    for (size_t i : {0, 1}) {
      if (!(states[i].type == parameter.type))
        throw Error(where + "optimizer state '" + states[i].name + "' of " +
                    states[i].type.toString() + ", expected " + parameter.type.toString() + remedy);
      checkNumbers(states[i], i == 1, where, remedy);
      states[i].name = parameter.name + (i == 0 ? "/exp_avg" : "/exp_avg_sq");
      named.emplace(states[i].name, std::move(states[i]));
    }
  }
  return named;
}

/// Without accumulators there is nothing that these files belong to.
void refuseFiles(const ArtifactFiles &files) {
  const bool isCheckpoint = !files.checkpoint.empty();
  if (isCheckpoint || !files.optimizer.empty())
    throw Error(std::string(isCheckpoint ? "--checkpoint " : "--optimizer ") +
                (isCheckpoint ? files.checkpoint : files.optimizer).string() +
                ": belongs to a training graph of ONNX Runtime, but this graph is none (it has no "
                "InPlaceAccumulatorV2); " +
                (isCheckpoint ? "leave it out" : "give a kind of optimizer, as in adamw,lr=0.001"));
}

/// A file beside the model: of generate_artifacts, which puts one prefix before all names, or,
/// where there is none, named as in ONNX Runtime's own test data.
std::filesystem::path pathOf(const std::filesystem::path &given, const std::filesystem::path &model,
                             const char *name, const char *published) {
  if (!given.empty() || model.empty())
    return given;
  std::string own = model.filename().string();
  constexpr std::string_view ending = "training_model.onnx";
  const bool hasPrefix = own.ends_with(ending);
  own.resize(hasPrefix ? own.size() - ending.size() : 0);
  std::filesystem::path usual = model.parent_path() / (own + name);
  std::filesystem::path other = model.parent_path() / published;
  std::error_code error;
  return !std::filesystem::exists(usual, error) && std::filesystem::exists(other, error) ? other
                                                                                         : usual;
}

} // namespace

std::optional<OrtArtifacts> takeOrtArtifacts(onnx::GraphProto &graph,
                                             const std::filesystem::path &model,
                                             const ArtifactFiles &files) {
  if (std::ranges::none_of(graph.node(), isAccumulator)) {
    refuseFiles(files);
    return std::nullopt;
  }
  OrtArtifacts artifacts;
  artifacts.training.parameters = takeAccumulators(graph);
  if (graph.output_size() == 0)
    throw Error("the training graph has no output that is the loss");
  artifacts.training.loss = graph.output(0).name();
  std::filesystem::path path = pathOf(files.checkpoint, model, "checkpoint", "checkpoint.ckpt");
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error) && !std::filesystem::is_directory(path, error))
    throw Error(
        "a training graph of ONNX Runtime: its parameters lie in a checkpoint, but there is no "
        "file or folder " +
        path.string() + "; give --checkpoint FILE, or the folder of a release before 1.15");
  OrtCheckpoint checkpoint = readOrtCheckpoint(path);
  for (const std::string &name : artifacts.training.parameters)
    if (!checkpoint.trained.contains(name))
      throw Error("the gradient of '" + name + "' is accumulated, but " + path.string() +
                  " has no such trained parameter");
  if (files.needsOptimizer) {
    std::filesystem::path optimizer =
        pathOf(files.optimizer, model, "optimizer_model.onnx", "adamw.onnx");
    const int64_t steps = stepsOf(checkpoint, path);
    artifacts.training.optimizer = readOptimizerModel(optimizer, rateOf(checkpoint, path), steps);
    artifacts.training.origin = optimizer.string();
    // ONNX Runtime saves states beside SGD that it never reads.
    if ((steps > 0 || checkpoint.hasStates()) && !artifacts.training.optimizer.starts_with("sgd,"))
      artifacts.training.states = takeStates(checkpoint, artifacts.training.parameters, path);
  }
  artifacts.parameters = std::move(checkpoint.parameters);
  return artifacts;
}

} // namespace pdc
