#include "testsuite/operators/Tape.h"

/// What operators do where they have a kink, at zero, with what is not a number, and with indices
/// outside: as PyTorch does.
namespace pdc::test {

namespace {

const double kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor row(std::vector<double> values) {
  const auto count = static_cast<int64_t>(values.size());
  return {{ElementType::f32, {count}}, std::move(values)};
}

Tensor number(double value) { return Tensor::scalar(ElementType::f32, value); }

/// The gradient by input 0 of the sum of what the node makes.
std::vector<double> slopes(const std::string &op, std::vector<Tensor> inputs,
                           Attributes attributes = {}) {
  const Case test{op, std::move(attributes), std::move(inputs), {0}};
  Tensor seed = tapeValue(test);
  std::fill(seed.data.begin(), seed.data.end(), 1);
  return tapeGradients(test, seed)[0].data;
}

void expectNear(const std::vector<double> &found, const std::vector<double> &expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-6) << "element " << i;
}

} // namespace

TEST(Edges, SlopesAtKinks) {
  using Slopes = std::vector<double>;
  const Tensor x = row({-1, 0, 1});
  EXPECT_EQ(slopes("Relu", {x}), (Slopes{0, 0, 1}));
  EXPECT_EQ(slopes("LeakyRelu", {x}, {{"alpha", 0.25}}), (Slopes{0.25, 0.25, 1}));
  EXPECT_EQ(slopes("PRelu", {x, row({0.25})}), (Slopes{0.25, 0.25, 1}));
  // relu6, hardtanh, clamp_min and clamp_max.
  EXPECT_EQ(slopes("Clip", {row({-1, 0, 3, 6, 7}), number(0), number(6)}), (Slopes{0, 0, 1, 0, 0}));
  EXPECT_EQ(slopes("OneSidedClip", {x, number(0)}), (Slopes{0, 0, 1}));
  EXPECT_EQ(slopes("OneSidedClip", {x, kAbsent, number(0)}), (Slopes{1, 0, 0}));
}

/// torch.linalg.vector_norm of zeros, and what is divided by it.
TEST(Edges, NormsOfZeros) {
  const Tensor axis = Tensor::vector({1});
  const Tensor x{{ElementType::f32, {2, 2}}, {0, 0, 3, 4}};
  expectNear(slopes("ReduceL2", {x, axis}), {0, 0, 0.6, 0.8});
  EXPECT_EQ(slopes("LpNormalization", {Tensor{{ElementType::f32, {1, 2}}, {0, 0}}},
                   {{"axis", int64_t(1)}}),
            (std::vector<double>{1, 1}));
  expectNear(
      slopes("LpPool", {Tensor{{ElementType::f32, {1, 1, 4}}, {0, 0, 3, 4}}},
             {{"kernel_shape", std::vector<int64_t>{2}}, {"strides", std::vector<int64_t>{2}}}),
      {0, 0, 0.6, 0.8});
}

/// A loss that it reaches is refused, so that nothing may turn it into a number.
TEST(Edges, NoNumberStaysNone) {
  const Tensor x = row({kNaN, 1});
  const std::vector<Case> cases = {
      {"Relu", {}, {x}, {}},
      {"LeakyRelu", {{"alpha", 0.1}}, {x}, {}},
      {"HardSigmoid", {{"alpha", 0.2}, {"beta", 0.5}}, {x}, {}},
      {"HardSwish", {}, {x}, {}},
      {"Clip", {}, {x, number(0), number(6)}, {}},
      {"OneSidedClip", {}, {x, number(0)}, {}},
      {"Shrink", {}, {x}, {}},
      {"PRelu", {}, {x, row({0.1})}, {}},
      {"LpNormalization", {{"axis", int64_t(0)}}, {x}, {}},
      {"ReduceL2", {{"keepdims", int64_t(0)}}, {x, Tensor::vector({0})}, {}}};
  for (const Case &test : cases)
    EXPECT_TRUE(std::isnan(tapeValue(test).data[0])) << test.op;
  const Attributes most = {{"reduction", std::string("max")}};
  const Tensor places = integers({2}, {1, 0});
  EXPECT_TRUE(
      std::isnan(tapeValue({"ScatterElements", most, {row({1, 2}), places, x}, {}}).data[1]));
  EXPECT_TRUE(
      std::isnan(tapeValue({"ScatterElements", most, {x, places, row({1, 2})}, {}}).data[0]));
}

/// Of which a mean over seven would be another number.
TEST(Edges, TheLargestIsOneOfThem) {
  const double value = 0.1f;
  const Case test = {
      "ScatterElements",
      {{"reduction", std::string("max")}},
      {row({-1}), integers({7}, std::vector<double>(7, 0)), row(std::vector<double>(7, value))},
      {2}};
  EXPECT_EQ(tapeValue(test).data, std::vector<double>{value});
  const std::vector<Tensor> shares = tapeGradients(test, row({7}));
  expectNear(shares[0].data, std::vector<double>(7, 1));
}

/// Along the last of several dimensions, the next row has an element there.
TEST(Edges, IndicesOutsideAreRefused) {
  const Tensor x{{ElementType::f32, {2, 3}}, {0, 1, 2, 3, 4, 5}};
  const Tensor updates{{ElementType::f32, {2, 1}}, {7, 8}};
  for (double index : {3.0, -4.0}) {
    const Tensor places = integers({2, 1}, {index, 0});
    const Attributes along = {{"axis", int64_t(1)}};
    EXPECT_THROW(tapeValue({"GatherElements", along, {x, places}, {}}), Error);
    EXPECT_THROW(tapeValue({"ScatterElements", along, {x, places, updates}, {}}), Error);
    const Tensor pairs = integers({1, 2}, {0, index});
    EXPECT_THROW(tapeValue({"GatherND", {}, {x, pairs}, {}}), Error);
    EXPECT_THROW(tapeValue({"ScatterND", {}, {x, pairs, row({1})}, {}}), Error);
  }
}

/// At the places 0, 4 and 8 of three elements; of what the last two read none lies on the axis.
TEST(Edges, CropsBeyondTheBorder) {
  const Tensor x{{ElementType::f32, {1, 3}}, {1, 2, 3}};
  const Attributes crop = {{"mode", std::string("cubic")},
                           {"exclude_outside", int64_t(1)},
                           {"extrapolation_value", 9.0},
                           {"coordinate_transformation_mode", std::string("tf_crop_and_resize")}};
  const std::vector<Tensor> inputs = {x, Tensor::vector({0, 0, 1, 4}), kAbsent,
                                      Tensor::vector({1, 3})};
  EXPECT_EQ(tapeValue({"Resize", crop, inputs, {}}).data, (std::vector<double>{1, 9, 9}));
  EXPECT_EQ(slopes("Resize", inputs, crop), (std::vector<double>{1, 0, 0}));
  const Attributes twice = {{"axes", std::vector<int64_t>{1, -1}}};
  EXPECT_THROW(tapeValue({"Resize", twice, inputs, {}}), Error);
}

} // namespace pdc::test
