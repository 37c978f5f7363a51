#include "compiler/onnx/ZeroBiases.h"

#include <unordered_map>

namespace pdc {

void dropZeroBiases(Model &model) {
  std::unordered_map<std::string, const ModelNode *> makers;
  for (const ModelNode &node : model.nodes)
    for (const std::string &output : node.outputs)
      makers[output] = &node;
  auto isZero = [&](const std::string &bias) {
    auto made = makers.find(bias);
    if (made == makers.end() || made->second->op != "Expand")
      return false;
    std::string number = made->second->inputs.at(0);
    for (made = makers.find(number);
         made != makers.end() && (made->second->op == "Cast" || made->second->op == "CastLike");
         made = makers.find(number))
      number = made->second->inputs.at(0);
    auto found = model.initializers.find(number);
    return found != model.initializers.end() && found->second.literal &&
           found->second.type.elementCount() == 1 && readTensor(found->second).data[0] == 0;
  };
  for (ModelNode &node : model.nodes)
    if ((node.op == "Conv" || node.op == "ConvTranspose") && node.inputs.size() == 3 &&
        isZero(node.inputs[2]))
      node.inputs.pop_back();
}

} // namespace pdc
