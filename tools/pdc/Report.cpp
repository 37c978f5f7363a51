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

/// What such an export trains is not the network: biases of zeros are gone, equal weights are one.
static void describeLost(const std::vector<std::string> &lost, std::ostream &out) {
  if (lost.empty())
    return;
  out << "note: of the network's parameters the exporter folded, merged or dropped " << lost.size()
      << ':';
  for (size_t i = 0; i < std::min<size_t>(lost.size(), 3); ++i)
    out << (i ? ", " : " ") << commentText(lost[i]);
  out << (lost.size() > 3 ? ", ..." : "")
      << "; to train the network as it is, export it with optimize=False\n";
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
  describeLost(model.metadata.lostParameters, out);
  out << '\n';
}

} // namespace pdc
