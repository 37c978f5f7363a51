#include "testsuite/kernels/UnitCase.h"

#include "runtime/Layout.h"
#include "testsuite/kernels/Allocations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace pdc {

UnitValue UnitCase::given(Tensor value, std::string layout) {
  view.operands.push_back(value.type);
  view.operandLayouts.push_back(std::move(layout));
  operands.push_back(std::move(value));
  return UnitValue::operand(static_cast<int>(operands.size()) - 1);
}

UnitValue UnitCase::operand(std::vector<int64_t> shape, double from, double to,
                            std::string layout) {
  Tensor value = Tensor::zeros({ElementType::f32, std::move(shape)});
  for (double &element : value.data)
    element = static_cast<float>(std::uniform_real_distribution<float>(from, to)(random));
  return given(std::move(value), std::move(layout));
}

UnitValue UnitCase::integers(std::vector<int64_t> shape, int64_t from, int64_t to) {
  Tensor value = Tensor::zeros({ElementType::i64, std::move(shape)});
  for (double &element : value.data)
    element = static_cast<double>(std::uniform_int_distribution<int64_t>(from, to)(random));
  return given(std::move(value));
}

UnitValue UnitCase::constant(Tensor value) {
  return node("Constant", {}, {{"value", std::move(value)}});
}

const Tensor &UnitCase::valueOf(UnitValue value) const {
  return value.kind == UnitValue::Kind::operand ? operands.at(value.index)
                                                : computed.at(value.index).at(value.result);
}

UnitValue UnitCase::node(std::string op, std::vector<UnitValue> inputs, Attributes given,
                         size_t outputs) {
  const std::string &name = names.emplace_back(op);
  UnitNode described{name, name, &attributes.emplace_back(std::move(given)), inputs, {}};
  std::vector<const TensorType *> types;
  std::vector<const Tensor *> values;
  for (UnitValue input : inputs) {
    bool absent = input.kind == UnitValue::Kind::absent;
    values.push_back(absent ? nullptr : &valueOf(input));
    types.push_back(absent ? nullptr : &values.back()->type);
  }
  if (op == "Constant") {
    computed.push_back({*described.attributes->tensor("value")});
  } else {
    const Operator *known = findOperator(op);
    EXPECT_TRUE(known) << op;
    NodeView asked{name, name, *described.attributes, types, values, outputs};
    computed.push_back(evaluateNode(*known, asked, values));
  }
  for (const Tensor &value : computed.back())
    described.outputs.push_back(value.type);
  view.nodes.push_back(described);
  return UnitValue::node(static_cast<int>(view.nodes.size()) - 1);
}

template <class T> static Buffer packAs(const Tensor &tensor, const std::string &layout) {
  std::vector<T> rowMajor(tensor.data.begin(), tensor.data.end());
  runtime::Layout order(layout, tensor.type.shape);
  Buffer bytes(order.elements() * sizeof(T));
  order.pack(reinterpret_cast<const std::byte *>(rowMajor.data()), bytes.data(), sizeof(T));
  return bytes;
}

std::vector<void *> UnitCase::pointers() {
  packed.clear();
  std::vector<void *> all;
  for (size_t i = 0; i < choice.arguments.size(); ++i) {
    int operand = choice.arguments[i];
    const std::string &layout = choice.inputLayouts[i];
    if (operand < 0)
      packed.push_back({});
    else if (layout.find(':') != layout.npos)
      packed.push_back(storedOperands.at(operand));
    else if (operands[operand].type.element == ElementType::boolean)
      packed.push_back(packAs<uint8_t>(operands[operand], layout));
    else
      packed.push_back(operands[operand].type.element == ElementType::i64
                           ? packAs<int64_t>(operands[operand], layout)
                           : packAs<float>(operands[operand], layout));
  }
  for (size_t i = 0; i < packed.size(); ++i)
    all.push_back(choice.arguments[i] < 0 ? nullptr : packed[i].data());
  for (Buffer &bytes : stored)
    all.push_back(bytes.data());
  return all;
}

