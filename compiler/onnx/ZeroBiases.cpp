#include "compiler/onnx/ZeroBiases.h"

#include "compiler/onnx/Makers.h"

namespace pdc {

void dropZeroBiases(Model &model) {
  const Makers makers(model);
  auto isZero = [&](const std::string &bias) {
    const ModelNode *expanded = makers.of(bias, "Expand");
    if (!expanded)
      return false;
    const std::string &number = makers.before(expanded->inputs.at(0), {"Cast", "CastLike"});
    return numberNamed(model, number) == 0.0 && model.initializers.at(number).literal;
  };
  for (ModelNode &node : model.nodes)
    if ((node.op == "Conv" || node.op == "ConvTranspose") && node.inputs.size() == 3 &&
        isZero(node.inputs[2]))
      node.inputs.pop_back();
}

} // namespace pdc
