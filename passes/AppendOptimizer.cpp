#include "passes/Nodes.h"
#include "passes/OptimizerSpec.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/GlobPattern.h"

#include <array>
#include <charconv>
#include <deque>
#include <map>

namespace pdc {
#define GEN_PASS_DEF_APPENDOPTIMIZER
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// How @train reads a weight.
struct WeightReads {
  /// One of its reads, all of which give the value before the update.
  Value value;
  NodeOp firstReader;
};

/// A weight that is trained, with what the update needs of it.
struct TrainedWeight {
  MemoryOp memory;
  Value value;
  /// The sums of its gradients, one per use, in order.
  SmallVector<MemoryOp> gradients;
  /// The forward node that reads it first: the update is planned with it.
  NodeOp firstReader;
  Value learningRate;
};

/// Patterns of weights that an option has, each with a number.
class WeightPatterns {
public:
  explicit WeightPatterns(StringRef option) : option(option) {}

  void add(StringRef pattern, double number) {
    Pattern &added = patterns.emplace_back(Pattern{pattern.str(), {}, number, false});
    auto glob = llvm::GlobPattern::create(added.text);
    if (!glob)
      throw Error("pattern '" + added.text + "' of " + option.str() + ": " +
                  llvm::toString(glob.takeError()));
    added.glob = std::move(*glob);
  }
  /// The number of the last pattern that matches the weight.
  double numberOf(StringRef weight, double otherwise) {
    double number = otherwise;
    for (Pattern &pattern : patterns)
      if (pattern.glob.match(weight)) {
        number = pattern.number;
        pattern.used = true;
      }
    return number;
  }
  /// Throws Error for a pattern that no weight had: most likely a misspelled name.
  void checkAllUsed() const {
    for (const Pattern &pattern : patterns)
      if (!pattern.used)
        throw Error("pattern '" + pattern.text + "' of " + option.str() +
                    " matches no trained weight");
  }

private:
  struct Pattern {
    std::string text;
    llvm::GlobPattern glob; ///< refers to the text
    double number;
    bool used;
  };
  StringRef option;
  std::deque<Pattern> patterns; ///< whose texts stay where they are
};

class Updates {
public:
  Updates(func::FuncOp train, const OptimizerSpec &spec, WeightPatterns &decays,
          WeightPatterns &rateFactors)
      : train(train), module(train->getParentOfType<ModuleOp>()), symbols(module), names(train),
        builder(train.getBody().front().getTerminator()), spec(spec), decays(decays),
        rateFactors(rateFactors) {
    if (auto states = module->getAttrOfType<ArrayAttr>("pdc.stored_states"))
      for (auto state : states.getAsRange<StringAttr>())
        stored.insert(state.getValue());
  }

  void append() {
    SmallVector<TrainedWeight> weights = findWeights();
    if (weights.empty())
      throw Error("@train has no weight with a gradient; run differentiate first");
    scale = readInput("pdc.gradient_scale");
    for (TrainedWeight &weight : weights)
      weight.learningRate = learningRateOf(weight.memory.getSymName());
    if (spec.readsStep())
      step = readInput("pdc.step");
    for (TrainedWeight &weight : weights)
      update(weight);
    checkStoredUsed(weights);
  }

private:
  SmallVector<TrainedWeight> findWeights();
  llvm::StringMap<WeightReads> findReads();
  Value readInput(StringRef name, mlir::Attribute initial = {});
  Value learningRateOf(StringRef weight);
  Value gradient(TrainedWeight &weight);
  MemoryOp addState(MemoryOp weight, StringRef state, Operation *after);
  void update(TrainedWeight &weight);
  Value goAlong(const TrainedWeight &weight, Value direction);
  void checkStoredUsed(ArrayRef<TrainedWeight> weights);

