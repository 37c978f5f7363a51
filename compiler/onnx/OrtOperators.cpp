#include "compiler/onnx/OrtOperators.h"

#include "compiler/onnx/NodeAttributes.h"

#include <algorithm>

namespace pdc {

namespace {

/// An operator that differs from one of ONNX in its name and in what it has at its end.
struct Renamed {
  std::string_view name;
  const char *onnx;
  int opset;
  int inputs, outputs; ///< how many of them ONNX's has
};

constexpr Renamed renamed[] = {
    {"BatchNormInternal", "BatchNormalization", 15, 5, 3},
    {"BitmaskDropout", "Dropout", 13, 3, 1},
    {"ConcatTraining", "Concat", 13, 1 << 20, 1},
    {"GRUTraining", "GRU", 14, 6, 2},
    {"Gelu", "Gelu", 20, 1, 1},
    {"LSTMTraining", "LSTM", 14, 8, 3},
    {"ReduceSumTraining", "ReduceSum", 13, 2, 1},
    {"SoftmaxCrossEntropyLossInternal", "SoftmaxCrossEntropyLoss", 13, 3, 2},
    {"SplitTraining", "Split", 13, 2, 1 << 20},
};

template <class List> void keepFirst(List &list, int count) {
  while (list.size() > count)
    list.RemoveLast();
}

void removeAttribute(onnx::NodeProto &node, std::string_view name) {
  auto &list = *node.mutable_attribute();
  list.erase(std::remove_if(list.begin(), list.end(),
                            [&](const auto &attribute) { return attribute.name() == name; }),
             list.end());
}

class Replacer {
public:
  Replacer(Names &values, const Model &model) : values(values), model(model) {}

  void add(FlatNode node) {
    onnx::NodeProto &proto = node.proto;
    const std::string op = proto.op_type();
    if (proto.domain().empty() && op == "LayerNormalization")
      node.opset = std::max(node.opset, 17); // ONNX Runtime has it in every operator set
    if (proto.domain().empty() && op == "SimplifiedLayerNormalization")
      rename(node, {"", "RMSNormalization", 23, 2, 1});
    if (proto.domain() == "com.microsoft")
      replace(node);
    nodes.push_back(std::move(node));
  }

  std::vector<FlatNode> nodes;

private:
  void replace(FlatNode &node) {
    onnx::NodeProto &proto = node.proto;
    for (const Renamed &row : renamed)
      if (row.name == proto.op_type()) {
        if (row.name == "SoftmaxCrossEntropyLossInternal")
          moveIgnoredIndex(proto);
        if (row.name == "BatchNormInternal" && !attributeOf(proto, "training_mode"))
          setInteger(proto, "training_mode", 1);
        return rename(node, row);
      }
    if (proto.op_type() == "BiasGelu" || proto.op_type() == "FastGelu")
      replaceGelu(node);
    if (proto.op_type() == "QuickGelu")
      replaceQuickGelu(node);
    if (proto.op_type() == "FusedMatMul" || proto.op_type() == "TransposeMatMul")
      replaceMatMul(node);
    if (proto.op_type() == "Scale")
      replaceScale(node);
  }

  static void rename(FlatNode &node, const Renamed &row) {
    node.proto.set_domain("");
    node.proto.set_op_type(row.onnx);
    node.opset = row.opset;
    keepFirst(*node.proto.mutable_input(), row.inputs);
    keepFirst(*node.proto.mutable_output(), row.outputs);
  }

  /// Its fourth input is the attribute of ONNX's.
  void moveIgnoredIndex(onnx::NodeProto &node) const {
    removeAttribute(node, "output_type");
    if (node.input_size() < 4 || node.input(3).empty())
      return;
    auto found = model.initializers.find(node.input(3));
    if (found == model.initializers.end() || found->second.type.elementCount() != 1)
      throw Error(describe(node) + ": ignore_index '" + node.input(3) +
                  "' must be one number that the file holds");
    removeAttribute(node, "ignore_index");
    setInteger(node, "ignore_index", toInteger(readTensor(found->second).data.at(0)));
  }

