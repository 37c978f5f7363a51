#include "compiler/onnx/ClassScores.h"

#include "compiler/onnx/Makers.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <ranges>

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

/// Reads from scores of more than two dimensions back to what makes them.
class Features {
public:
  /// `classes`: elements of the last dimension, where they are known.
  Features(const Model &model, const Makers &makers, std::optional<int64_t> classes)
      : model(model), makers(makers), classes(classes) {}

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
    static constexpr std::string_view passed[] = {
        "Add", "Cast", "Div", "Dropout", "Identity", "LogSoftmax", "Mul", "Softmax", "Sub", "Tanh"};
    return std::ranges::count(passed, node->op) > 0 &&
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
    static constexpr std::string_view passed[] = {
        "Add", "BatchNormalization", "Cast", "Div", "Identity", "Mul", "Relu", "Resize", "Sub"};
    return std::ranges::count(passed, node->op) > 0 &&
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
  const Makers &makers;
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

/// A Softmax, LogSoftmax or Sigmoid that an output shows, and what moves its dimensions; null:
/// none.
struct Shares {
  const ModelNode *node = nullptr, *transpose = nullptr;

  Shares(const Makers &makers, const std::string &output) {
    node = makerOf(makers, output);
    if (node && node->op == "Transpose") {
      transpose = node;
      node = makerOf(makers, transpose->inputs.at(0));
    }
  }

  bool areOf(std::string_view op) const { return node && node->op == op; }

private:
  static const ModelNode *makerOf(const Makers &makers, const std::string &value) {
    return makers.of(makers.before(value, {"Cast", "Identity"}));
  }
};

/// Puts the scores in the place of shares that say where their classes are, in dimension 1 or the
/// last one, also where a Transpose moves them from one to the other, as from Keras' images: labels
/// stay as they are. A Softmax over several dimensions, as operator sets before 13 have it, says so
/// where all but the first have one element.
bool chooseBefore(const Shares &shares, const ModelValue *declared, Loss &loss) {
  size_t rank = declared ? declared->shape.size() : 0;
  const ModelNode *transpose = shares.transpose;
  if (transpose)
    rank = transpose->attributes.integers("perm").size();
  int64_t axis = shares.node->attributes.integer("axis", -1);
  if (axis < 0 && rank > 0)
    axis += static_cast<int64_t>(rank);
  const bool isFlat =
      declared &&
      std::ranges::all_of(declared->shape | std::views::drop(std::max<int64_t>(0, axis + 1)),
                          [](const Dimension &d) { return d.value == 1; });
  if (!isFlat && shares.node->attributes.integer("flatten", 0) != 0)
    return false;
  const bool isLast = axis == -1 || (rank > 0 ? axis + 1 == static_cast<int64_t>(rank) : axis > 1);
  if (axis != 1 && !isLast)
    return false;
  if (transpose && !movesOnly(*transpose, isLast ? rank - 1 : 1, isLast ? 1 : rank - 1))
    return false;
  loss.prediction = shares.node->inputs.at(0);
  loss.classesLast = isLast && rank != 2;
  return true;
}

/// The declared shapes of prediction and labels say which dimension holds the classes; where they
/// do not, what makes the prediction does.
bool hasClassesLast(const Model &model, const Makers &makers, const Loss &loss,
                    const ModelValue *scores) {
  if (!scores || scores->shape.size() < 3)
    return false;
  if (const ModelValue *labels = valueNamed(model.inputs, loss.labels)) {
    const DeclaredShape found = withoutClasses(*labels, std::nullopt);
    const bool fitsLast = found == withoutClasses(*scores, scores->shape.size() - 1);
    if (fitsLast != (found == withoutClasses(*scores, 1)))
      return fitsLast;
  }
  return Features(model, makers, scores->shape.back().value).areLast(loss.prediction);
}

} // namespace

/// A choice of one class has a loss of 0, whatever the scores are.
static void checkClasses(const Loss &loss, const std::string &output, const ModelValue *declared) {
  if (!declared || declared->shape.size() < 2)
    return;
  const Dimension &classes = loss.classesLast ? declared->shape.back() : declared->shape[1];
  if (classes.value == 1)
    throw Error("loss: the scores of '" + output +
                "' have one class to choose from; say --loss bce_with_logits, mse or l1");
}

void chooseScores(const Model &model, Loss &loss) {
  const std::string output = loss.prediction;
  const ModelValue *declared = valueNamed(model.outputs, output);
  const Makers makers(model);
  const Shares shares(makers, output);
  if (loss.kind == LossKind::bceWithLogits && shares.areOf("Sigmoid") && !shares.transpose)
    loss.prediction = shares.node->inputs.at(0);
  if (loss.kind == LossKind::nll && shares.areOf("Softmax"))
    throw Error("loss: nll takes logarithms of shares, and '" + output +
                "' is a Softmax; say --loss cross_entropy");
  if (!hasClasses(loss))
    return;
  const bool isNormalised = shares.areOf("Softmax") || shares.areOf("LogSoftmax");
  if (loss.kind != LossKind::crossEntropy || !isNormalised || !chooseBefore(shares, declared, loss))
    loss.classesLast = hasClassesLast(model, makers, loss, declared);
  if (!shares.transpose || loss.prediction == output)
    checkClasses(loss, output, declared);
}

} // namespace pdc