  func::FuncOp train;
  ModuleOp module;
  SymbolTable symbols;
  NodeNames names;
  OpBuilder builder;
  const OptimizerSpec &spec;
  WeightPatterns &decays, &rateFactors;
  llvm::StringSet<> stored; ///< states that the weights file has
  llvm::StringSet<> used;   ///< those of them that updates read
  Value scale, step;
  std::map<double, Value> learningRates; ///< by factor
};

SmallVector<TrainedWeight> Updates::findWeights() {
  SmallVector<TrainedWeight> weights;
  llvm::StringMap<WeightReads> reads = findReads();
  for (auto memory : module.getOps<MemoryOp>()) {
    if (memory.getRole() != Role::Weight)
      continue;
    auto [value, firstReader] = reads.lookup(memory.getSymName());
    TrainedWeight weight{memory, value, {}, firstReader, {}};
    while (auto sum = symbols.lookup<MemoryOp>(
               gradientName(memory.getSymName(), weight.gradients.size())))
      weight.gradients.push_back(sum);
    if (!weight.gradients.empty() && !weight.firstReader)
      throw Error("memory '" + memory.getSymName().str() +
                  "' has a gradient, but no node of @train reads it");
    if (weight.gradients.empty())
      memory.emitWarning() << "no gradient reaches weight '" << memory.getSymName()
                           << "'; it keeps its value";
    else
      weights.push_back(weight);
  }
  return weights;
}

/// By weight.
llvm::StringMap<WeightReads> Updates::findReads() {
  llvm::StringMap<WeightReads> reads;
  for (auto read : train.getOps<WeightVersionOp>()) {
    auto &[value, first] = reads.try_emplace(read.getMemory(), WeightReads{read, {}}).first->second;
    for (Operation *user : read->getUsers())
      if (auto node = dyn_cast<NodeOp>(user); node && (!first || node->isBeforeInBlock(first)))
        first = node;
  }
  return reads;
}

/// One of pdc's own scalars, which the runtime writes before each update.
Value Updates::readInput(StringRef name, mlir::Attribute initial) {
  auto type = RankedTensorType::get({}, builder.getF32Type());
  Operation *known = symbols.lookup(name);
  if (known && (!isa<MemoryOp>(known) || cast<MemoryOp>(known).getType() != type))
    throw Error("'" + name.str() + "' is there already and no scalar f32 memory");
  if (!known) {
    OpBuilder outside(module.getBodyRegion());
    outside.setInsertionPoint(train);
    createMemory(symbols, outside, module.getLoc(), name, Role::Input, Rate::Update, type, initial);
  }
  return builder.create<ReadOp>(train.getLoc(), type, name);
}

/// One input for all weights of a factor: the runtime multiplies.
Value Updates::learningRateOf(StringRef weight) {
  const double factor = rateFactors.numberOf(weight, 1);
  Value &rate = learningRates[factor];
  if (!rate && factor == 1)
    rate = readInput("pdc.learning_rate");
  if (!rate) {
    std::array<char, 32> shortest;
    char *end = std::to_chars(shortest.begin(), shortest.end(), factor).ptr;
    rate = readInput("pdc.learning_rate.times_" + std::string(shortest.begin(), end),
                     builder.getF64FloatAttr(factor));
  }
  return rate;
}

Value Updates::gradient(TrainedWeight &weight) {
  SmallVector<Value> sums;
  for (MemoryOp memory : weight.gradients)
    sums.push_back(builder.create<ReadOp>(memory.getLoc(), memory.getType(), memory.getSymName()));
  if (sums.size() == 1)
    return sums.front();
  std::string name = names.unique(weight.memory.getSymName() + "/gradient/sum");
  return createNode(builder, weight.memory.getLoc(), "Sum", name, sums, {},
                    weight.firstReader.getName())
      .getResult(0);
}

MemoryOp Updates::addState(MemoryOp weight, StringRef state, Operation *after) {
  OpBuilder outside(module.getBodyRegion());
  outside.setInsertionPointAfter(after);
  std::string name = (weight.getSymName() + "/" + state).str();
  mlir::Attribute initial = builder.getF64FloatAttr(spec.initialState);
  if (stored.contains(name)) {
    initial = builder.getStringAttr("file");
    used.insert(name);
  }
  return createMemory(symbols, outside, weight.getLoc(), name, Role::Optimizer, Rate::Update,
                      weight.getType(), initial);
}

/// The next weight, from the one before it and the direction that it takes.
Value Updates::goAlong(const TrainedWeight &weight, Value direction) {
  MemoryOp memory = weight.memory;
  Value old = weight.value;
  StringRef origin = NodeOp(weight.firstReader).getName();
  auto node = [&](StringRef op, StringRef suffix, ValueRange operands,
                  const Attributes &attributes = {}) -> Value {
    return createNode(builder, memory.getLoc(), op,
                      names.unique((memory.getSymName() + suffix).str()), operands, attributes,
                      origin)
        .getResult(0);
  };
  auto sumOfSquares = [&](StringRef of, Value value) {
    Value squares = node("Mul", (of + "/squares").str(), {value, value});
    return node("ReduceSum", (of + "/square").str(), squares, {{"keepdims", int64_t(0)}});
  };
  Value length = sumOfSquares("/update", old), reach = sumOfSquares("/update/direction", direction);
  return node("LambUpdate", "/update/scaled", {old, direction, weight.learningRate, length, reach});
}

/// New weight and new state from the old ones and the gradient.
void Updates::update(TrainedWeight &weight) {
  Location location = weight.memory.getLoc();
  StringRef name = weight.memory.getSymName();
  SmallVector<Value> operands{weight.value, gradient(weight)};
  SmallVector<MemoryOp> states;
  for (const std::string &state : spec.states)
    states.push_back(
        addState(weight.memory, state, states.empty() ? weight.gradients.back() : states.back()));
  for (MemoryOp state : states)
    operands.push_back(builder.create<ReadOp>(location, state.getType(), state.getSymName()));
  operands.append({scale, weight.learningRate});
  if (step)
    operands.push_back(step);

  Attributes attributes = spec.attributes;
  attributes.set("weight_decay", decays.numberOf(name, spec.weightDecay));
  NodeOp node = createNode(builder, location, spec.op, names.unique(name + "/update"), operands,
                           attributes, weight.firstReader.getName(), 1 + states.size());
  Value next = spec.scalesByNorms ? goAlong(weight, node.getResult(0)) : node.getResult(0);
  builder.create<CommitOp>(location, next, name);
  for (auto [i, state] : llvm::enumerate(states))
    builder.create<WriteOp>(location, node.getResult(i + 1), state.getSymName());
}

/// Throws Error for a stored state that no update begins with; those of frozen weights may be
/// there.
void Updates::checkStoredUsed(ArrayRef<TrainedWeight> weights) {
  for (const auto &entry : stored) {
    StringRef name = entry.getKey();
    if (used.contains(name))
      continue;
    StringRef weight = name.rsplit('/').first;
    const bool isTrained = any_of(weights, [&](const TrainedWeight &trained) {
      return MemoryOp(trained.memory).getSymName() == weight;
    });
    if (isTrained || !symbols.lookup<MemoryOp>(weight))
      throw Error("the weights file has optimizer state '" + name.str() + "', but " +
                  (isTrained ? "the optimizer has no such state" : "there is no such weight") +
                  "; give --optimizer to begin its states anew");
  }
}

struct AppendOptimizer : pdc::impl::AppendOptimizerBase<AppendOptimizer> {
  using AppendOptimizerBase::AppendOptimizerBase;

  void runOnOperation() override {
    auto body = [&] {
      append();
      return success();
    };
    if (failed(runChecked(getOperation(), body)))
      signalPassFailure();
  }

private:
  void append() {
    ModuleOp module = getOperation();
    auto train = module.lookupSymbol<func::FuncOp>("train");
    if (!train)
      throw Error("the module has no function @train to update weights in");
    OptimizerSpec spec = parseOptimizer(optimizer.getValue());
    WeightPatterns decays("no-decay"), rateFactors("lr-scale");
    for (const std::string &pattern : noDecay)
      decays.add(pattern, 0);
    for (const std::string &text : lrScale) {
      ScaledRate scaled = parseScaledRate(text);
      rateFactors.add(scaled.pattern, scaled.factor);
    }
    Updates(train, spec, decays, rateFactors).append();
    decays.checkAllUsed();
    rateFactors.checkAllUsed();
    module->removeAttr("pdc.stored_states");
    // What a run starts from when its command line says nothing else.
    module->setAttr("pdc.learning_rate", Builder(module).getF64FloatAttr(spec.learningRate));
  }
};

} // namespace
