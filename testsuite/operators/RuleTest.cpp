#include "compiler/operators/Dropout.h"
#include "compiler/operators/Window.h"
#include "runtime/kernels/Random.h"
#include "testsuite/operators/GradientCheck.h"

#include <limits>

namespace pdc::test {

using Shape = std::vector<int64_t>;

static std::string refusal(const Case &test) {
  try {
    run(test);
  } catch (const Error &error) {
    return error.what();
  }
  return "no refusal";
}

static Tensor zeros(Shape shape, ElementType element = ElementType::f32) {
  return Tensor::zeros({element, std::move(shape)});
}

TEST(Rule, RefusalsNameTheNode) {
  EXPECT_EQ(refusal({"Conv", {}, {zeros({1, 3, 5, 5}), zeros({4, 2, 3, 3})}}),
            "node 'test' (Conv): input [1,3,5,5] does not fit weight [4,2,3,3] in 1 groups");
  EXPECT_EQ(refusal({"Conv", {}, {zeros({1, 3, 2, 2}), zeros({4, 3, 3, 3})}}),
            "node 'test' (Conv): the window of 3 is larger than the padded input of 2 in spatial "
            "dimension 0");
  EXPECT_EQ(refusal({"Add", {}, {zeros({2, 3}), zeros({4})}}),
            "node 'test' (Add): shapes [2,3] and [4] do not broadcast");
  EXPECT_EQ(refusal({"Gemm", {}, {zeros({2, 3}), zeros({4, 5})}}),
            "node 'test' (Gemm): inner dimensions of f32[2,3] and f32[4,5] differ: 3 and 4");
  EXPECT_EQ(refusal({"Reshape", {}, {zeros({2, 3}), Tensor::vector({4, -1})}}),
            "node 'test' (Reshape): cannot bring f32[2,3] to shape [4,1]");
  EXPECT_EQ(refusal({"Squeeze", {}, {zeros({2, 3}), Tensor::vector({1})}}),
            "node 'test' (Squeeze): dimension 1 of f32[2,3] is not 1: PyTorch's squeeze leaves it "
            "as it is, ONNX's does not; export the network without it");
  EXPECT_EQ(
      refusal({"Squeeze", {{"where_one", int64_t(1)}}, {zeros({2, 1}), Tensor::vector({0, 1})}}),
      "no refusal");
  EXPECT_EQ(refusal({"Relu", {}, {zeros({2}, ElementType::i64)}}),
            "node 'test' (Relu): element type i64 of input 0 is not supported");
  EXPECT_EQ(refusal({"ConstantOfShape", {}, {zeros({2})}}),
            "node 'test' (ConstantOfShape): element type f32 of input 0 is not supported");
  EXPECT_EQ(refusal({"Gather", {}, {zeros({2, 3}), Tensor::vector({2})}}),
            "node 'test' (Gather): index 2 is outside dimension 0 of [2,3]");
  EXPECT_EQ(refusal({"Gather", {}, {zeros({2, 3}), zeros({1})}}),
            "node 'test' (Gather): indices are f32[1], expected integers");
  EXPECT_EQ(refusal({"Transpose", {{"perm", Shape{0, 0}}}, {zeros({2, 3})}}),
            "node 'test' (Transpose): axis 0 is named twice");
  EXPECT_EQ(refusal({"LeakyRelu", {{"alpha", std::string("x")}}, {zeros({2})}}),
            "node 'test' (LeakyRelu): attribute 'alpha' is not a number");
  EXPECT_EQ(refusal({"SoftmaxCrossEntropyLoss",
                     {{"reduction", std::string("sum")}},
                     {zeros({1, 3}), Tensor::vector({3})}}),
            "node 'test' (SoftmaxCrossEntropyLoss): label 3 is outside the 3 classes");
  EXPECT_EQ(refusal({"Div", {}, {Tensor::vector({1}), Tensor::vector({0})}}),
            "node 'test' (Div): integer division by zero");
}

TEST(Rule, RefusesHostileNumbers) {
  const int64_t most = std::numeric_limits<int64_t>::max(), least = -most - 1;
  EXPECT_NE(refusal({"ConstantOfShape", {}, {Tensor::vector({1 << 30, 1 << 30})}}), "no refusal");
  EXPECT_NE(refusal({"ConstantOfShape", {}, {Tensor::vector({-1})}}), "no refusal");
  EXPECT_NE(refusal({"Expand", {}, {zeros({1}), Tensor::vector({1 << 30, 1 << 30, 1 << 30})}}),
            "no refusal");
  for (int64_t value : {most, least}) {
    EXPECT_NE(refusal({"Unsqueeze", {}, {zeros({1}), Tensor::vector({value})}}), "no refusal");
    EXPECT_NE(refusal({"Flatten", {{"axis", value}}, {zeros({1})}}), "no refusal");
    for (const char *name : {"strides", "dilations"})
      EXPECT_NE(refusal({"AveragePool",
                         {{"kernel_shape", Shape{2, 2}}, {name, Shape{value, value}}},
                         {zeros({1, 1, 4, 4})}}),
                "no refusal");
  }
}

TEST(Rule, SliceClampsFarEnds) {
  const int64_t far = std::numeric_limits<int64_t>::max();
  Tensor x = Tensor::vector({0, 1, 2, 3, 4});
  auto slice = [&](int64_t start, int64_t end, int64_t step) {
    return run({"Slice",
                {},
                {x, Tensor::vector({start}), Tensor::vector({end}), Tensor::vector({0}),
                 Tensor::vector({step})}})[0]
        .toIntegers();
  };
  EXPECT_EQ(slice(1, far, 2), (Shape{1, 3}));
  EXPECT_EQ(slice(-2, far, 1), (Shape{3, 4}));
  EXPECT_EQ(slice(far, -far, -1), (Shape{4, 3, 2, 1, 0}));
  EXPECT_EQ(slice(0, far, far), (Shape{0}));
}

/// PyTorch 1.13's torch.optim on two elements for three steps; weight decay 0.1 in all of them. Those
/// with a first step are by the formulas of ONNX's operators Momentum, Adagrad and Adam and of ONNX
/// Runtime's AdamWOptimizer.
struct Optimizer {
  const char *op;
  Attributes attributes;
  size_t states;
  std::vector<double> weights; ///< after the third step
};

static Optimizer onnxAdam(double firstStep, std::vector<double> weights) {
  Attributes attributes = {{"weight_decay", 0.1},        {"beta1", 0.9},
                           {"beta2", 0.999},             {"epsilon", 1e-3},
                           {"decoupled", int64_t(0)},    {"first_step", firstStep},
                           {"scaled_epsilon", int64_t(1)}, {"post_decay", 0.25}};
  return {"AdamUpdate", attributes, 2, std::move(weights)};
}

/// ONNX Runtime's AdamWOptimizer with adam_mode 1; a first step so late has no bias correction.
static Optimizer ortAdam(double firstStep, std::vector<double> weights) {
  Attributes attributes = {{"weight_decay", 0.1},      {"beta1", 0.9},
                           {"beta2", 0.999},           {"epsilon", 1e-3},
                           {"decoupled", int64_t(2)},  {"first_step", firstStep},
                           {"scaled_epsilon", int64_t(1)}};
  return {"AdamUpdate", attributes, 2, std::move(weights)};
}

static const Optimizer kOptimizers[] = {
    {"SgdUpdate", {{"weight_decay", 0.1}}, 0, {0.90982425, -1.8441516249999999}},
    {"MomentumUpdate",
     {{"weight_decay", 0.1}, {"momentum", 0.9}, {"dampening", 0.0}, {"nesterov", int64_t(0)}},
     1,
     {0.94429424999999989, -1.9907166249999999}},
    {"MomentumUpdate",
     {{"weight_decay", 0.1}, {"momentum", 0.9}, {"dampening", 0.3}, {"nesterov", int64_t(0)}},
     1,
     {0.93671588249999982, -2.04638829625}},
    {"MomentumUpdate",
     {{"weight_decay", 0.1}, {"momentum", 0.9}, {"dampening", 0.0}, {"nesterov", int64_t(1)}},
     1,
     {0.85960480574999987, -1.833877295875}},
    {"AdamUpdate",
     {{"weight_decay", 0.1},
      {"beta1", 0.9},
      {"beta2", 0.999},
      {"epsilon", 1e-3},
      {"decoupled", int64_t(0)}},
     2,
     {0.95930209278658263, -2.0776689700553597}},
    {"AdamUpdate",
     {{"weight_decay", 0.1},
      {"beta1", 0.9},
      {"beta2", 0.999},
      {"epsilon", 1e-3},
      {"decoupled", int64_t(1)}},
     2,
     {0.94940943495356911, -2.0505218830578187}},
    {"AdagradUpdate",
     {{"weight_decay", 0.1}, {"lr_decay", 0.3}, {"epsilon", 1e-3}},
     1,
     {0.9604903220225001, -2.0400279120187017}},
    {"MomentumUpdate",
     {{"weight_decay", 0.1},
      {"momentum", 0.9},
      {"dampening", 0.3},
      {"nesterov", int64_t(0)},
      {"first_step", 2.0}},
     1,
     {0.96098629275, -1.9938024073749998}},
    {"AdagradUpdate",
     {{"weight_decay", 0.1}, {"lr_decay", 0.3}, {"epsilon", 1e-3}, {"first_step", 3.0}},
     1,
     {0.9747833335170963, -2.0231634331802333}},
    ortAdam(1, {0.9521338517089769, -2.0484416763150572}),
    ortAdam(1e9, {0.8857223961856153, -2.23839370548183}),
    onnxAdam(0, {0.36403422302140487, -0.9274727136380063}),
    onnxAdam(1, {0.4042933424825237, -0.8763002953439857}),
    onnxAdam(4, {0.4110289282720586, -0.8632558528493923}),
};

TEST(Rule, OptimizersAreTorchsAndOnnxs) {
  for (const Optimizer &optimizer : kOptimizers) {
    SCOPED_TRACE(optimizer.op);
    auto pair = [](double a, double b) { return Tensor{{ElementType::f64, {2}}, {a, b}}; };
    auto scalar = [](double a) { return Tensor::scalar(ElementType::f64, a); };
    std::vector<Tensor> now = {pair(1, -2)};
    for (size_t i = 0; i < optimizer.states; ++i)
      now.push_back(pair(0, 0));
    const Tensor gradients[] = {pair(1, 3), pair(-4, 2), pair(6, -10)};
    for (int step = 1; step <= 3; ++step) {
      Case test{optimizer.op, optimizer.attributes, now, {}, now.size()};
      // The gradient comes as a sum over 2, and the scale makes it a mean.
      test.inputs.insert(test.inputs.begin() + 1, gradients[step - 1]);
      test.inputs.push_back(scalar(0.5));
      test.inputs.push_back(scalar(0.05));
      if (optimizer.states)
        test.inputs.push_back(scalar(step));
      now = run(test);
    }
    for (size_t i = 0; i < 2; ++i)
      EXPECT_NEAR(now[0].data[i], optimizer.weights[i], 1e-12) << "element " << i;
  }
}

/// Algorithm 2 of You et al. (2020): the direction and how far a weight goes along it.
TEST(Rule, LambGoesAsFarAsTheWeightIsLong) {
  auto pair = [](double a, double b) { return Tensor{{ElementType::f64, {2}}, {a, b}}; };
  auto scalar = [](double a) { return Tensor::scalar(ElementType::f64, a); };
  const Attributes attributes = {{"weight_decay", 0.1},    {"beta1", 0.9},
                                 {"beta2", 0.999},         {"epsilon", 1e-3},
                                 {"decoupled", int64_t(3)}};
  // The second step, of gradients (1, 2) out of sums of two microbatches.
  std::vector<Tensor> made = run({"AdamUpdate",
                                  attributes,
                                  {pair(3, -4), pair(2, 4), pair(0.5, -0.25), pair(0.25, 0.5),
                                   scalar(0.5), scalar(0.05), scalar(2)},
                                  {},
                                  3});
  const double w[] = {3, -4}, g[] = {1, 2}, m[] = {0.5, -0.25}, v[] = {0.25, 0.5};
  double direction[2];
  for (size_t i = 0; i < 2; ++i) {
    const double average = (0.9 * m[i] + 0.1 * g[i]) / (1 - 0.9 * 0.9);
    const double square = (0.999 * v[i] + 0.001 * g[i] * g[i]) / (1 - 0.999 * 0.999);
    direction[i] = average / (std::sqrt(square) + 1e-3) + 0.1 * w[i];
    EXPECT_NEAR(made[0].data[i], direction[i], 1e-12);
  }
  auto next = [&](double weightSquare, double directionSquare) {
    return run({"LambUpdate",
                {},
                {pair(3, -4), made[0], scalar(0.05), scalar(weightSquare),
                 scalar(directionSquare)}})[0];
  };
  const double reach = std::hypot(direction[0], direction[1]);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(next(25, reach * reach).data[i], w[i] - 0.05 * 5 / reach * direction[i], 1e-12);
    EXPECT_NEAR(next(0, reach * reach).data[i], w[i] - 0.05 * direction[i], 1e-12);
    EXPECT_NEAR(next(25, 0).data[i], w[i] - 0.05 * direction[i], 1e-12);
  }
}