  /// A node before this one; returns the name of its result.
  std::string addBefore(const FlatNode &node, const std::string &op,
                        const std::vector<std::string> &inputs) {
    FlatNode before{{}, 15, node.stages};
    before.proto.set_name(node.proto.name() + "/" + op);
    before.proto.set_op_type(op);
    setInputs(before.proto, inputs);
    before.proto.add_output(values.fresh(node.proto.output(0) + "/" + op));
    nodes.push_back(std::move(before));
    return nodes.back().proto.output(0);
  }

  /// Of the elements of a value.
  std::string addNumber(const FlatNode &node, double value, const std::string &like) {
    std::string name = addBefore(node, "Constant", {});
    onnx::AttributeProto &attribute = *nodes.back().proto.add_attribute();
    attribute.set_name("value_float");
    attribute.set_type(onnx::AttributeProto::FLOAT);
    attribute.set_f(static_cast<float>(value));
    return addBefore(node, "CastLike", {name, like});
  }

  static void setInputs(onnx::NodeProto &node, const std::vector<std::string> &inputs) {
    node.clear_input();
    for (const std::string &input : inputs)
      node.add_input(input);
  }

  void replaceGelu(FlatNode &node) {
    onnx::NodeProto &proto = node.proto;
    if (proto.output_size() < 1 || proto.input_size() < 1)
      return;
    bool isFast = proto.op_type() == "FastGelu";
    if (proto.input_size() > 1 && !proto.input(1).empty())
      setInputs(proto, {addBefore(node, "Add", {proto.input(0), proto.input(1)})});
    if (isFast)
      setText(proto, "approximate", "tanh");
    rename(node, {"", "Gelu", 20, 1, 1});
  }

  /// x * sigmoid(alpha * x).
  void replaceQuickGelu(FlatNode &node) {
    onnx::NodeProto &proto = node.proto;
    if (proto.output_size() < 1 || proto.input_size() < 1)
      return;
    const std::string x = proto.input(0);
    const std::string alpha = addNumber(node, numberOf(proto, "alpha", 1.702), x);
    setInputs(proto, {x, addBefore(node, "Sigmoid", {addBefore(node, "Mul", {x, alpha})})});
    proto.clear_attribute();
    rename(node, {"", "Mul", 14, 2, 1});
  }

  /// The factor may be of other elements.
  void replaceScale(FlatNode &node) {
    if (node.proto.input_size() != 2)
      return;
    const std::string x = node.proto.input(0);
    setInputs(node.proto, {x, addBefore(node, "CastLike", {node.proto.input(1), x})});
    const onnx::AttributeProto *down = attributeOf(node.proto, "scale_down");
    const char *op = down && down->i() != 0 ? "Div" : "Mul";
    node.proto.clear_attribute();
    rename(node, {"", op, 14, 2, 1});
  }

  /// With transposed operands a sum over the index that both share; transposed batches are refused.
  void replaceMatMul(FlatNode &node) {
    onnx::NodeProto &proto = node.proto;
    auto flag = [&](std::string_view name) {
      const onnx::AttributeProto *attribute = attributeOf(proto, name);
      return attribute && attribute->i() != 0;
    };
    if (proto.input_size() != 2 || proto.output_size() < 1 || flag("transBatchA") ||
        flag("transBatchB"))
      return;
    if (const double alpha = numberOf(proto, "alpha", 1.0); alpha != 1) {
      const std::string factor = addNumber(node, alpha, proto.input(0));
      setInputs(proto, {addBefore(node, "Mul", {proto.input(0), factor}), proto.input(1)});
    }
    bool first = flag("transA"), second = flag("transB");
    proto.clear_attribute();
    if (first || second)
      setText(proto, "equation",
              std::string(first ? "...ji" : "...ij") + (second ? ",...kj" : ",...jk") + "->...ik");
    rename(node, {"", first || second ? "Einsum" : "MatMul", 13, 2, 1});
  }

  Names &values;
  const Model &model;
};

} // namespace

void replaceOrtOperators(std::vector<FlatNode> &nodes, Names &values, const Model &model) {
  Replacer replacer(values, model);
  for (FlatNode &node : nodes)
    replacer.add(std::move(node));
  nodes = std::move(replacer.nodes);
}

} // namespace pdc
