#include "compiler/onnx/ReadTraining.h"

#include "compiler/onnx/GradientNodes.h"
#include "compiler/onnx/NodeAttributes.h"
#include "compiler/onnx/TrainingValues.h"

#include <algorithm>

namespace pdc {

namespace {

using onnx::AttributeProto;
using onnx::NodeProto;

bool isOfTraining(const NodeProto &node, std::string_view op) {
  return node.domain() == trainingDomain && node.op_type() == op;
}

/// How one node updates one weight, as `--optimizer` says it.
struct Update {
  std::string kind;
  std::vector<std::pair<std::string, double>> settings; ///< but rate and decay
  double decay = 0;
  std::string where;
  std::optional<double> rate = {}; ///< the optimizer's default where the file leaves it to the run
};

class TrainingReader {
public:
  TrainingReader(const TrainingInfo &info, const std::vector<FlatNode> &nodes, const Model &model)
      : info(info), model(model), values(info, nodes, model) {
    for (const FlatNode &node : nodes)
      if (isOfTraining(node.proto, "Gradient"))
        readGradient(node.proto);
      else if (node.proto.domain() == trainingDomain)
        optimizers.push_back(&node.proto);
  }

  ModelTraining read() {
    if (training.loss.empty())
      throw Error("training_info: its algorithm has no Gradient node, which says what is minimised");
    for (const auto &[variable, value] : info.updates)
      readUpdate(variable, value);
    for (const NodeProto *node : optimizers)
      checkAlone(*node);
    if (updates.empty())
      throw Error("training_info: its algorithm updates no weight");
    joinUpdates();
    training.origin = "training_info";
    return std::move(training);
  }

private:
  void readGradient(const NodeProto &node) {
    const auto [xs, y] = readGradientNode(node);
    for (const std::string &input : node.input())
      if (!model.initializers.contains(input) && !values.isInput(input))
        throw Error(describe(node) + ": '" + input +
                    "' is no initializer or input; pdc trains by gradients of these");
    if (!training.loss.empty() && training.loss != y)
      throw Error(describe(node) + ": minimises '" + y + "', and another Gradient '" +
                  training.loss + "'; expected one loss");
    if (!values.producerOf(y).node)
      throw Error(describe(node) + ": '" + y + "' is made by no node");
    training.loss = y;
    for (int i = 0; i < node.output_size(); ++i)
      gradients[node.output(i)] = xs[static_cast<size_t>(i)];
  }

  void readUpdate(const std::string &variable, const std::string &value) {
    if (!model.initializers.contains(variable))
      throw Error("training_info: the update_binding names '" + variable +
                  "', which is no initializer of the graph or the algorithm");
    auto [node, output] = values.producerOf(value);
    if (!node || !info.outputs.contains(value))
      throw Error("training_info: '" + value + "', the next value of '" + variable + "', is " +
                  (node ? "no output of the graph or the algorithm" : "made by no node"));
    if (node->domain() == trainingDomain)
      return readOptimizer(*node, output, variable);
    if (isPlain(node, "Sub", 2) && node->input(0) == variable)
      return readDescent(*node, variable);
    bool isStatistic = isPlain(node, "BatchNormalization", 5) && (output == 1 || output == 2) &&
                       node->input(output + 2) == variable;
    if (!isStatistic && !values.isCounter(variable))
      throw Error("training_info: " + describe(*node) + " makes the next value of '" + variable +
                  "'; expected Momentum, Adagrad, Adam, w - rate * gradient, a count plus 1, or a "
                  "running statistic of BatchNormalization");
  }

  /// A rate that is an input is given when training runs.
  void addRate(Update &update, const std::string &rate) const {
    update.rate = values.rateOf(rate, update.where);
  }

  /// How an optimizer's node lists what it updates.
  struct Operands {
    int weights;
    int groups; ///< weights, gradients, states
    int input(int group, int weight) const { return 2 + group * weights + weight; }
  };

