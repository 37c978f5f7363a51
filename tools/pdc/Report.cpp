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
  out << '\n';
}

} // namespace pdc
