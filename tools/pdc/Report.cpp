#include "tools/pdc/Report.h"

#include "codegen/CppText.h"
#include "compiler/onnx/Parameters.h"
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

/// Gradients that PyTorch's own would send elsewhere.
static void describeUndone(const std::vector<std::string> &nodes, std::ostream &out) {
  if (nodes.empty())
    return;
  out << "note: x + (y - x) stands at";
  listSome(nodes, out);
  out << ": trained as y alone, since the file has no detach; where the gradient is to go straight "
         "through "
         "to x, export with dynamo=True, which keeps it\n";
}

static void describeSum(const Model &model, const Loss &loss, std::ostream &out) {
  if (isSum(model, loss))
    out << "note: the loss is a sum; that of a minibatch is the mean of its microbatches' sums, and "
           "changes with their number: divide by the number of samples where the model is exported\n";
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
  describeUntrained(reasonsAgainstTraining(model, loss, {options.train, options.freeze}), out);
  describeLost(model.metadata.lostParameters, out);
  describeUndone(undoneDifferences(model), out);
  describeWidths(model.widths, out);
  describeSum(model, loss, out);
  out << '\n';
}

} // namespace pdc
