#include "compiler/onnx/Conditions.h"

#include "compiler/onnx/EmbeddingBags.h"
#include "compiler/onnx/Loops.h"
#include "compiler/onnx/ReadNodes.h"
#include "compiler/onnx/ReadTraining.h"
#include "compiler/onnx/Sequences.h"
#include "compiler/onnx/ShapeWalk.h"

#include <algorithm>
#include <cmath>

namespace pdc {

/// Primes from 211 on: a condition that holds for them by chance is of a shape that nothing else in
/// the network has.
static std::map<std::string, int64_t> withNumbers(const Model &model,
                                                  std::map<std::string, int64_t> dimensions) {
  auto isPrime = [](int64_t n) {
    for (int64_t k = 2; k * k <= n; ++k)
      if (n % k == 0)
        return false;
    return true;
  };
  int64_t next = 211;
  for (const ModelValue &input : model.inputs)
    for (const Dimension &dimension : input.shape)
      if (!dimension.value && dimensions.emplace(dimension.symbol, next).second)
        for (++next; !isPrime(next);)
          ++next;
  return dimensions;
}

static bool hasFreeDimension(const Model &model, const std::map<std::string, int64_t> &dimensions) {
  for (const ModelValue &input : model.inputs)
    for (const Dimension &dimension : input.shape)
      if (!dimension.value && !dimensions.contains(dimension.symbol))
        return true;
  return false;
}

namespace {

/// Walks what the conditions depend on, in order. What cannot be read is unknown, and so is what is
/// made of it: it may stand in a branch that is not taken.
class ConditionWalk {
public:
  ConditionWalk(const std::vector<FlatNode> &nodes, Names &values, const ModelFolder &folder,
                const std::map<std::string, int64_t> &dimensions, const Model &model)
      : graph{{model.name, model.inputs, {}, {}, {}}, {}},
        binding(model, 0, withNumbers(model, dimensions)), reader(values, folder, graph.model),
        walk(graph.model, binding) {
    graph.model.producer = model.producer;
    for (const FlatNode &node : nodes) {
      if (node.selects)
        needed.insert(node.proto.input(0));
      if (node.body) // of which anything may decide how it ends
        needed.insert(node.proto.input().begin(), node.proto.input().end());
      if (const std::string *place = SequenceReplacement::placeOf(node.proto))
        needed.insert(*place);
    }
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
      if (isNeeded(*node))
        needed.insert(node->proto.input().begin(), node->proto.input().end());
    for (const auto &[name, initializer] : model.initializers)
      if (needed.contains(name))
        graph.model.initializers.emplace(name, withoutLargeElements(initializer));
  }

  bool isNeeded(const FlatNode &node) const {
    return std::ranges::any_of(node.proto.output(), [&](const std::string &output) {
      return !output.empty() && needed.contains(output);
    });
  }

  void add(FlatNode node) {
    std::string reason;
    for (const std::string &input : node.proto.input())
      if (auto found = unknown.find(input); found != unknown.end())
        reason = found->second;
    try {
      if (reason.empty())
        read(node);
    } catch (const Error &error) {
      reason = error.what();
    }
    if (!reason.empty())
      for (const std::string &output : node.proto.output())
        unknown[output] = reason;
  }

  /// What a value that decides about the node is; nothing where it is not known.
  std::optional<double> decide(const FlatNode &node, const std::string &name) {
    const std::string &condition = reader.resolve(name);
    if (!unknown.contains(condition))
      walk.typeOf(condition);
    const Tensor *value = walk.constantOf(condition);
    if (!value)
      return std::nullopt;
    if (value->data.size() != 1)
      throw Error(describe(node.proto) + ": its condition '" + condition + "' is " +
                  value->type.toString() + ", expected one element");
    graph.decisions.push_back({describe(node.proto), condition, value->data[0]});
    return graph.decisions.back().value;
  }

  /// Why nothing decides by the value, as a part of a sentence.
  std::string undecided(const std::string &condition) const {
    auto reason = unknown.find(condition);
    return "its condition '" + condition + "' is not decided by shapes and constants" +
           (reason == unknown.end() ? "" : " (" + reason->second + ")");
  }

  ConditionGraph graph;

private:
  void read(FlatNode &node) {
    const size_t before = graph.model.nodes.size();
    reader.read(node);
    try {
      for (size_t i = before; i < graph.model.nodes.size(); ++i)
        walk.add(graph.model.nodes[i]);
    } catch (const Error &) {
      graph.model.nodes.resize(before);
      throw;
    }
  }

