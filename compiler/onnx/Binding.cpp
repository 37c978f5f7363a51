#include "compiler/onnx/Binding.h"

namespace pdc {

static const Dimension *batchDimension(const Model &model) {
  for (const ModelValue &input : model.inputs)
    if (!input.shape.empty())
      return &input.shape[0];
  return nullptr;
}

std::optional<int64_t> fixedMicrobatchSize(const Model &model) {
  const Dimension *dimension = batchDimension(model);
  return dimension ? dimension->value : std::optional<int64_t>(1);
}

static void checkNames(const Model &model, const std::map<std::string, int64_t> &dimensions) {
  for (const auto &[symbol, number] : dimensions) {
    Model copy{model.name, model.inputs, model.outputs, {}, {}};
    bindDimension(copy, symbol, number);
  }
}

Binding::Binding(const Model &model, int64_t microbatchSize,
                 const std::map<std::string, int64_t> &dimensions)
    : numbers(dimensions) {
  checkNames(model, dimensions);
  const Dimension *dimension = batchDimension(model);
  if (!dimension || dimension->value) {
    batch = dimension ? *dimension->value : 1;
    if (microbatchSize && microbatchSize != batch)
      throw Error(model.name + ": a microbatch has " + std::to_string(batch) +
                  " samples in the file and cannot have " + std::to_string(microbatchSize) +
                  "; export the model with a named first dimension");
    return;
  }
  if (microbatchSize)
    numbers[dimension->symbol] = microbatchSize;
  auto number = numbers.find(dimension->symbol);
  if (number == numbers.end())
    throw Error(model.name + ": the first dimension '" + dimension->symbol +
                "' of the inputs has no size; give the samples per update, as in --minibatch 64");
  batch = number->second;
  batchName = dimension->symbol;
}

std::optional<Binding> Binding::withAnotherSample() const {
  if (batchName.empty())
    return std::nullopt;
  Binding another = *this;
  another.numbers[batchName] = ++another.batch;
  return another;
}

TensorType Binding::typeOf(const ModelValue &value) const {
  constexpr int64_t most = int64_t(1) << 40;
  TensorType type{value.element, {}};
  double count = 1;
  for (const Dimension &dimension : value.shape) {
    auto number = numbers.find(dimension.symbol);
    if (!dimension.value && number == numbers.end())
      throw Error("'" + value.name + "': dimension '" + dimension.symbol +
                  "' has no size; give one, as in --bind " + dimension.symbol + "=128");
    type.shape.push_back(dimension.value ? *dimension.value : number->second);
    count *= static_cast<double>(type.shape.back());
  }
  if (count > static_cast<double>(most))
    throw Error("'" + value.name + "': " + type.toString() + " has more than " +
                std::to_string(most) + " elements; bind its dimensions to smaller numbers");
  return type;
}

} // namespace pdc