void UnitCase::compare(const Tensor &expected, size_t result, double factor, double tolerance) {
  const std::string &layout = choice.outputLayouts[result];
  if (expected.type.element == ElementType::i64)
    return compareIntegers(expected, result);
  runtime::Layout order(layout, expected.type.shape);
  std::vector<float> rowMajor(expected.data.size());
  order.unpack(stored[result].data(), reinterpret_cast<std::byte *>(rowMajor.data()), 4);
  double most = 0;
  for (double value : expected.data)
    if (std::isfinite(value))
      most = std::max(most, std::abs(value * factor));
  for (size_t i = 0; i < rowMajor.size(); ++i)
    ASSERT_TRUE(double(rowMajor[i]) == expected.data[i] * factor ||
                std::abs(rowMajor[i] - expected.data[i] * factor) <= tolerance * most + 1e-30)
        << rowMajor[i] << ", expected " << expected.data[i] * factor << ": " << choice.kernel << " result " << result << " element " << i << " of "
        << expected.type.toString() << " " << layout;
  // Packed again, nothing may differ: padding is zero.
  Buffer again(stored[result].size());
  order.pack(reinterpret_cast<const std::byte *>(rowMajor.data()), again.data(), 4);
  for (size_t i = 0; i < again.size() / 4; ++i) {
    float before, after;
    std::memcpy(&before, stored[result].data() + 4 * i, 4);
    std::memcpy(&after, again.data() + 4 * i, 4);
    ASSERT_EQ(before, after) << choice.kernel << ": padding of result " << result << " is not zero";
  }
}

void UnitCase::compareIntegers(const Tensor &expected, size_t result) {
  std::vector<int64_t> found(expected.data.size());
  ASSERT_EQ(stored[result].size(), found.size() * sizeof(int64_t));
  std::memcpy(found.data(), stored[result].data(), stored[result].size());
  EXPECT_EQ(found, expected.toIntegers()) << choice.kernel << " result " << result;
}

void UnitCase::callAgain(const KernelCall &kernel, const runtime::Run &run,
                         const std::vector<void *> &pointers, bool add) {
  const Allocations made = allocationsOf([&] { kernel(run, pointers, add); });
  // A GPU's queue is the test's own on the host.
  if (options.kind == DeviceKind::cpu) {
    EXPECT_EQ(made.ours, 0) << choice.kernel << ": a call allocates";
  }
}

void UnitCase::check(double tolerance) {
  if (view.results.empty())
    result(UnitValue::node(static_cast<int>(view.nodes.size()) - 1));
  view.name = "unit";
  choice = chooseKernel(view, options);
  ASSERT_EQ(choice.arguments.size(), choice.inputLayouts.size());
  ASSERT_EQ(view.results.size(), choice.outputLayouts.size());
  stored.clear();
  for (size_t r = 0; r < view.results.size(); ++r)
    stored.emplace_back(bytesInLayout(*view.type(view.results[r]), choice.outputLayouts[r]),
                        std::byte(0xff));
  device = {options.threads, choice.workspaceBytes};
  KernelCall kernel = makeKernel(choice, device);

  // Scratch memory starts as NaN: kernels must not read what they did not write.
  Buffer scratch(choice.workspaceBytes + 64, std::byte(0xff));
  runtime::Run run;
  run.scratchBase = scratch.data();
  auto all = pointers();
  kernel(run, all, false);
  for (size_t r = 0; r < view.results.size(); ++r)
    if (choice.outputLayouts[r].find(':') == std::string::npos)
      compare(valueOf(view.results[r]), r, 1, tolerance);

  auto first = stored;
  callAgain(kernel, run, all, false);
  EXPECT_EQ(first, stored) << choice.kernel << ": other bits at repeat";
  for (auto [argument, result] : choice.inPlace) {
    auto shared = pointers();
    ASSERT_EQ(packed[argument].size(), stored[result].size());
    shared[choice.arguments.size() + result] = packed[argument].data();
    callAgain(kernel, run, shared, false);
    EXPECT_EQ(first[result], packed[argument]) << choice.kernel << ": other bits in place";
  }
  if (choice.accumulates) {
    callAgain(kernel, run, pointers(), true);
    compare(valueOf(view.results.back()), view.results.size() - 1, 2, tolerance);
  }
}

} // namespace pdc
