#include "compiler/onnx/Binding.h"

#include "compiler/operators/TensorSize.h"

namespace pdc {

/// Of a first dimension that the user has given no name, for which exporters draw one for each
/// input anew: PyTorch's s17 (Dim.DYNAMIC) and, where dynamic_axes lists numbers alone,
/// x_dynamic_axes_1; tf2onnx's unk__6. Where the file has none at all it is x_dim0.
static bool isDrawnName(const ModelValue &input) {
  const std::string &name = input.shape[0].symbol;
  auto isNumberBehind = [&](std::string_view beginning) {
    return name.starts_with(beginning) && name.size() > beginning.size() &&
           name.find_first_not_of("0123456789", beginning.size()) == std::string::npos;
  };
  return isNumberBehind("s") || isNumberBehind("unk__") ||
         isNumberBehind(input.name + "_dynamic_axes_") || name == unnamedDimension(input.name, 0);
}

/// Beside an input of one row, which all samples may share, a name that the user gave counts them;
/// beside one of more that name may be of something else, as of all positions of some samples.
static const Dimension *batchDimension(const Model &model) {
  const Dimension *first = nullptr;
  for (const ModelValue &input : model.inputs) {
    if (input.shape.empty())
      continue;
    const Dimension &dimension = input.shape[0];
    if (!first)
      first = &dimension;
    if (first->value == 1 && !dimension.value && !isDrawnName(input))
      return &dimension;
  }
  return first;
}

std::optional<int64_t> fixedMicrobatchSize(const Model &model,
                                           const std::map<std::string, int64_t> &bound) {
  const Dimension *dimension = batchDimension(model);
  if (!dimension)
    return 1;
  auto number = bound.find(dimension->symbol);
  return dimension->value || number == bound.end() ? dimension->value : number->second;
}

static void checkNames(const Model &model, const std::map<std::string, int64_t> &dimensions) {
  for (const auto &[symbol, number] : dimensions) {
    Model copy{model.name, model.inputs, model.outputs, {}, {}};
    bindDimension(copy, symbol, number);
  }
}

namespace {

/// A dimension of a node's first operand, behind its first one, and the size that a weight gives
/// it.
struct SummedDimension {
  size_t index = 0;
  int64_t size = 0;
};

std::optional<SummedDimension> summedDimension(const ModelNode &node, size_t rank,
                                               const std::vector<int64_t> &weight) {
  if (node.op == "Gemm" && rank == 2 && weight.size() == 2 && !node.attributes.integer("transA", 0))
    return SummedDimension{1, weight[node.attributes.integer("transB", 0) ? 1 : 0]};
  if (node.op == "MatMul" && rank > 1 && !weight.empty())
    return SummedDimension{rank - 1, weight[weight.size() == 1 ? 0 : weight.size() - 2]};
  if (node.op == "Conv" && rank > 2 && weight.size() == rank &&
      node.attributes.integer("group", 1) == 1)
    return SummedDimension{1, weight[1]};
  return std::nullopt;
}

/// Named dimensions that a weight beside an input leaves one size.
std::map<std::string, int64_t> sizesByWeights(const Model &model) {
  std::map<std::string_view, const ModelValue *> inputs;
  for (const ModelValue &input : model.inputs)
    inputs[input.name] = &input;
  std::map<std::string, int64_t> sizes;
  for (const ModelNode &node : model.nodes) {
    if (node.inputs.size() < 2)
      continue;
    auto input = inputs.find(node.inputs[0]);
    auto weight = model.initializers.find(node.inputs[1]);
    if (input == inputs.end() || weight == model.initializers.end())
      continue;
    const std::vector<Dimension> &shape = input->second->shape;
    if (auto summed = summedDimension(node, shape.size(), weight->second.type.shape))
      if (!shape[summed->index].value)
        sizes.emplace(shape[summed->index].symbol, summed->size);
  }
  return sizes;
}

} // namespace

Binding::Binding(const Model &model, int64_t microbatchSize,
                 const std::map<std::string, int64_t> &dimensions)
    : numbers(dimensions) {
  checkNames(model, dimensions);
  numbers.merge(sizesByWeights(model));
  const Dimension *dimension = batchDimension(model);
  if (!dimension || dimension->value) {
    batch = dimension ? *dimension->value : 1;
    if (microbatchSize && microbatchSize != batch)
      throw Error(model.name + ": a microbatch has " + std::to_string(batch) +
                  " samples in the file and cannot have " + std::to_string(microbatchSize) +
                  "; export the model with a named first dimension");
    bindSamples(model);
    return;
  }
  if (microbatchSize)
    numbers[dimension->symbol] = microbatchSize;
  auto number = numbers.find(dimension->symbol);
  if (number == numbers.end())
    throw Error(model.name + ": the first dimension '" + dimension->symbol +
                "' of the inputs has no size; give the samples per update, as in --minibatch 64");
  batch = number->second;
  batchNames.insert(dimension->symbol);
  bindSamples(model);
}

void Binding::bindSamples(const Model &model) {
  // A name that also stands elsewhere counts something else.
  std::set<std::string> others;
  for (const ModelValue &input : model.inputs)
    for (size_t d = 1; d < input.shape.size(); ++d)
      others.insert(input.shape[d].symbol);
  for (const ModelValue &input : model.inputs) {
    if (input.shape.empty() || !isDrawnName(input))
      continue;
    const std::string &name = input.shape[0].symbol;
    if (!others.contains(name) && numbers.emplace(name, batch).second && !batchNames.empty())
      batchNames.insert(name);
  }
}

std::optional<Binding> Binding::withAnotherSample() const {
  if (batchNames.empty())
    return std::nullopt;
  Binding another = *this;
  ++another.batch;
  for (const std::string &name : batchNames)
    another.numbers[name] = another.batch;
  return another;
}

bool Binding::knows(const Dimension &dimension) const {
  return dimension.value || numbers.contains(dimension.symbol);
}

TensorType Binding::typeOf(const ModelValue &value) const {
  TensorType type{value.element, {}};
  for (const Dimension &dimension : value.shape) {
    auto number = numbers.find(dimension.symbol);
    if (!knows(dimension))
      throw Error("'" + value.name + "': dimension '" + dimension.symbol +
                  "' has no size; give one, as in --bind " + dimension.symbol + "=128" +
                  (&dimension == &value.shape[0]
                       ? ", or, if it counts samples, export the model with one name for the first "
                         "dimension of all inputs"
                       : ""));
    type.shape.push_back(dimension.value ? *dimension.value : number->second);
  }
  if (isTooLarge(type))
    throw Error("'" + value.name + "': " + type.toString() + " has more than " +
                std::to_string(kMostElementsOfTensor) +
                " elements; bind its dimensions to smaller numbers");
  return type;
}

bool Binding::isOfSamples(const ModelValue &input, const TensorType &type) const {
  if (type.rank() == 0 || batchNames.empty())
    return type.rank() > 0 && type.shape[0] == batch;
  return !input.shape[0].value && batchNames.contains(input.shape[0].symbol);
}

} // namespace pdc
