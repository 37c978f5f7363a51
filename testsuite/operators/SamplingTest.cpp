#include "testsuite/operators/Tape.h"

#include <map>
#include <numeric>

/// What reads at computed places or draws at random: GridSample, MaxUnpool, LpPool and ONNX's
/// random operators.
namespace pdc::test {

/// Positions between pixels, inside and outside of the image, none near a kink.
static Tensor positions(Draw &draw, Shape shape) {
  Tensor grid = draw.reals(std::move(shape), -1.6, 1.6);
  for (double &x : grid.data)
    x = std::round(x * 13) / 13 + 0.011;
  return grid;
}

TEST(Sampling, GridSample) {
  Draw draw;
  for (const char *mode : {"linear", "nearest", "cubic"})
    for (const char *padding : {"zeros", "border", "reflection"})
      for (int64_t corners : {0, 1}) {
        SCOPED_TRACE(std::string(mode) + " " + padding + " " + std::to_string(corners));
        Attributes attributes = {{"mode", std::string(mode)},
                                 {"padding_mode", std::string(padding)},
                                 {"align_corners", corners}};
        // A choice of pixels has no slope.
        const bool isSmooth = std::string(mode) != "nearest";
        checkComposedGradient({"GridSample",
                               attributes,
                               {draw.reals({2, 3, 4, 5}), positions(draw, {2, 3, 2, 2})},
                               isSmooth ? std::vector<size_t>{0, 1} : std::vector<size_t>{0}},
                              1e-5);
      }
  checkComposedGradient({"GridSample",
                         {{"padding_mode", std::string("border")}},
                         {draw.reals({1, 2, 3, 4, 2}), positions(draw, {1, 2, 2, 2, 3})},
                         {0, 1}},
                        1e-5);
}

/// Where neighbours change, the slope is that towards the next pixel; at a border it is PyTorch's:
/// zero.
TEST(Sampling, GridSampleHasSlopesAtKinks) {
  const Tensor row{{ElementType::f64, {1, 1, 1, 5}}, {1, 2, 4, 7, 11}};
  const std::vector<double> places = {-1, 0, 1, 1.5, 3, 4, 5, 8, 8.5};
  const std::map<std::string, std::vector<double>> slopes = {
      {"border", {0, 0, 2, 2, 4, 0, 0, 0, 0}}, {"reflection", {-2, 0, 2, 2, 4, 0, -4, 0, 1}}};
  Tensor grid = Tensor::zeros({ElementType::f64, {1, 1, 9, 2}});
  for (size_t i = 0; i < places.size(); ++i)
    grid.data[2 * i] = places[i] / 2 - 1;
  const Tensor seed{{ElementType::f64, {1, 1, 1, 9}}, std::vector<double>(9, 1)};
  for (const auto &[padding, expected] : slopes) {
    SCOPED_TRACE(padding);
    const Attributes attributes = {{"padding_mode", padding}, {"align_corners", int64_t(1)}};
    const Tensor found = tapeGradients({"GridSample", attributes, {row, grid}, {1}}, seed)[0];
    for (size_t i = 0; i < places.size(); ++i) {
      EXPECT_DOUBLE_EQ(found.data[2 * i], 2 * expected[i]) << places[i];
      EXPECT_EQ(found.data[2 * i + 1], 0);
    }
  }
}

/// One row of pixels has no span to be mirrored in; what is no number reads no pixel outside.
TEST(Sampling, GridSampleOfOnePixel) {
  Draw draw;
  Tensor image = draw.reals({1, 2, 1, 1}), grid = draw.reals({1, 2, 2, 2}, -5, 5);
  grid.data[0] = NAN, grid.data[1] = INFINITY, grid.data[2] = 1e30;
  for (const char *padding : {"zeros", "border", "reflection"}) {
    Attributes attributes = {{"padding_mode", std::string(padding)}, {"align_corners", int64_t(1)}};
    Tensor y = tapeValue({"GridSample", attributes, {image, grid}, {}});
    if (std::string(padding) == "reflection") {
      EXPECT_EQ(y.data[3], image.data[0]);
    }
  }
}

TEST(Sampling, NormsOfWindows) {
  Draw draw;
  const Attributes window = {{"kernel_shape", std::vector<int64_t>{3, 2}},
                             {"strides", std::vector<int64_t>{2, 1}},
                             {"pads", std::vector<int64_t>{1, 0, 1, 1}}};
  for (int64_t p : {1, 2, 3, 4})
    for (int64_t ceiling : {0, 1}) {
      Attributes attributes = window;
      attributes.set("p", p);
      attributes.set("ceil_mode", ceiling);
      checkComposedGradient({"LpPool", attributes, {draw.distinct({2, 2, 6, 5})}, {0}}, 1e-5);
      checkComposedGradient({"GlobalLpPool", {{"p", p}}, {draw.distinct({2, 3, 4})}, {0}}, 1e-5);
    }
  // A channel of zeros, as ReLU leaves it: central differences of its norm are 0.
  Tensor dead = draw.distinct({1, 2, 3});
  std::fill_n(dead.data.begin(), 3, 0);
  for (int64_t p : {2, 3})
    checkComposedGradient({"GlobalLpPool", {{"p", p}}, {dead}, {0}}, 1e-5);
  const Tensor x{{ElementType::f64, {1, 1, 4}}, {3, -4, 12, 5}};
  const Attributes pairs = {{"kernel_shape", std::vector<int64_t>{2}},
                            {"pads", std::vector<int64_t>{1, 0}}};
  EXPECT_EQ(tapeValue({"LpPool", pairs, {x}, {}}).data,
            (std::vector<double>{3, 5, std::sqrt(160), 13}));
}

TEST(Sampling, MaxUnpool) {
  Draw draw;
  const Attributes halves = {{"kernel_shape", std::vector<int64_t>{2, 2}},
                             {"strides", std::vector<int64_t>{2, 2}}};
  const Tensor x = draw.reals({1, 1, 2, 2});
  Tensor places{{ElementType::i64, {1, 1, 2, 2}}, {5, 7, 13, 15}};
  checkComposedGradient({"MaxUnpool", halves, {x, places}, {0}});
  checkComposedGradient({"MaxUnpool", halves, {x, places, Tensor::vector({1, 1, 5, 5})}, {0}});
  // Of windows that overlap two may have one maximum.
  const Attributes steps = {{"kernel_shape", std::vector<int64_t>{3}}};
  const Tensor maxima{{ElementType::f64, {1, 1, 3}}, {7, 7, 2}};
  const Tensor found{{ElementType::i64, {1, 1, 3}}, {2, 2, 4}};
  EXPECT_EQ(tapeValue({"MaxUnpool", steps, {maxima, found}, {}}).data,
            (std::vector<double>{0, 0, 7, 0, 2}));
  EXPECT_THROW(tapeValue({"MaxUnpool", halves, {x, places, Tensor::vector({1, 1, 3, 5})}, {}}),
               Error);
}

static Tensor drawn(const char *op, Attributes attributes, std::vector<Tensor> inputs) {
  attributes.set("key", int64_t(99));
  return tapeValue({op, std::move(attributes), std::move(inputs), {}});
}

static std::pair<double, double> meanAndDeviation(const Tensor &values) {
  double sum = 0, squares = 0;
  for (double value : values.data)
    sum += value, squares += value * value;
  const double count = static_cast<double>(values.data.size()), mean = sum / count;
  return {mean, std::sqrt(squares / count - mean * mean)};
}

TEST(Random, DistributionsAreThoseOfONNX) {
  const Tensor random = Tensor::vector({1, 2, 7, 8, 9, 10});
  const Tensor like = Tensor::zeros({ElementType::f32, {4, 20000}});
  const Attributes between = {{"low", -2.0}, {"high", 4.0}}, bell = {{"mean", 3.0}, {"scale", 0.5}};
  Attributes shaped = bell;
  shaped.set("shape", std::vector<int64_t>{4, 20000});
  const auto [centre, width] =
      meanAndDeviation(drawn("RandomUniformLike", between, {like, random}));
  EXPECT_NEAR(centre, 1, 0.03);
  EXPECT_NEAR(width, 6 / std::sqrt(12), 0.03);
  for (const Tensor &normal :
       {drawn("RandomNormalLike", bell, {like, random}), drawn("RandomNormal", shaped, {random})}) {
    const auto [mean, deviation] = meanAndDeviation(normal);
    EXPECT_NEAR(mean, 3, 0.01);
    EXPECT_NEAR(deviation, 0.5, 0.01);
    // Of a normal distribution 0.27% lie beyond three deviations.
    const double beyond = static_cast<double>(
        std::ranges::count_if(normal.data, [](double x) { return std::abs(x - 3) > 1.5; }));
    EXPECT_NEAR(beyond / 80000, 0.0027, 0.0006);
  }
  Tensor chances = like;
  for (size_t i = 0; i < chances.data.size(); ++i)
    chances.data[i] = i < 40000 ? 0.25 : i % 2;
  const Tensor hits = drawn("Bernoulli", {}, {chances, random});
  EXPECT_NEAR(std::accumulate(hits.data.begin(), hits.data.begin() + 40000, 0.0) / 40000, 0.25,
              0.01);
  EXPECT_TRUE(std::equal(hits.data.begin() + 40000, hits.data.end(), chances.data.begin() + 40000));
}

/// A sample has its numbers wherever it stands in a microbatch, with all rows that belong to it.
TEST(Random, FollowsTheSample) {
  const Tensor whole = Tensor::zeros({ElementType::f32, {6, 5}});
  const Tensor part = Tensor::zeros({ElementType::f32, {2, 5}});
  const Tensor all = drawn("RandomUniformLike", {}, {whole, Tensor::vector({1, 2, 7, 8, 9})});
  const Tensor one = drawn("RandomUniformLike", {}, {part, Tensor::vector({1, 2, 8})});
  EXPECT_TRUE(std::equal(one.data.begin(), one.data.end(), all.data.begin() + 10));
  EXPECT_NE(drawn("RandomUniformLike", {}, {part, Tensor::vector({1, 3, 8})}).data, one.data);
}

/// Where only types are asked for: 256 GB of numbers would have to be drawn.
TEST(Sampling, TypesOfRandomNumbersDrawNone) {
  const TensorType like{ElementType::f32, {64, 1 << 10, 1 << 20}};
  const TensorType *types[] = {&like, nullptr};
  const Tensor *nothing[] = {nullptr, nullptr};
  const Attributes attributes;
  for (const char *op : {"RandomNormalLike", "RandomUniformLike", "Bernoulli"}) {
    NodeView node{op, "noise", attributes, types, nothing, 1};
    EXPECT_EQ(inferTypes(*findOperator(op), node)[0].toString(), like.toString()) << op;
  }
}

TEST(Sampling, NonZero) {
  const Tensor x{{ElementType::f64, {2, 3}}, {0, 5, -1, 0, 0, 2}};
  Case test{"NonZero", {}, {x}, {}};
  test.allKnown = true;
  const Tensor *inputs[] = {&test.inputs[0]};
  const Operator &rules = *findOperator("NonZero");
  const TensorType *types[] = {&x.type};
  NodeView node{"NonZero", "mask", test.attributes, types, inputs, 1};
  const Tensor places = evaluateNode(rules, node, inputs)[0];
  EXPECT_EQ(places.type.toString(), "i64[2,3]");
  EXPECT_EQ(places.data, (std::vector<double>{0, 0, 1, 1, 2, 2}));
  const Tensor *nothing[] = {nullptr};
  node.constants = nothing;
  try {
    inferTypes(rules, node);
    FAIL();
  } catch (const Error &error) {
    EXPECT_NE(
        std::string(error.what()).find("it must be known at compile time, but it depends on data"),
        std::string::npos)
        << error.what();
  }
}

} // namespace pdc::test
