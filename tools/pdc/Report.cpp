#include "tools/pdc/Report.h"

#include "codegen/CppText.h"
#include "compiler/ir/Conversion.h"
#include "compiler/ir/Pdc.h"
#include "compiler/onnx/Normalisations.h"
#include "compiler/onnx/Parameters.h"
#include "compiler/onnx/WeightPlaces.h"
#include "compiler/plan/PlannedRows.h"
#include "compiler/schedule/Schedules.h"
#include "passes/OptimizerSpec.h"

namespace pdc {

std::string optimizerOf(const Model &model, const Options &options) {
  std::string optimizer = chooseOptimizer(model, options.optimizer);
  if (!options.optimizer.empty() || !model.training)
    return optimizer;
  try {
    parseOptimizer(optimizer);
  } catch (const Error &error) {
    throw Error(model.name + ": " + model.training->origin + ": " + error.what() +
                "; give --optimizer, as in adamw,lr=0.001");
  }
  return optimizer;
}

std::string optimizerKind(const Model &model, const Options &options) {
  const std::string optimizer = optimizerOf(model, options);
  return optimizer.substr(0, optimizer.find(','));
}

static void listSome(const std::vector<std::string> &names, std::ostream &out) {
  constexpr size_t most = 3;
  for (size_t i = 0; i < std::min(names.size(), most); ++i)
    out << (i ? ", " : " ") << commentText(names[i]);
  if (names.size() > most)
    out << ", ...";
}

/// What stands where weights do and stays as it is, by reasons.
static void describeUntrained(const std::map<std::string, std::string> &reasons,
                              std::ostream &out) {
  std::map<std::string, std::vector<std::string>> names;
  for (const auto &[name, reason] : reasons)
    names[reason].push_back(name);
  for (const auto &[reason, those] : names) {
    out << "not trained:";
    listSome(those, out);
    out << " (" << reason;
    if (those.size() > 1)
      out << ", " << those.size() << " of them";
    out << "); --train +PATTERN trains them, too\n";
  }
}

/// What such an export trains is not the network: biases of zeros are gone, equal weights are one.
static void describeLost(const std::vector<std::string> &lost, std::ostream &out) {
  if (lost.empty())
    return;
  out << "note: of the network's parameters the exporter folded, merged or dropped " << lost.size()
      << ':';
  listSome(lost, out);
  out << "; to train the network as it is, export it with optimize=False\n";
}

/// What the network computes of a parameter stays as it was at first, while that is trained.
static void describeFolded(const Model &model, const std::map<std::string, std::string> &untrained,
                           std::ostream &out) {
  for (const auto &[name, parameter] : model.metadata.foldedFrom)
    if (untrained.contains(name))
      out << "note: the exporter computed " << commentText(name) << " of the parameter "
          << commentText(parameter)
          << " once and for all; to train the network as it is, export it with optimize=False\n";
}

/// One of each layer's stands for all that are called alike.
static std::string listKinds(const std::vector<std::string> &names) {
  std::map<std::string, std::pair<std::string, int>> kinds; // the first and how many, by last part
  for (const std::string &name : names)
    ++kinds.try_emplace(name.substr(name.rfind('.') + 1), name, 0).first->second.second;
  std::string list;
  for (const auto &[kind, named] : kinds) {
    const auto &[first, count] = named;
    list += (list.empty() ? " " : ", ") + commentText(first);
    if (count > 1)
      list += " (" + std::to_string(count) + " such)";
  }
  return list;
}

/// Files of PyTorch's older exporter name parameters and buffers alike. Layers call theirs weights
/// and biases; what the exporter made of them has colons.
static void describeUnsure(const Model &model, const std::set<std::string> &parameters,
                           std::ostream &out) {
  auto isOfLayer = [](const std::string &name) {
    const std::string last = name.substr(name.rfind('.') + 1);
    return last.find("weight") != last.npos || last.find("bias") != last.npos ||
           name.find("::") != name.npos;
  };
  std::vector<std::string> unsure;
  for (const std::string &name : parameters)
    if (!isOfLayer(name))
      unsure.push_back(name);
  const bool isOfTorch =
      model.producer == "pytorch" || std::ranges::any_of(parameters, [](const std::string &name) {
        return name.ends_with(".weight");
      });
  if (unsure.empty() || !isOfTorch || model.training || !model.metadata.kinds.empty())
    return;
  out << "note: the file does not tell parameters from buffers, and trained are, too:"
      << listKinds(unsure) << "; --freeze PATTERN leaves what is a buffer\n";
}

/// What the file has in another width than pdc computes in.
static void describeWidths(const std::set<ElementType> &widths, std::ostream &out) {
  for (ElementType width : widths) {
    out << "note: what the file holds in " << toString(width) << " is computed in f32";
    if (bytesPerElement(width) == 2)
      out << "; --precision " << (width == ElementType::bf16 ? "bf16" : "fp16")
          << " has GPUs store it in 16 bits";
    out << '\n';
  }
}

/// Statistics of a microbatch and running ones train to different networks.
static void describeNormalisations(const Model &model, const Normalisations &chosen,
                                   std::ostream &out) {
  const size_t all = chosen.active.size() + chosen.frozen.size() + chosen.given.size();
  if (!chosen.frozen.empty())
    out << "note: " << chosen.frozen.size() << " of " << all
        << " BatchNormalization nodes are frozen: they train with their running statistics, which "
           "stay as they are\n";
  if (!chosen.given.empty())
    out << "note: " << chosen.given.size() << " of " << all
        << " BatchNormalization nodes normalise by a mean and a variance that the network computes"
        << (areGivenDetached(model) ? ", to which no gradient goes\n" : "\n");
  std::vector<const ModelNode *> keeping;
  for (const ModelNode &node : model.nodes)
    if (chosen.active.contains(node.name) && keepsStatistics(model, node))
      keeping.push_back(&node);
  if (chosen.areTold || keeping.empty())
    return;
  out << "note: the file does not say that BatchNormalization trains (training_mode), and "
      << keeping.size() << " of " << all
      << " nodes train with the statistics of each microbatch; --freeze PATTERN freezes those "
         "whose "
         "running mean it matches, such as "
      << commentText(keeping.front()->inputs.at(3)) << '\n';
}

/// Gradients that PyTorch's own would send elsewhere.
static void describeUndone(const std::vector<std::string> &nodes, bool isOptimized,
                           std::ostream &out) {
  if (nodes.empty())
    return;
  out << "note: x + (y - x) stands at";
  listSome(nodes, out);
  out << ": trained as y alone, since the file has no detach; where the gradient is to go straight "
         "through "
         "to x, export with "
      << (isOptimized ? "optimize=False" : "dynamo=True, optimize=False") << ", which keeps it\n";
}

/// Layers that lead to other outputs alone.
static void describeUnread(const Model &model, const Loss &loss, std::ostream &out) {
  std::set<std::string> read;
  for (const ModelNode *node : nodesOfLoss(model, loss))
    read.insert(node->inputs.begin(), node->inputs.end());
  std::vector<const ModelNode *> nodes;
  for (const ModelNode &node : model.nodes)
    nodes.push_back(&node);
  const WeightPlaces places(nodes);
  std::vector<std::string> unread;
  for (const auto &[name, initializer] : model.initializers)
    if (isFloatingPoint(initializer.type.element) && places.hold(name) && !read.contains(name))
      unread.push_back(name);
  if (unread.empty())
    return;
  out << "note: the loss does not depend on " << unread.size() << " of the network's tensors:";
  listSome(unread, out);
  out << "; they are not trained, and no checkpoint has them\n";
}

static void describeSum(const Model &model, const Loss &loss, std::ostream &out) {
  if (isSum(model, loss))
    out << "note: the loss is a sum; that of a minibatch is the mean of its microbatches' sums, and "
           "changes with their number: divide by the number of samples where the model is exported\n";
}

/// Under schedules whose updates sum microbatches that no step of all ranks waits for. Others have
/// the mean over all labels.
static void describeMean(const Loss &loss, const std::string &schedule, std::ostream &out) {
  const bool hasIgnored = loss.kind == LossKind::crossEntropy || loss.kind == LossKind::nll;
  if (!hasIgnored || schedule == "auto" || isFileOfRows(schedule))
    return;
  if (const ScheduleKind &kind = findSchedule(schedule); !kind.synchronous && kind.sumsMicrobatches)
    out << "note: schedule " << schedule
        << " updates by the mean of its microbatches' means: where one has more ignored labels, "
           "its "
           "others count for more than under a synchronous schedule\n";
}

/// A network that computes its loss behind its scores.
static void describeNumbers(const Model &model, const Loss &loss, std::ostream &out) {
  if (!loss.node.empty() || loss.kind == LossKind::output)
    return;
  for (const ModelValue &output : model.outputs)
    if (output.isNumber && isFloatingPoint(output.element) && output.name != loss.prediction)
      out << "note: output '" << commentText(output.name)
          << "' is a number: if that is the loss, --loss output:" << commentText(output.name)
          << " trains it\n";
}

void describeTraining(const Model &model, const Options &options, std::ostream &out, bool print) {
  Loss loss = chooseLoss(model, options.loss);
  std::set<std::string> parameters = chooseParameters(model, loss, {options.train, options.freeze});
  std::string optimizer = optimizerOf(model, options);
  if (!print)
    return;
  int64_t values = 0;
  for (const std::string &name : parameters)
    values += model.initializers.at(name).type.elementCount();
  out << "loss: " << toString(loss) << "\noptimizer: " << optimizer
      << "\nparameters: " << parameters.size() << " tensors, " << values << " values\n";
  for (const std::string &name : parameters)
    out << "  " << commentText(name) << ' ' << model.initializers.at(name).type.toString() << '\n';
  const std::map<std::string, std::string> untrained =
      reasonsAgainstTraining(model, loss, {options.train, options.freeze});
  describeUntrained(untrained, out);
  describeFolded(model, untrained, out);
  describeUnread(model, loss, out);
  describeUnsure(model, parameters, out);
  describeLost(model.metadata.lostParameters, out);
  describeUndone(undoneDifferences(model), !model.metadata.kinds.empty(), out);
  describeNormalisations(model, chooseNormalisations(model, options.freeze), out);
  describeWidths(model.widths, out);
  describeSum(model, loss, out);
  describeMean(loss, options.plan.schedule, out);
  if (options.loss.empty())
    describeNumbers(model, loss, out);
  out << '\n';
}

void describeSharedInputs(mlir::ModuleOp module, std::ostream &out) {
  for (auto memory : module.getOps<ir::MemoryOp>())
    if (memory.getRole() == ir::Role::Input && memory.getRate() == ir::Rate::Once)
      out << "note: input '" << commentText(memory.getSymName()) << "' "
          << toTensorType(memory.getType()).toString()
          << " has no row for each sample: its data are the same for all\n";
}

} // namespace pdc
