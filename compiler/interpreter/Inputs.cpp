#include "compiler/interpreter/Inputs.h"

#include "compiler/Error.h"
#include "compiler/ir/Conversion.h"
#include "compiler/ir/TensorName.h"

namespace pdc::interpreter {

static uint64_t mix(uint64_t z) {
  z += 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

Tensor draw(const InterpreterInput &input, const std::string &name, int64_t number,
            const TensorType &type, double low, double high) {
  uint64_t state = mix(input.seed) ^ static_cast<uint64_t>(number);
  for (char c : name)
    state = mix(state ^ static_cast<unsigned char>(c));
  Tensor tensor = Tensor::zeros(type);
  for (double &element : tensor.data) {
    state = mix(state);
    element = low + (high - low) * static_cast<double>(state >> 11) * 0x1p-53;
    if (!isFloatingPoint(type.element))
      element = static_cast<double>(state >> 63);
  }
  return tensor;
}

static const Tensor *givenValue(const InterpreterInput &input, ir::MemoryOp memory,
                                int64_t number) {
  auto it = input.given.find(tensorNameOf(memory).str());
  if (it == input.given.end() || it->second.empty())
    return nullptr;
  const Tensor &value = it->second[number % it->second.size()];
  TensorType expected = toTensorType(memory.getType());
  if (value.type.shape != expected.shape)
    throw Error("memory '" + memory.getSymName().str() + "': given " + value.type.toString() +
                ", expected " + expected.toString());
  return &value;
}

Tensor initialValue(const InterpreterInput &input, ir::MemoryOp memory) {
  if (const Tensor *value = givenValue(input, memory, 0))
    return *value;
  TensorType type = toTensorType(memory.getType());
  mlir::Attribute initial = memory.getInitialAttr();
  if (auto number = llvm::dyn_cast_or_null<mlir::FloatAttr>(initial)) {
    Tensor filled = Tensor::zeros(type);
    filled.data.assign(filled.data.size(), number.getValueAsDouble());
    return filled;
  }
  if (auto elements = llvm::dyn_cast_or_null<mlir::DenseElementsAttr>(initial))
    return toTensor(elements);
  if (!initial)
    return Tensor::zeros(type);
  // Statistics and constants stay away from 0: they may be divided by or be a variance.
  std::string name = memory.getSymName().str();
  if (memory.getRole() == ir::Role::State || memory.getRole() == ir::Role::Constant)
    return draw(input, name, 0, type, 0.5, 1.5);
  return draw(input, name, 0, type, -0.5, 0.5);
}

Tensor microbatchInput(const InterpreterInput &input, ir::MemoryOp memory, int64_t microbatch,
                       bool evaluation) {
  if (const Tensor *value = givenValue(input, memory, microbatch))
    return *value;
  std::string name = tensorNameOf(memory).str() + (evaluation ? "#evaluation" : "");
  return draw(input, name, microbatch, toTensorType(memory.getType()), -1, 1);
}

Tensor randomNumbers(const InterpreterInput &input, const TensorType &type, int64_t step,
                     int64_t microbatch) {
  Tensor numbers = Tensor::zeros(type);
  if (type.rank() != 1 || type.shape[0] < 2)
    throw Error("memory 'pdc.random' is " + type.toString() + ", expected i64[2 + samples]");
  int64_t samples = type.shape[0] - 2;
  numbers.data[0] = static_cast<double>(input.seed);
  numbers.data[1] = static_cast<double>(step);
  for (int64_t i = 0; i < samples; ++i)
    numbers.data[2 + i] = static_cast<double>(microbatch * samples + i);
  return numbers;
}

} // namespace pdc::interpreter