  Operands operandsOf(const NodeProto &node) const {
    if (node.op_type() != "Momentum" && node.op_type() != "Adagrad" && node.op_type() != "Adam")
      throw Error("training_info: " + describe(node) +
                  ": expected Momentum, Adagrad or Adam to make the next value of a variable");
    int groups = node.op_type() == "Adam" ? 4 : 3;
    int weights = (node.input_size() - 2) / groups;
    if (weights < 1 || node.input_size() != 2 + groups * weights ||
        node.output_size() != (groups - 1) * weights)
      throw Error("training_info: " + describe(node) + ": expected R, T, then " +
                  std::to_string(groups) + " tensors for each weight, and " +
                  std::to_string(groups - 1) + " outputs for each; found " +
                  std::to_string(node.input_size()) + " inputs and " +
                  std::to_string(node.output_size()) + " outputs");
    return {weights, groups};
  }

  void readOptimizer(const NodeProto &node, int output, const std::string &variable) {
    Operands operands = operandsOf(node);
    int group = output / operands.weights, weight = output % operands.weights;
    const std::string &own = node.input(operands.input(group ? group + 1 : 0, weight));
    if (own != variable)
      throw Error("training_info: " + describe(node) + ": '" + variable +
                  "' would get the next value of '" + own + "'");
    if (group > 0)
      return;
    checkGradient(node, node.input(operands.input(1, weight)), variable);
    Update update = ruleOf(node);
    claim(variable, "the weight '" + variable + "'", update.where);
    for (int state = 2; state < operands.groups; ++state) {
      const std::string &name = node.input(operands.input(state, weight));
      addState(update, name, variable);
      claim(name, "state " + std::to_string(state - 1) + " of '" + variable + "'", update.where);
    }
    updates.emplace(variable, std::move(update));
  }

  void checkGradient(const NodeProto &node, const std::string &gradient,
                     const std::string &variable) const {
    auto found = gradients.find(gradient);
    if (found != gradients.end() && found->second == variable)
      return;
    const NodeProto *maker = values.producerOf(gradient).node;
    throw Error("training_info: " + describe(node) + ": updates '" + variable + "' by '" +
                gradient + "'" +
                (found != gradients.end() ? ", the gradient of '" + found->second + "'"
                 : maker                  ? ", which " + describe(*maker) + " makes"
                                          : "") +
                "; expected the output of Gradient for it");
  }

  Update ruleOf(const NodeProto &node) const {
    Update update{"", {}, 0, describe(node)};
    addRate(update, node.input(0));
    auto number = [&](const char *name, std::optional<double> otherwise) {
      return numberOf(node, name, otherwise);
    };
    if (node.op_type() == "Momentum") {
      const AttributeProto *mode = attributeOf(node, "mode");
      if (!mode || (mode->s() != "standard" && mode->s() != "nesterov"))
        throw Error(describe(node) + ": attribute 'mode' must be standard or nesterov");
      double alpha = number("alpha", {}), beta = number("beta", {});
      update.kind = mode->s() == "nesterov" ? "nesterov" : "momentum";
      update.settings.insert(update.settings.end(), {{"momentum", alpha}, {"dampening", 1 - beta}});
      update.decay = number("norm_coefficient", {});
      addFirstStep(update, values.countOf(node.input(1), update.where, beta != 1) + 1);
      return update;
    }
    update.decay = number("norm_coefficient", 0.0);
    double epsilon = number("epsilon", 1e-6);
    if (node.op_type() == "Adagrad") {
      double decay = number("decay_factor", 0.0);
      update.kind = "adagrad";
      update.settings.insert(update.settings.end(), {{"epsilon", epsilon}, {"lr_decay", decay}});
      addFirstStep(update, values.countOf(node.input(1), update.where, decay != 0) + 1);
      return update;
    }
    update.kind = "adam";
    update.settings.insert(update.settings.end(), {{"beta1", number("alpha", 0.9)},
                                                   {"beta2", number("beta", 0.999)},
                                                   {"epsilon", epsilon},
                                                   {"scaled_epsilon", 1}});
    if (double after = number("norm_coefficient_post", 0.0); after != 0)
      update.settings.emplace_back("post_decay", after);
    addFirstStep(update, values.countOf(node.input(1), update.where, true));
    return update;
  }

  static void addFirstStep(Update &update, double number) {
    if (number != 1)
      update.settings.emplace_back("first_step", number);
  }

  /// Optimizer state begins at zero, that of Adagrad at any one number.
  void addState(Update &update, const std::string &state, const std::string &weight) const {
    double value = values.stateOf(state, weight, update.where);
    if (value != 0 && update.kind != "adagrad")
      throw Error("training_info: " + update.where + ": the state '" + state + "' begins as " +
                  textOf(value) + ", expected 0");
    if (value != 0)
      update.settings.emplace_back("initial_accumulator", asWritten(static_cast<float>(value)));
  }