  static Initializer withoutLargeElements(const Initializer &initializer) {
    constexpr int64_t most = 4096;
    if (initializer.type.elementCount() <= most)
      return initializer;
    Initializer place;
    place.name = initializer.name;
    place.type = initializer.type;
    place.fill = 0;
    return place;
  }

  Binding binding;
  NodeReader reader;
  ShapeWalk walk;
  std::set<std::string> needed;
  std::map<std::string, std::string> unknown; ///< value -> why
};

} // namespace

/// One Identity per output of the branch that is taken.
static std::vector<FlatNode> taken(const FlatNode &node, bool condition) {
  std::vector<FlatNode> copies;
  const int outputs = node.proto.output_size();
  for (int i = 0; i < outputs; ++i) {
    if (node.proto.output(i).empty())
      continue;
    FlatNode &copy = copies.emplace_back(FlatNode{{}, 14, node.stages});
    copy.proto.set_op_type("Identity");
    copy.proto.set_name(node.proto.name());
    copy.proto.add_input(node.proto.input(1 + i + (condition ? 0 : outputs)));
    copy.proto.add_output(node.proto.output(i));
  }
  return copies;
}

namespace {

class Decider {
public:
  Decider(ConditionWalk &walk, SequenceReplacement &sequences, Names &values, bool mayDepend)
      : walk(walk), sequences(sequences), values(values), mayDepend(mayDepend) {}

  /// `isNeeded` for a condition.
  void add(FlatNode node, bool isNeeded) {
    if (node.body && replaceLoop(node, isNeeded))
      return;
    if (node.selects)
      if (std::optional<double> condition = walk.decide(node, node.proto.input(0))) {
        for (FlatNode &copy : taken(node, *condition != 0))
          put(std::move(copy), isNeeded);
        return;
      }
    put(std::move(node), isNeeded);
  }

  /// Of a node that is needed, and that was left as it is.
  void expectDecided(const FlatNode &node) const {
    if (node.proto.output_size())
      if (auto failure = failures.find(node.proto.output(0)); failure != failures.end())
        throw Error(failure->second);
    if (!node.selects && !node.body)
      return;
    if (node.selects)
      throw Error(describe(node.proto) + ": " + walk.undecided(node.proto.input(0)) +
                  "; export the model with the branch that training takes");
    throw Error(describe(node.proto) + ": " + endless.at(&*node.body) +
                "; export the model with the loop written out, as tracing does");
  }

  std::vector<FlatNode> decided;

private:
  void put(FlatNode node, bool isNeeded) {
    auto known = [this](const FlatNode &reader, const std::string &name) {
      return walk.decide(reader, name);
    };
    std::vector<FlatNode> nodes;
    try {
      nodes = sequences.replace(node, known);
    } catch (const Error &error) {
      // In a branch that is not taken it does not matter.
      failures[node.proto.output(0)] = error.what();
      nodes.assign(1, std::move(node));
    }
    for (FlatNode &made : nodes) {
      if (isNeeded)
        walk.add(made);
      decided.push_back(std::move(made));
    }
  }

  /// Bags are kept whole, however many: their rows are found and reduced at once.
  bool keepBags(const FlatNode &loop, std::optional<EmbeddingBagLoop> found, bool isNeeded) {
    auto isThere = [&](const std::pair<std::string, double> &value) {
      try {
        return walk.decide(loop, value.first) == value.second;
      } catch (const Error &) {
        return false; // several elements
      }
    };
    if (!found || !std::ranges::all_of(found->expected, isThere) ||
        (!found->list.empty() && !sequences.isEmpty(found->list)))
      return false;
    for (FlatNode &node : found->nodes)
      put(std::move(node), isNeeded);
    if (!found->appended.empty())
      sequences.addRows(found->appended, found->bags);
    return true;
  }

  /// False where it is not known when it ends, which does not matter in a branch that is not taken.
  bool replaceLoop(const FlatNode &loop, bool isNeeded) {
    const size_t before = decided.size();
    try {
      auto known = [&](const std::string &name) { return walk.decide(loop, name); };
      if (!keepBags(loop, stackedBagsOf(loop), isNeeded) &&
          !keepBags(loop, appendedBagsOf(loop, known, values), isNeeded))
        repeat(loop);
      return true;
    } catch (const Error &error) {
      endless[&*loop.body] = error.what();
      decided.resize(before);
      return false;
    }
  }

