#include "compiler/onnx/Import.h"

#include "compiler/ir/Conversion.h"
#include "compiler/onnx/Conditions.h"
#include "compiler/onnx/ImportFunction.h"
#include "compiler/onnx/Normalisations.h"
#include "compiler/onnx/Shapes.h"
#include "compiler/operators/Random.h"

#include <algorithm>
#include <map>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

namespace {

class Importer {
public:
  Importer(MLIRContext &context, const Model &model, const ImportOptions &options)
      : model(model), binding(model, options.microbatchSize, options.dimensions),
        loss(chooseLoss(model, options.loss)),
        parameters(chooseParameters(model, loss, options.parameters)),
        frozen(untrainedNormalisations(model, options.parameters.freeze)),
        statistics(runningStatistics(model, frozen)), nodes(nodesOfLoss(model, loss)),
        builder(&context) {
    checkConditions(model, binding);
    splitPositions();
  }

  /// Of the forward pass alone.
  Importer(MLIRContext &context, const Model &model)
      : model(model), binding(model, 0, {}), loss{.kind = LossKind::none},
        statistics(runningStatistics(model)), nodes(nodesOfLoss(model, loss)), builder(&context) {}

  OwningOpRef<ModuleOp> run() {
    OwningOpRef<ModuleOp> module = makeModule();
    addInputs();
    addLabels();
    addTensors();
    addRandom();
    addPresentSamples();
    addMetrics();
    addStates(*module);
    addEntry("train", Entry::train);
    addEntry("evaluate", Entry::evaluate);
    return module;
  }

  OwningOpRef<ModuleOp> runForward() {
    OwningOpRef<ModuleOp> module = makeModule();
    addInputs();
    addTensors();
    addOutputs();
    // Without an input that has dimensions: what there is counts as one sample.
    if (binding.microbatchSize() < 1)
      (*module)->setAttr("pdc.microbatch_size", builder.getI64IntegerAttr(1));
    addEntry("train", Entry::forward);
    return module;
  }

private:
  OwningOpRef<ModuleOp> makeModule() {
    OwningOpRef<ModuleOp> module = ModuleOp::create(locationOf(model.name));
    (*module)->setAttr("pdc.model", builder.getStringAttr(model.name));
    (*module)->setAttr("pdc.microbatch_size", builder.getI64IntegerAttr(binding.microbatchSize()));
    builder.setInsertionPointToEnd(module->getBody());
    return module;
  }

  Location locationOf(const std::string &name) { return NameLoc::get(builder.getStringAttr(name)); }

  void addMemory(const std::string &name, Role role, Rate rate, const TensorType &type,
                 mlir::Attribute initial = {}) {
    MLIRContext *context = builder.getContext();
    if (!names.insert(name))
      throw Error("'" + name +
                  "': this name is needed for something of pdc's own; rename the tensor");
    NamedAttrList attributes;
    attributes.append("sym_name", builder.getStringAttr(name));
    attributes.append("role", RoleAttr::get(context, role));
    attributes.append("rate", RateAttr::get(context, rate));
    attributes.append("type", TypeAttr::get(toMlir(context, type)));
    if (initial)
      attributes.append("initial", initial);
    builder.create<MemoryOp>(locationOf(name), TypeRange(), ValueRange(), attributes.getAttrs());
  }

  bool isUsed(const std::string &name) {
    if (name == loss.labels || name == loss.prediction || name == loss.classWeights)
      return true;
    for (const ModelNode *node : nodes)
      if (std::find(node->inputs.begin(), node->inputs.end(), name) != node->inputs.end())
        return true;
    return false;
  }

  /// Labels of scores [samples * positions, classes] are given as [samples, positions], and made
  /// rows in the graph as scores were.
  void splitPositions() {
    const auto *input = inputNamed(loss.labels);
    const bool isReadElsewhere = std::ranges::any_of(nodes, [&](const ModelNode *node) {
      return std::ranges::count(node->inputs, loss.labels) > 0;
    });
    if (!hasClasses(loss) || loss.classesLast || isReadElsewhere ||
        (!input && isValueOfGraph(model, loss.labels)))
      return;
    positions = positionsOfRows(model, binding, nodes, loss.prediction);
    loss.classesLast = !positions.empty();
  }

  const ModelValue *inputNamed(const std::string &name) const {
    auto found = std::ranges::find(model.inputs, name, &ModelValue::name);
    return found == model.inputs.end() ? nullptr : &*found;
  }

  TensorType typeOf(const ModelValue &input) const {
    if (input.name != loss.labels)
      return binding.typeOf(input);
    if (!positions.empty())
      return {input.element, positions};
    auto isKnown = [this](const Dimension &dimension) { return binding.knows(dimension); };
    if (std::ranges::all_of(input.shape, isKnown))
      return binding.typeOf(input);
    const TensorType scores = typeOfValue(model, binding, nodes, loss.prediction);
    const std::vector<int64_t> shape = labelShape(scores);
    // Rows of other things than samples may be as many as labels for another reason.
    const bool isOfSamples = scores.rank() > 0 && scores.shape[0] == binding.microbatchSize();
    return isOfSamples && shape.size() == input.shape.size() ? TensorType{input.element, shape}
                                                             : binding.typeOf(input);
  }

