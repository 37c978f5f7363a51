#include "compiler/devices/Rules.h"
#include "runtime/kernels/Dimensions.h"

#include <algorithm>

namespace pdc {

namespace {

const Rule *findRule(std::string_view op, const DeviceOptions &options) {
  const std::vector<Rule> &own = options.kind == DeviceKind::cuda ? cudaRules() : processorRules();
  for (const std::vector<Rule> *rules : {&own, &sharedRules()})
    for (const Rule &rule : *rules)
      if (rule.op == op)
        return &rule;
  return nullptr;
}

bool contains(const std::vector<std::string_view> &ops, std::string_view op) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

OperatorClass classOf(std::string_view op) {
  const Operator *known = findOperator(op);
  return known ? known->kind : OperatorClass::reduction;
}

/// Epilogues have no kernels of their own; a prologue may have one.
const Rule *heroOf(const UnitReader &reader) {
  for (auto node = reader.nodes.rbegin(); node != reader.nodes.rend(); ++node)
    if (const Rule *rule = findRule((*node)->op, reader.options))
      return rule;
  return nullptr;
}

/// A unit with one node more, to ask about.
struct Extended {
  UnitView unit;
  Extended(const UnitView &before, const UnitNode &node) : unit(before) {
    unit.nodes.push_back(node);
  }
};

/// A bias behind a matrix product: one value per column of the result.
bool isColumnBias(const UnitReader &reader, const UnitNode &add) {
  const TensorType &y = add.outputs[0];
  if (add.inputs.size() != 2 || reader.node(0).outputs[0].shape != y.shape)
    return false;
  size_t side = add.inputs[0].kind == UnitValue::Kind::operand ? 0 : 1;
  return add.inputs[side].kind == UnitValue::Kind::operand && y.rank() >= 2 &&
         reader.inputType(add, side) == TensorType{y.element, {y.shape.back()}};
}

/// An image beside what the node before makes.
bool isAddend(const UnitReader &reader, const UnitNode &add) {
  auto isImage = [&](const UnitValue &value) { return *reader.unit.type(value) == add.outputs[0]; };
  auto isOperand = [](const UnitValue &value) { return value.kind == UnitValue::Kind::operand; };
  return add.inputs.size() == 2 && std::ranges::all_of(add.inputs, isImage) &&
         std::ranges::count_if(add.inputs, isOperand) == 1;
}

/// 16 bits to f32.
bool isWidening(const TensorType &from, const TensorType &to) {
  return bytesPerElement(from.element) == 2 && to.element == ElementType::f32;
}

} // namespace

bool isLoop(std::string_view op, const DeviceOptions &options) {
  return !findRule(op, options) && classOf(op) == OperatorClass::elementwise;
}

static KernelChoice chooseByRules(const UnitReader &reader) {
  if (reader.nodes.empty())
    reader.refuse("there is nothing to compute");
  if (isLoopOverParts(reader))
    return chooseLoopOverParts(reader);
  if (const Rule *rule = heroOf(reader))
    return rule->choose(reader);
  OperatorClass kind = classOf(reader.node(0).op);
  if (kind == OperatorClass::view)
    return chooseView(reader);
  if (kind == OperatorClass::elementwise)
    return chooseElementwise(reader);
  const bool isCpu = reader.options.kind == DeviceKind::cpu;
  reader.refuse((isCpu ? "the CPU has no kernel for operator "
                       : "the CUDA backend has no kernel for operator ") +
                std::string(reader.node(0).op) + (isCpu ? "" : "; pass --device cpu"));
}

/// The lists of most kernels have an entry per dimension.
static void checkDimensions(const UnitReader &reader, const KernelChoice &choice) {
  if (contains({"Broadcast", "Concat", "Split"}, choice.kernel))
    return;
  for (const auto &[name, value] : choice.fields)
    if (const auto *list = std::get_if<std::vector<int64_t>>(&value);
        list && list->size() > runtime::Dimensions::kMost)
      reader.refuse("kernel " + choice.kernel + " would walk over " + std::to_string(list->size()) +
                    " dimensions, and takes at most " + std::to_string(runtime::Dimensions::kMost) +
                    "; reshape the tensor");
}

KernelChoice chooseKernel(const UnitView &unit, const DeviceOptions &options) {
  UnitReader reader(unit, options);
  if (!reader.nodes.empty() && classOf(reader.node(0).op) != OperatorClass::view)
    checkNarrow(reader);
  KernelChoice choice = chooseByRules(reader);
  checkDimensions(reader, choice);
  if (options.kind == DeviceKind::cuda)
    choice.workspaceBytes = cudaWorkspaceBytes(choice);
  return choice;
}

bool isLoop(const UnitView &unit, const DeviceOptions &options) {
  UnitReader reader(unit, options);
  return std::ranges::all_of(reader.nodes, [&](const UnitNode *node) {
    return isLoop(node->op, options) && node->outputs.size() == 1 &&
           node->outputs[0].shape == reader.nodes[0]->outputs[0].shape;
  });
}

KernelChoice chooseLoop(const UnitView &unit) {
  const DeviceOptions options;
  return chooseElementwise(UnitReader(unit, options));
}

bool canAppend(const UnitView &unit, const UnitNode &node, const DeviceOptions &options) {
  UnitReader before(unit, options);
  if (before.nodes.empty() || classOf(node.op) != OperatorClass::elementwise)
    return false;
  const Rule *hero = heroOf(before);
  if (!hero) {
    Extended extended(unit, node);
    return isLoop(extended.unit, options);
  }
  if (!contains(hero->epilogues, node.op) || contains({"Cast", "Relu"}, before.nodes.back()->op))
    return false;
  if (node.op == "Cast") {
    const TensorType &from = before.nodes.back()->outputs[0], &to = node.outputs[0];
    return hero->rounds ? isWidening(to, from) : isWidening(from, to);
  }
  if (node.op != "Add")
    return true;
  Extended extended(unit, node);
  UnitReader after(extended.unit, options);
  if (hero->op != before.nodes.back()->op)
    return false;
  return hero->addsImages ? isAddend(after, *after.nodes.back())
                          : before.nodes.size() == 1 && isColumnBias(after, *after.nodes.back());
}

static DeviceOptions anyGpu() {
  DeviceOptions gpu;
  gpu.kind = DeviceKind::cuda;
  return gpu;
}

bool widensItself(std::string_view op) {
  const Rule *rule = findRule(op, anyGpu());
  return rule && contains(rule->prologues, "Cast");
}

bool takesAnyWidth(std::string_view op) {
  const DeviceOptions gpu = anyGpu();
  return isLoop(op, gpu) || classOf(op) == OperatorClass::view;
}

ElementType storedElement(Precision precision) {
  return precision == Precision::bf16   ? ElementType::bf16
         : precision == Precision::fp16 ? ElementType::f16
                                        : ElementType::f32;
}

bool canPrepend(const UnitView &unit, const UnitNode &node, const UnitNode &hero, int input,
                bool isKept, const DeviceOptions &options) {
  const Rule *rule = findRule(hero.op, options);
  if (!rule || input != rule->prologueInput || !contains(rule->prologues, node.op))
    return false;
  if (isKept || node.op == "Conv")
    return isKept && node.op == "Conv" && canSumChannels(unit, node, hero, options);
  auto isTerm = [&](const UnitValue &value) {
    return value.kind == UnitValue::Kind::operand && *unit.type(value) == node.outputs[0];
  };
  if (node.op == "Sum")
    return node.inputs.size() <= rule->mostTerms && std::ranges::all_of(node.inputs, isTerm);
  return node.op != "Cast" || isWidening(*unit.type(node.inputs.at(0)), node.outputs[0]);
}

} // namespace pdc