  /// Each weight and each of its states is a tensor of its own.
  void claim(const std::string &tensor, const std::string &role, const std::string &where) {
    auto [first, isNew] = roles.emplace(tensor, role);
    if (!isNew)
      throw Error("training_info: " + where + ": '" + tensor + "' is " + role + ", but also " +
                  first->second + "; expected a tensor of its own for each");
  }

  /// Whatever an optimizer's node updates has its next value from there.
  void checkAlone(const NodeProto &node) const {
    Operands operands = operandsOf(node);
    for (int weight = 0; weight < operands.weights; ++weight) {
      const std::string &name = node.input(operands.input(0, weight));
      auto update = info.updates.find(name);
      if (update != info.updates.end() && update->second != node.output(weight))
        throw Error(
            "training_info: " + describe(node) + ": updates '" + name + "', whose next value is '" +
            update->second +
            "' by its update_binding; expected one node that updates it, take the other out");
    }
  }

  /// w - rate * gradient.
  void readDescent(const NodeProto &node, const std::string &variable) {
    const NodeProto *product = values.producerOf(node.input(1)).node;
    if (!isPlain(product, "Mul", 2))
      throw Error("training_info: " + describe(node) + ": takes '" + node.input(1) + "' from '" +
                  variable + "'; expected rate * gradient");
    int gradient = gradients.contains(product->input(0)) ? 0 : 1;
    checkGradient(node, product->input(gradient), variable);
    Update update{"sgd", {}, 0, describe(node)};
    addRate(update, product->input(1 - gradient));
    updates.emplace(variable, std::move(update));
  }

  static std::string toText(const Update &update, std::optional<double> rate) {
    std::string text = update.kind + (rate ? ",lr=" + textOf(*rate) : "");
    for (const auto &[key, value] : update.settings)
      text += "," + key + "=" + textOf(value);
    return text;
  }

  /// pdc has one optimizer for all weights; only the decay may be left out for some, and the rate
  /// scaled.
  void joinUpdates() {
    const auto &[firstName, first] = *updates.begin();
    std::optional<double> rate = first.rate;
    double decay = 0;
    for (const auto &[name, update] : updates) {
      if (rate == 0)
        rate = update.rate; // that the others' are multiples of
      bool isSame = toText(update, {}) == toText(first, {}) &&
                    update.rate.has_value() == first.rate.has_value();
      bool isDecayed = update.decay != 0, differs = decay != 0 && update.decay != decay;
      if (!isSame || (isDecayed && differs))
        throw Error("training_info: " + update.where + " updates '" + name + "' by " +
                    toText(update, update.rate) + ", weight_decay=" + textOf(update.decay) +
                    " and " + first.where + " '" + firstName + "' by " + toText(first, first.rate) +
                    ", weight_decay=" + textOf(first.decay) +
                    "; expected one rule for all weights");
      decay = isDecayed ? update.decay : decay;
    }
    for (const auto &[name, update] : updates) {
      training.parameters.insert(name);
      if (decay != 0 && update.decay == 0)
        training.undecayed.insert(name);
      if (update.rate != rate)
        training.rateFactors[name] = *update.rate / *rate;
    }
    training.optimizer = toText(first, rate) + (decay != 0 ? ",weight_decay=" + textOf(decay) : "");
  }

  const TrainingInfo &info;
  const Model &model;
  TrainingValues values;
  std::vector<const NodeProto *> optimizers;
  std::map<std::string, std::string> gradients; ///< value -> of which variable
  std::map<std::string, std::string> roles;     ///< tensor -> which weight or state it is
  std::map<std::string, Update> updates;
  ModelTraining training;
};

} // namespace

ModelTraining readTraining(const TrainingInfo &info, const std::vector<FlatNode> &nodes,
                           const Model &model) {
  return TrainingReader(info, nodes, model).read();
}

void keepAncestors(std::vector<FlatNode> &nodes, std::set<std::string> values) {
  values = dependenciesOf(nodes, std::move(values));
  std::erase_if(nodes, [&](const FlatNode &node) {
    return std::ranges::none_of(node.proto.output(), [&](const std::string &output) {
      return !output.empty() && values.contains(output);
    });
  });
}

} // namespace pdc
