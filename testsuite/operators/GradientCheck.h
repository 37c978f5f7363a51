#pragma once

#include "compiler/operators/Operator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <random>
#include <set>

/// Runs one operator and its gradient rule eagerly, in double, and compares the gradient with
/// central finite differences.
namespace pdc::test {

using Shape = std::vector<int64_t>;

inline Tensor integers(Shape shape, std::vector<double> values) {
  return {{ElementType::i64, std::move(shape)}, std::move(values)};
}

/// Numbers of a fixed seed.
class Draw {
public:
  explicit Draw(unsigned seed = 1) : engine(seed) {}
  double real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(engine);
  }
  int64_t integer(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine);
  }
  Tensor reals(std::vector<int64_t> shape, double low = -1, double high = 1) {
    Tensor tensor = Tensor::zeros({ElementType::f64, std::move(shape)});
    for (double &element : tensor.data)
      element = real(low, high);
    return tensor;
  }
  Tensor integers(std::vector<int64_t> shape, int64_t low, int64_t high) {
    Tensor tensor = Tensor::zeros({ElementType::i64, std::move(shape)});
    for (double &element : tensor.data)
      element = static_cast<double>(integer(low, high));
    return tensor;
  }
  /// Distinct elements far enough apart that a small step changes no order, none near a whole
  /// number.
  Tensor distinct(std::vector<int64_t> shape) {
    Tensor tensor = Tensor::zeros({ElementType::f64, std::move(shape)});
    double middle = tensor.data.size() / 2.0;
    for (size_t i = 0; i < tensor.data.size(); ++i)
      tensor.data[i] = (static_cast<double>(i) + 0.37 - middle) / 8;
    std::shuffle(tensor.data.begin(), tensor.data.end(), engine);
    return tensor;
  }
  std::mt19937 engine;
};

/// A node with its operands' values.
struct Case {
  std::string op;
  Attributes attributes;
  std::vector<Tensor> inputs;
  /// Inputs to differentiate by.
  std::vector<size_t> wanted;
  size_t outputs = 1;
  /// Values that the shape rule may see, besides integers.
  bool allKnown = false;
  /// Outputs at which gradients arrive.
  std::vector<size_t> arriving = {0};
  /// Whether the rule may see optional outputs, too.
  bool hasAllOutputs = true;
};

inline Case unary(const char *op, Tensor input, Attributes attributes = {}) {
  return {op, std::move(attributes), {std::move(input)}, {0}};
}

inline std::vector<const Tensor *> pointers(const std::vector<Tensor> &tensors) {
  std::vector<const Tensor *> result;
  for (const Tensor &tensor : tensors)
    result.push_back(&tensor);
  return result;
}

/// Evaluates a node and checks that the shape rule, which sees integer values only, agrees.
inline std::vector<Tensor> run(std::string_view op, const Attributes &attributes,
                               std::span<const Tensor *const> inputs, size_t outputs = 1) {
  const Operator *rule = findOperator(op);
  if (!rule)
    throw Error("no operator " + std::string(op));
  std::vector<const TensorType *> types;
  std::vector<const Tensor *> constants;
  for (const Tensor *input : inputs) {
    types.push_back(input ? &input->type : nullptr);
    constants.push_back(input && !isFloatingPoint(input->type.element) ? input : nullptr);
  }
  NodeView node{op, "test", attributes, types, constants, outputs};
  std::vector<TensorType> inferred = inferTypes(*rule, node);
  std::vector<Tensor> results = evaluateNode(*rule, node, inputs);
  EXPECT_EQ(inferred.size(), results.size()) << op;
  for (size_t i = 0; i < std::min(inferred.size(), results.size()); ++i) {
    EXPECT_EQ(inferred[i].toString(), results[i].type.toString()) << op << " output " << i;
    EXPECT_EQ(results[i].data.size(), size_t(inferred[i].elementCount())) << op;
  }
  return results;
}

inline std::vector<Tensor> run(const Case &test) {
  return run(test.op, test.attributes, pointers(test.inputs), test.outputs);
}

/// Executes what a gradient rule adds at once; a value is a tensor.
class EagerGradientBuilder : public GradientBuilder {
public:
  /// A gradient of each arriving output.
  EagerGradientBuilder(const Case &test, std::vector<Tensor> outputs, std::vector<Tensor> seeds)
      : test(test), outputs(std::move(outputs)), seeds(std::move(seeds)),
        gradients(test.inputs.size()) {}

