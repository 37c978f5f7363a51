#include "compiler/onnx/ClassScores.h"

#include "compiler/onnx/Makers.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace pdc {

namespace {

using DeclaredShape = std::vector<std::pair<int64_t, std::string>>;

/// The shape without one dimension.
DeclaredShape withoutClasses(const ModelValue &value, std::optional<size_t> classes) {
  DeclaredShape shape;
  for (size_t d = 0; d < value.shape.size(); ++d)
    if (d != classes)
      shape.emplace_back(value.shape[d].value.value_or(-1), value.shape[d].symbol);
  return shape;
}

const ModelValue *valueNamed(const std::vector<ModelValue> &values, const std::string &name) {
  auto found = std::ranges::find(values, name, &ModelValue::name);
  return found == values.end() ? nullptr : &*found;
}

bool isOneOf(const std::string &op, std::initializer_list<std::string_view> ops) {
  return std::ranges::find(ops, op) != ops.end();
}

/// Reads from scores of more than two dimensions back to what makes them.
class Features {
public:
  /// `classes`: elements of the last dimension, where they are known.
  Features(const Model &model, std::optional<int64_t> classes)
      : model(model), makers(model), classes(classes) {}

  /// Whether they are in the last dimension, as a matrix product leaves them, or what moves
  /// channels behind the other dimensions of a convolution.
  bool areLast(const std::string &value, bool isReshaped = false, int depth = 0) const {
    const ModelNode *node = depth > kMostNodes ? nullptr : makers.of(value);
    if (!node)
      return false;
    if (node->op == "MatMul" || node->op == "Gemm")
      return !isReshaped || (classes && widthOf(*node) == classes);
    if (node->op == "Reshape")
      return areLast(node->inputs.at(0), true, depth + 1);
    if (node->op == "Transpose")
      return movesChannelsLast(*node) && !isReshaped && areChannels(node->inputs.at(0), depth + 1);
    return isOneOf(node->op, {"Add", "Cast", "Div", "Dropout", "Identity", "LogSoftmax", "Mul",
                              "Softmax", "Sub", "Tanh"}) &&
           std::ranges::any_of(node->inputs, [&](const std::string &input) {
             return areLast(input, isReshaped, depth + 1);
           });
  }

private:
  static constexpr int kMostNodes = 8;

  bool areChannels(const std::string &value, int depth) const {
    const ModelNode *node = depth > kMostNodes ? nullptr : makers.of(value);
    if (!node)
      return false;
    if (node->op == "Conv" || node->op == "ConvTranspose")
      return true;
    return isOneOf(node->op, {"Add", "BatchNormalization", "Cast", "Div", "Identity", "Mul", "Relu",
                              "Resize", "Sub"}) &&
           std::ranges::any_of(node->inputs, [&](const std::string &input) {
             return areChannels(input, depth + 1);
           });
  }

  static bool movesChannelsLast(const ModelNode &node) {
    const std::vector<int64_t> order = node.attributes.integers("perm");
    return order.size() > 2 && order.back() == 1;
  }

  /// Of a product with a weight.
  std::optional<int64_t> widthOf(const ModelNode &product) const {
    const std::string &weight = makers.before(product.inputs.at(1), {"Transpose"});
    auto found = model.initializers.find(weight);
    if (found == model.initializers.end() || found->second.type.rank() != 2)
      return {};
    const bool isTurned =
        (weight != product.inputs[1]) != (product.attributes.integer("transB", 0) != 0);
    return found->second.type.shape[isTurned ? 0 : 1];
  }

  const Model &model;
  const Makers makers;
  std::optional<int64_t> classes;
};

/// Whether a Transpose moves one dimension and leaves the others in their order.
bool movesOnly(const ModelNode &transpose, size_t from, size_t to) {
  std::vector<int64_t> order(transpose.attributes.integers("perm").size());
  if (std::max(from, to) >= order.size())
    return false;
  std::iota(order.begin(), order.end(), 0);
  const int64_t moved = order[from];
  order.erase(order.begin() + static_cast<std::ptrdiff_t>(from));
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), moved);
  return order == transpose.attributes.integers("perm");
}

/// Shares whose classes are moved have the labels of the scores before: those of Keras' images.
bool chooseBehindMove(const Makers &makers, const ModelNode &transpose, Loss &loss) {
  const ModelNode *shares = makers.of(makers.before(transpose.inputs.at(0), {"Identity"}));
  if (!shares || (shares->op != "Softmax" && shares->op != "LogSoftmax"))
    return false;
  const size_t last = transpose.attributes.integers("perm").size() - 1;
  const int64_t axis = shares->attributes.integer("axis", -1);
  const bool isLast = axis == -1 || axis == static_cast<int64_t>(last);
  if (!(isLast && movesOnly(transpose, last, 1)) && !(axis == 1 && movesOnly(transpose, 1, last)))
    return false;
  loss.prediction = shares->inputs.at(0);
  loss.classesLast = isLast;
  return true;
}

/// The declared shapes of prediction and labels say which dimension holds the classes; where they
/// do not, what makes the prediction does.
bool hasClassesLast(const Model &model, const Loss &loss, const ModelValue *scores) {
  if (!scores || scores->shape.size() < 3)
    return false;
  if (const ModelValue *labels = valueNamed(model.inputs, loss.labels)) {
    const DeclaredShape found = withoutClasses(*labels, std::nullopt);
    const bool fitsLast = found == withoutClasses(*scores, scores->shape.size() - 1);
    if (fitsLast != (found == withoutClasses(*scores, 1)))
      return fitsLast;
  }
  return Features(model, scores->shape.back().value).areLast(loss.prediction);
}

} // namespace

void chooseScores(const Model &model, Loss &loss) {
  const ModelValue *declared = valueNamed(model.outputs, loss.prediction);
  const Makers makers(model);
  const ModelNode *maker = makers.of(makers.before(loss.prediction, {"Identity"}));
  const bool isShares = maker && maker->op == "Softmax";
  if (loss.kind == LossKind::bceWithLogits && maker && maker->op == "Sigmoid")
    loss.prediction = maker->inputs.at(0);
  if (loss.kind == LossKind::nll && isShares)
    throw Error("loss: nll takes logarithms of shares, and '" + loss.prediction +
                "' is a Softmax; say --loss cross_entropy");
  if (!hasClasses(loss))
    return;
  if (loss.kind == LossKind::crossEntropy && declared && declared->shape.size() == 2 &&
      declared->shape[1].value == 1)
    throw Error("loss: cross_entropy of '" + loss.prediction +
                "' has one class to choose from; say --loss bce_with_logits, mse or l1");
  if (loss.kind == LossKind::crossEntropy && maker && maker->op == "Transpose" &&
      chooseBehindMove(makers, *maker, loss))
    return;
  if (loss.kind == LossKind::crossEntropy && (isShares || (maker && maker->op == "LogSoftmax"))) {
    const int64_t axis = maker->attributes.integer("axis", -1);
    const auto rank = static_cast<int64_t>(declared ? declared->shape.size() : 0);
    const bool isLast = axis == -1 || (rank > 0 && axis == rank - 1);
    if (axis == 1 || isLast)
      loss.prediction = maker->inputs.at(0);
    if (rank > 2 && (axis == 1) != isLast) {
      loss.classesLast = isLast;
      return;
    }
  }
  loss.classesLast = hasClassesLast(model, loss, declared);
}

} // namespace pdc