  /// One label for each position, or one for each score where the loss has no classes.
  std::vector<int64_t> labelShape(const TensorType &scores) const {
    std::vector<int64_t> shape = scores.shape;
    if (hasClasses(loss) && scores.rank() > 1)
      shape.erase(loss.classesLast ? shape.end() - 1 : shape.begin() + 1);
    return shape;
  }

  /// Samples that pad a batch have labels that the loss ignores.
  mlir::Attribute paddingLabel() {
    return builder.getF64FloatAttr(static_cast<double>(loss.ignoreIndex));
  }

  void addInputs() {
    std::set<std::string> labels = labelInputs(model, loss);
    for (const ModelValue &input : model.inputs) {
      if (!isUsed(input.name))
        continue;
      if (input.name.starts_with("pdc.") || input.name.find('=') != std::string::npos)
        throw Error("input '" + input.name +
                    "': no data could be given to it by that name; rename it so that it does not "
                    "begin with 'pdc.' and holds no '='");
      addInput(input, labels.contains(input.name));
    }
  }

  /// What has no rows of samples is the same for all of them. `isLabels`: the labels, or what the
  /// model makes them of.
  void addInput(const ModelValue &input, bool isLabels) {
    const TensorType type = typeOf(input);
    const bool isGiven = input.name == loss.labels;
    const bool isOfSamples = isGiven ? type.rank() > 0 && type.shape[0] == binding.microbatchSize()
                                     : binding.isOfSamples(input, type);
    if (isGiven && !isOfSamples)
      throw Error("labels '" + input.name + "' " + type.toString() +
                  ": the first dimension is not the " + std::to_string(binding.microbatchSize()) +
                  " samples of a microbatch; give them one row for each sample where the model is "
                  "exported");
    // The forward pass alone has no other samples.
    const bool isShared = !isOfSamples && loss.kind != LossKind::none;
    addMemory(input.name, Role::Input, isShared ? Rate::Once : Rate::Microbatch, type,
              isLabels && isOfSamples ? paddingLabel() : mlir::Attribute());
  }

  void addOutputs() {
    for (const ModelValue &output : model.outputs)
      addMemory(forwardOutput(output.name), Role::State, Rate::Microbatch,
                typeOfValue(model, binding, nodes, output.name));
  }

  /// Labels that the graph has no input for.
  void addLabels() {
    if (loss.kind == LossKind::output)
      return;
    TensorType scores = typeOfValue(model, binding, nodes, loss.prediction);
    if (scores.elementCount() == 0)
      throw Error("loss: '" + loss.prediction + "' is " + scores.toString() +
                  " and has no element to train on; look for an empty slice before it");
    if (isValueOfGraph(model, loss.labels))
      return;
    TensorType type{hasClasses(loss) ? ElementType::i64 : ElementType::f32,
                    positions.empty() ? labelShape(scores) : positions};
    addMemory(loss.labels, Role::Input, Rate::Microbatch, type,
              hasClasses(loss) ? paddingLabel() : mlir::Attribute());
  }

  /// Floating-point initializers in the order in which they are read. Integers, and what must be known
  /// at compile time, become constants of the graph, and Dropout's ratio an attribute.
  void addTensors() {
    std::set<std::string> computed = computedAtCompileTime();
    for (const ModelNode *node : nodes)
      for (size_t i = 0; i < node->inputs.size(); ++i)
        if (!isAskedFor(*node, i) && !computed.contains(node->inputs[i]) &&
            !mayBeLeftOut(*node, i))
          addTensor(node->inputs[i]);
    addTensor(loss.classWeights);
  }

  /// Literals that lead to what operators ask for, such as the scales of a Resize that are a Concat.
  /// A shape is known without the values of its tensor.
  std::set<std::string> computedAtCompileTime() {
    std::set<std::string> wanted, literals;
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      const bool isWanted = (*node)->op != "Shape" && (*node)->op != "Size" &&
                            std::ranges::any_of((*node)->outputs, [&](const std::string &output) {
                              return wanted.contains(output);
                            });
      for (size_t i = 0; i < (*node)->inputs.size(); ++i)
        if (isWanted || isAskedFor(**node, i))
          wanted.insert((*node)->inputs[i]);
    }
    for (const auto &[name, initializer] : model.initializers)
      if (initializer.literal && wanted.contains(name) && !parameters.contains(name))
        literals.insert(name);
    return literals;
  }

  /// PyTorch's exporters write ones and zeros where a normalisation neither scales nor shifts:
  /// constants of the graph, so that this is seen.
  bool mayBeLeftOut(const ModelNode &node, size_t operand) const {
    if (node.op != "InstanceNormalization" || operand == 0)
      return false;
    auto found = model.initializers.find(node.inputs[operand]);
    return found != model.initializers.end() && found->second.literal &&
           !parameters.contains(found->first);
  }