  const Attributes &attributes() const override { return test.attributes; }
  size_t inputCount() const override { return test.inputs.size(); }
  size_t outputCount() const override { return outputs.size(); }
  GradientValue input(size_t i) const override { return wrap(test.inputs.at(i)); }
  GradientValue output(size_t i) const override { return wrap(outputs.at(i)); }
  TensorType type(GradientValue value) const override { return tensor(value).type; }
  GradientValue outputGradient(size_t i) const override {
    auto found = std::find(test.arriving.begin(), test.arriving.end(), i);
    return found == test.arriving.end() ? GradientValue()
                                        : wrap(seeds.at(size_t(found - test.arriving.begin())));
  }
  bool wants(size_t i) const override {
    return std::find(test.wanted.begin(), test.wanted.end(), i) != test.wanted.end();
  }
  void setInputGradient(size_t i, GradientValue gradient) override {
    gradients.at(i) = &tensor(gradient);
  }
  std::vector<GradientValue> node(std::string_view op, std::vector<GradientValue> inputs,
                                  Attributes attributes, size_t count) override {
    std::vector<const Tensor *> operands;
    for (GradientValue value : inputs)
      operands.push_back(value ? &tensor(value) : nullptr);
    std::vector<GradientValue> results;
    for (Tensor &result : run(op, attributes, operands, count))
      results.push_back(constant(std::move(result)));
    return results;
  }
  GradientValue constant(Tensor value) override {
    made.push_back(std::move(value));
    return wrap(made.back());
  }
  const Tensor *gradient(size_t i) const { return gradients.at(i); }

private:
  static GradientValue wrap(const Tensor &value) { return {const_cast<Tensor *>(&value)}; }
  static const Tensor &tensor(GradientValue value) {
    return *static_cast<const Tensor *>(value.handle);
  }

  const Case &test;
  std::vector<Tensor> outputs;
  std::vector<Tensor> seeds;
  std::vector<const Tensor *> gradients;
  std::deque<Tensor> made;
};

inline double weighted(const Tensor &value, const Tensor &weights) {
  double sum = 0;
  for (size_t i = 0; i < value.data.size(); ++i)
    sum += value.data[i] * weights.data[i];
  return sum;
}

using OperatorNames = std::set<std::string, std::less<>>;

/// The operators whose gradient rule has been checked so far.
inline OperatorNames &checkedRules() {
  static OperatorNames names;
  return names;
}

/// The operators whose gradient through what they are composed of has been checked so far.
inline OperatorNames &checkedCompositions() {
  static OperatorNames names;
  return names;
}

/// Differentiates sum(weights * output) over the arriving outputs by every wanted input, both ways.
inline void checkGradient(Case test, double tolerance = 2e-6) {
  SCOPED_TRACE(test.op);
  const Operator *rule = findOperator(test.op);
  ASSERT_TRUE(rule && rule->differentiate);
  checkedRules().insert(test.op);
  std::vector<Tensor> outputs =
      run(test.op, test.attributes, pointers(test.inputs),
          test.hasAllOutputs ? std::max(test.outputs, rule->outputs.size()) : test.outputs);
  Draw draw(7);
  std::vector<Tensor> seeds;
  for (size_t output : test.arriving) {
    seeds.push_back(draw.reals(outputs.at(output).type.shape));
    seeds.back().type.element = outputs[output].type.element;
  }
  EagerGradientBuilder builder(test, outputs, seeds);
  auto sum = [&] {
    const std::vector<Tensor> found = run(test);
    double total = 0;
    for (size_t i = 0; i < seeds.size(); ++i)
      total += weighted(found.at(test.arriving[i]), seeds[i]);
    return total;
  };
  rule->differentiate(builder);
  for (size_t i : test.wanted) {
    const Tensor *gradient = builder.gradient(i);
    ASSERT_TRUE(gradient) << "no gradient of input " << i;
    ASSERT_EQ(gradient->type.toString(), test.inputs[i].type.toString()) << "input " << i;
    for (size_t e = 0; e < gradient->data.size(); ++e) {
      const double step = 1e-5;
      double &element = test.inputs[i].data[e], before = element;
      element = before + step;
      double above = sum();
      element = before - step;
      double below = sum();
      element = before;
      double expected = (above - below) / (2 * step);
      ASSERT_NEAR(gradient->data[e], expected, tolerance * std::max(1.0, std::abs(expected)))
          << "input " << i << " element " << e;
    }
  }
}

} // namespace pdc::test