  double known(const FlatNode &loop, const std::string &condition) {
    if (std::optional<double> value = walk.decide(loop, condition))
      return *value;
    throw Error(walk.undecided(condition));
  }

  static size_t sizeOf(const FlatNode &node) {
    size_t size = 1;
    if (node.body)
      for (const FlatNode &inner : node.body->nodes)
        size += sizeOf(inner);
    return size;
  }

  void repeat(const FlatNode &loop) {
    constexpr size_t most = 10000;
    const std::string &count = loop.proto.input(0), &first = loop.proto.input(1);
    const double times = count.empty() ? INFINITY : known(loop, count);
    bool goesOn = first.empty() || known(loop, first) != 0;
    LoopUnrolling unrolling(loop, values);
    for (double iteration = 0; goesOn && iteration < times; ++iteration) {
      for (FlatNode &node : unrolling.next()) {
        if ((repeated += sizeOf(node)) > most)
          throw Error("the model's loops are more than " + std::to_string(most) + " nodes" +
                      (mayDepend ? ", where dimensions that have names are taken to be large: give "
                                   "theirs with --bind"
                                 : ""));
        add(std::move(node), true);
      }
      goesOn = known(loop, unrolling.condition()) != 0;
    }
    for (FlatNode &node : unrolling.finish())
      add(std::move(node), true);
  }

  ConditionWalk &walk;
  SequenceReplacement &sequences;
  Names &values;
  const bool mayDepend; ///< on dimensions that have names
  size_t repeated = 0;
  std::map<const LoopBody *, std::string> endless; ///< why
  std::map<std::string, std::string> failures;     ///< why the node of this output stays
};

} // namespace

void decideConditions(std::vector<FlatNode> &nodes, Names &values, const ModelFolder &folder,
                      const std::map<std::string, int64_t> &dimensions,
                      SequenceReplacement &sequences, Model &model) {
  auto isOpen = [](const FlatNode &node) { return node.selects || node.body; };
  auto asks = [&](const FlatNode &node) {
    return isOpen(node) || SequenceReplacement::placeOf(node.proto);
  };
  std::set<std::string> wanted;
  for (const ModelValue &output : model.outputs)
    wanted.insert(output.name);
  if (std::ranges::none_of(nodes, asks)) {
    keepAncestors(nodes, wanted);
    std::vector<FlatNode> replaced;
    for (FlatNode &node : nodes)
      std::ranges::move(sequences.replace(std::move(node)), std::back_inserter(replaced));
    nodes = std::move(replaced);
    return;
  }
  // 1. What each If takes, and how often each Loop goes round.
  ConditionWalk walk(nodes, values, folder, dimensions, model);
  Decider decider(walk, sequences, values, hasFreeDimension(model, dimensions));
  for (FlatNode &node : nodes) {
    const bool isNeeded = walk.isNeeded(node);
    decider.add(std::move(node), isNeeded);
  }
  nodes = std::move(decider.decided);

  // 2. What nobody needs then.
  keepAncestors(nodes, wanted);
  for (const FlatNode &node : nodes)
    decider.expectDecided(node);

  // 3. What may come out otherwise when the dimensions are known.
  if (hasFreeDimension(model, dimensions))
    model.conditions = std::make_shared<const ConditionGraph>(std::move(walk.graph));
}

/// Nothing where it is not known what the condition is now.
static std::optional<bool> stillHolds(const ConditionGraph::Decision &decision, ShapeWalk &walk) {
  try {
    walk.typeOf(decision.condition);
  } catch (const Error &) {
    return std::nullopt;
  }
  const Tensor *value = walk.constantOf(decision.condition);
  return value && value->data.at(0) == decision.value;
}

void checkConditions(const Model &model, const Binding &binding) {
  if (!model.conditions)
    return;
  ShapeWalk walk(model.conditions->model, binding);
  std::optional<Error> failure;
  for (const ModelNode &node : model.conditions->model.nodes)
    try {
      walk.add(node);
    } catch (const Error &error) {
      // Behind a decision that would be another one now, shapes need not fit.
      failure = error;
      break;
    }
  for (const ConditionGraph::Decision &decision : model.conditions->decisions)
    if (stillHolds(decision, walk) == false)
      throw Error(decision.node + ": its condition '" + decision.condition +
                  "' depends on a dimension that has a name; write its number into the file, or "
                  "give it with --bind");
  if (failure)
    throw *failure;
}

} // namespace pdc