  /// Single numbers of the file become constants of the graph: patterns see them, and loops hold
  /// them.
  bool isNumber(const Initializer &initializer) const {
    return initializer.type.elementCount() == 1 && !parameters.contains(initializer.name) &&
           !statistics.contains(initializer.name) && isWrittenNumber(model, initializer);
  }

  /// So do flags and masks, so that attention knows what they let be seen.
  bool isMask(const Initializer &initializer) {
    auto [known, isNew] = masks.try_emplace(initializer.name, false);
    if (isNew) // layers share masks, which are large
      known->second = !parameters.contains(initializer.name) &&
                      !statistics.contains(initializer.name) &&
                      kindOfMask(initializer) != MaskKind::none;
    return known->second;
  }

  void addTensor(const std::string &name) {
    auto found = model.initializers.find(name);
    if (found == model.initializers.end() || names.contains(name) ||
        !isFloatingPoint(found->second.type.element) || isNumber(found->second) ||
        isMask(found->second))
      return;
    const Initializer &initializer = found->second;
    if (parameters.contains(name))
      addMemory(name, Role::Weight, Rate::Version, initializer.type, initialOf(initializer));
    else if (statistics.contains(name))
      addMemory(name, Role::State, Rate::Microbatch, initializer.type, initialOf(initializer));
    else
      addMemory(name, Role::Constant, Rate::Once, initializer.type, initialOf(initializer));
  }

  /// The number that fills it, or "file".
  mlir::Attribute initialOf(const Initializer &initializer) {
    if (initializer.fill)
      return builder.getF64FloatAttr(*initializer.fill);

    return builder.getStringAttr("file");
  }

  void addRandom() {
    auto draws = [](const ModelNode *node) { return drawsNumbers(node->op); };
    if (std::any_of(nodes.begin(), nodes.end(), draws))
      addMemory("pdc.random", Role::Input, Rate::Microbatch,
                {ElementType::i64, {2 + binding.microbatchSize()}});
  }

  /// Only where a loss has no label that it ignores, and the labels are given: others need not be
  /// those of one sample after the other.
  void addPresentSamples() {
    const auto *input = inputNamed(loss.labels);
    if (loss.kind == LossKind::output || hasClasses(loss) ||
        (!input && isValueOfGraph(model, loss.labels)))
      return;
    const TensorType labels =
        input ? typeOf(*input) : typeOfValue(model, binding, nodes, loss.prediction);
    if (labels.rank() == 0 || labels.shape[0] != binding.microbatchSize())
      return;
    TensorType type{ElementType::i64, std::vector<int64_t>(labels.shape.size(), 1)};
    type.shape[0] = labels.shape[0];
    addMemory(kPresentSamples, Role::Input, Rate::Microbatch, type);
  }

  /// Memories for them are made with the updates.
  void addStates(ModuleOp module) {
    if (!model.training || model.training->states.empty())
      return;
    SmallVector<mlir::Attribute> states;
    for (const auto &[name, state] : model.training->states)
      states.push_back(builder.getStringAttr(name));
    module->setAttr("pdc.stored_states", builder.getArrayAttr(states));
  }

  void addMetrics() {
    std::vector<std::string> metrics = {"pdc.loss", "pdc.loss_weight", "pdc.evaluation_loss",
                                        "pdc.evaluation_loss_weight"};
    if (hasClasses(loss))
      metrics.push_back("pdc.evaluation_correct");
    if (!loss.classWeights.empty())
      metrics.push_back("pdc.evaluation_predictions");
    for (const std::string &metric : metrics)
      addMemory(metric, Role::Metric, Rate::Update, {ElementType::f32, {}});
  }

  void addEntry(const std::string &name, Entry entry) {
    if (!names.insert(name))
      throw Error("'" + name +
                  "': this name is needed for something of pdc's own; rename the tensor");
    auto function =
        builder.create<func::FuncOp>(locationOf(name), name, builder.getFunctionType({}, {}));
    OpBuilder body = OpBuilder::atBlockEnd(function.addEntryBlock());
    body.create<func::ReturnOp>(function.getLoc());
    FunctionImporter(function, model, loss, entry, frozen).run();
  }

  const Model &model;
  Binding binding;
  Loss loss;
  std::vector<int64_t> positions; ///< [samples, positions...] where the loss reads rows of them
  std::set<std::string> parameters;
  std::set<std::string> frozen;      ///< nodes that training leaves their statistics
  std::set<std::string> statistics;  ///< of the others
  std::map<std::string, bool> masks; ///< initializers that were looked at
  std::vector<const ModelNode *> nodes;
  OpBuilder builder;
  Names names;
};

} // namespace

OwningOpRef<ModuleOp> importModel(MLIRContext &context, const Model &model,
                                  const ImportOptions &options) {
  context.loadDialect<PdcDialect, func::FuncDialect>();
  return Importer(context, model, options).run();
}

OwningOpRef<ModuleOp> importForward(MLIRContext &context, const Model &model) {
  context.loadDialect<PdcDialect, func::FuncDialect>();
  return Importer(context, model).runForward();
}

std::string forwardOutput(const std::string &output) { return "output " + output; }

} // namespace pdc