TEST(Rule, DropoutDrawsTheRuntimesBits) {
  Draw draw;
  for (int i = 0; i < 100; ++i) {
    uint64_t seed = draw.engine(), step = i, sample = draw.engine(), key = draw.engine();
    EXPECT_EQ(drawBits(seed, step, sample, key, i),
              runtime::drawBits(runtime::samplePrefix(seed, step, sample, key), i));
  }
}

TEST(Rule, DropoutKeepsItsShare) {
  Tensor x = zeros({4, 10000});
  x.data.assign(x.data.size(), 1);
  Case test{
      "Dropout", {{"ratio", 0.3}, {"key", int64_t(5)}}, {x, Tensor::vector({1, 2, 7, 8, 9, 7})}};
  Tensor y = run(test)[0];
  double kept = 0;
  for (double element : y.data)
    kept += element != 0;
  EXPECT_NEAR(kept / y.data.size(), 0.7, 0.01);
  // The same sample number draws the same mask wherever it stands in the batch.
  EXPECT_TRUE(std::equal(y.data.begin(), y.data.begin() + 10000, y.data.begin() + 30000));
}

/// A weight, and a mask that all steps of a sequence share: one mask for the microbatch, drawn for
/// its first sample.
TEST(Rule, DropoutOfWhatCountsNoSamples) {
  Tensor weight = zeros({10, 1000});
  weight.data.assign(weight.data.size(), 1);
  Attributes attributes = {{"ratio", 0.3}, {"key", int64_t(5)}};
  Tensor found = run({"Dropout", attributes, {weight, Tensor::vector({1, 2, 7, 8, 9})}})[0];
  Tensor whole = weight;
  whole.type.shape = {1, 10000};
  Tensor expected = run({"Dropout", attributes, {whole, Tensor::vector({1, 2, 7})}})[0];
  EXPECT_EQ(found.data, expected.data);
  EXPECT_EQ(found.type.shape, weight.type.shape);
}

