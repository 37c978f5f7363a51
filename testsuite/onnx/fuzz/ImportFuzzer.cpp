#include "compiler/onnx/Binding.h"
#include "compiler/onnx/Parameters.h"

#include <cstddef>

using namespace pdc;

namespace {

/// Types and known values of a model's nodes, by the operators' rules: what the compiler asks
/// first.
class Inference {
public:
  explicit Inference(const Model &model) : model(model) {
    Binding binding(model, fixedMicrobatchSize(model) ? 0 : 2, {});
    for (const ModelValue &input : model.inputs)
      types[input.name] = binding.typeOf(input);
    for (const auto &[name, initializer] : model.initializers) {
      types[name] = initializer.type;
      if (initializer.type.elementCount() <= largestEvaluated)
        constants[name] = readTensor(initializer);
    }
  }

  void run() {
    for (const ModelNode &node : model.nodes)
      infer(node);
  }

private:
  static constexpr int64_t largestEvaluated = 1 << 12;

  void infer(const ModelNode &node) {
    std::vector<const TensorType *> inputs;
    std::vector<const Tensor *> known;
    for (const std::string &input : node.inputs) {
      inputs.push_back(input.empty() ? nullptr : &types.at(input));
      auto constant = constants.find(input);
      known.push_back(constant == constants.end() ? nullptr : &constant->second);
    }
    NodeView view{node.op, node.name, node.attributes, inputs, known, node.outputs.size()};
    const Operator &op = *findOperator(node.op);
    std::vector<TensorType> outputs = inferTypes(op, view);
    costOf(op, view, outputs);
    evaluate(op, view, outputs, node);
    for (size_t i = 0; i < outputs.size(); ++i)
      types[node.outputs[i]] = outputs[i];
  }

  void evaluate(const Operator &op, const NodeView &view, const std::vector<TensorType> &outputs,
                const ModelNode &node) {
    for (size_t i = 0; i < view.inputs.size(); ++i)
      if (view.inputs[i] && !view.constants[i])
        return;
    for (const TensorType &type : outputs)
      if (type.elementCount() > largestEvaluated)
        return;
    if (!op.evaluate)
      return;
    std::vector<Tensor> values = evaluateNode(op, view, view.constants);
    for (size_t i = 0; i < values.size(); ++i)
      constants[node.outputs[i]] = values[i];
  }

  const Model &model;
  std::map<std::string, TensorType> types;
  std::map<std::string, Tensor> constants;
};

} // namespace

/// Whatever the bytes are: a checked model or one Error, and the same for each question about it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  try {
    Model model = parseModel({reinterpret_cast<const char *>(data), size}, "fuzzed.onnx");
    toString(model);
    Inference(model).run();
    chooseUndecayed(model, "", chooseParameters(model, chooseLoss(model, ""), {}), {});
  } catch (const Error &) {
  }
  return 0;
}
