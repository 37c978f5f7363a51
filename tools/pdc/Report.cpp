#include "tools/pdc/Report.h"

#include "codegen/CppText.h"
#include "compiler/onnx/Parameters.h"
#include "passes/OptimizerSpec.h"

namespace pdc {

void describeTraining(const Model &model, const Options &options, std::ostream &out, bool print) {
  Loss loss = chooseLoss(model, options.loss);
  std::set<std::string> parameters = chooseParameters(model, loss, {options.train, options.freeze});
  std::string optimizer = chooseOptimizer(model, options.optimizer);
  parseOptimizer(optimizer);
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