TEST(Rule, CostsCountProducts) {
  TensorType x{ElementType::f32, {2, 3, 8, 8}}, w{ElementType::f32, {4, 3, 3, 3}};
  const TensorType *inputs[] = {&x, &w};
  Attributes none;
  const Operator &conv = *findOperator("Conv");
  NodeView node{"Conv", "", none, inputs, {}, 1};
  Cost cost = costOf(conv, node, inferTypes(conv, node));
  EXPECT_EQ(cost.flops, 2.0 * 2 * 4 * 6 * 6 * 27);
  EXPECT_EQ(cost.bytes, 4.0 * (2 * 3 * 64 + 4 * 27 + 2 * 4 * 36));
}

/// What an operator computes and moves, by the closed formula of its family.
TEST(Rule, CostsOfEachFamily) {
  struct Case {
    const char *op;
    Attributes attributes;
    std::vector<Tensor> inputs;
    double flops, numbers; ///< floats read and written
  };
  auto list = [](std::vector<int64_t> values) { return Tensor::vector(values); };
  const std::vector<int64_t> two = {2, 2};
  const std::vector<Case> cases = {
      // Two groups of two channels each see half of the input.
      {"Conv",
       {{"group", int64_t(2)}},
       {zeros({2, 4, 8, 8}), zeros({4, 2, 3, 3})},
       2.0 * (2 * 4 * 6 * 6) * (2 * 9),
       2 * 4 * 64 + 4 * 18 + 2 * 4 * 36},
      {"Gemm",
       {{"transB", int64_t(1)}},
       {zeros({4, 6}), zeros({8, 6})},
       2.0 * 4 * 8 * 6,
       4 * 6 + 8 * 6 + 4 * 8},
      {"MatMul", {}, {zeros({3, 4, 5}), zeros({5, 6})}, 2.0 * 3 * 4 * 6 * 5, 60 + 30 + 72},
      {"AveragePool",
       {{"kernel_shape", two}, {"strides", two}},
       {zeros({1, 3, 4, 4})},
       12 * 4,
       48 + 12},
      {"ReduceSum", {}, {zeros({4, 10}), list({1})}, 40, 40 + 4},
      {"Add", {}, {zeros({4, 10}), zeros({10})}, 40, 40 + 10 + 40},
      {"Tanh", {}, {zeros({4, 10})}, 40, 80},
      {"Transpose", {{"perm", std::vector<int64_t>{1, 0}}}, {zeros({4, 10})}, 40, 80},
      {"Softmax", {}, {zeros({4, 10})}, 40, 80},
      // What stands beside a part is not read: one sample of a thousand, three rows of a table.
      {"Slice", {}, {zeros({1000, 8}), list({5}), list({6}), list({0})}, 0, 2 * 8},
      {"Gather", {}, {zeros({5000, 16}), list({1, 2, 3})}, 0, 2 * 3 * 16 + 2 * 3},
      {"Flatten", {}, {zeros({4, 2, 5})}, 0, 0},
  };
  for (const Case &one : cases) {
    const Operator &op = *findOperator(one.op);
    std::vector<const TensorType *> types;
    std::vector<const Tensor *> known;
    for (size_t i = 0; i < one.inputs.size(); ++i) {
      types.push_back(&one.inputs[i].type);
      known.push_back(op.inputs[i].known ? &one.inputs[i] : nullptr);
    }
    NodeView node{one.op, "", one.attributes, types, known, 1};
    const std::vector<TensorType> outputs = inferTypes(op, node);
    const Cost cost = costOf(op, node, outputs);
    EXPECT_EQ(cost.flops, one.flops) << one.op;
    EXPECT_EQ(cost.bytes, 4 * one.numbers) << one.op;
  }
}

/// An expression names no operand or attribute that the row does not have.
TEST(Rule, ExpressionsNameTheirOperands) {
  for (const Operator *op : allOperators())
    for (std::string_view expression : op->expressions)
      for (size_t i = expression.find('$'); i != expression.npos; i = expression.find('$', i + 1)) {
        char next = expression[i + 1];
        bool variadic = op->inputs.back().variadic;
        if (std::isdigit(next))
          EXPECT_LT(size_t(next - '0'), variadic ? 2 : op->inputs.size()) << op->name;
        else
          EXPECT_TRUE(std::isalpha(next)) << op->name;
      }
}

} // namespace pdc::test
