#include "testsuite/Refusal.h"
#include "testsuite/operators/Tape.h"

#include <gmock/gmock.h>

#include <numeric>

/// Pooling that is composed of other operators.
namespace pdc::test {

TEST(Windows, MaximaOfWindowsWithHoles) {
  Draw draw;
  Attributes holes = {{"kernel_shape", std::vector<int64_t>{2, 3}},
                      {"strides", std::vector<int64_t>{1, 2}},
                      {"dilations", std::vector<int64_t>{2, 1}},
                      {"pads", std::vector<int64_t>{1, 0, 0, 1}}};
  checkComposedGradient({"MaxPool", holes, {draw.distinct({2, 2, 5, 6})}, {0}});
  Attributes line = {{"kernel_shape", std::vector<int64_t>{3}}, {"indices", int64_t(1)}};
  checkComposedGradient({"MaxPool", line, {draw.distinct({2, 3, 7})}, {0}});
}

/// The first of ONNX's own example; the others against the reference, which is written as the
/// specification is.
TEST(Windows, MeansOfWindowsWithHoles) {
  Draw draw;
  Tensor ramp = Tensor::zeros({ElementType::f64, {1, 1, 4, 4}});
  std::iota(ramp.data.begin(), ramp.data.end(), 1);
  EXPECT_EQ(tapeValues({"AveragePool",
                        {{"kernel_shape", std::vector<int64_t>{2, 2}},
                         {"dilations", std::vector<int64_t>{2, 2}},
                         {"ceil_mode", int64_t(1)}},
                        {ramp},
                        {0}})[0]
                .data,
            (std::vector<double>{6, 7, 10, 11}));
  for (int64_t counted : {0, 1})
    for (int64_t ceiling : {0, 1}) {
      Attributes holes = {{"kernel_shape", std::vector<int64_t>{2, 3}},
                          {"strides", std::vector<int64_t>{2, 2}},
                          {"dilations", std::vector<int64_t>{2, 1}},
                          {"pads", std::vector<int64_t>{1, 0, 0, 1}},
                          {"count_include_pad", counted},
                          {"ceil_mode", ceiling}};
      const Case test{"AveragePool", holes, {draw.reals({2, 3, 6, 6})}, {0}};
      checkComposedGradient(test);
      EXPECT_EQ(tapeValues(test)[0].type, run(test)[0].type);
      for (size_t i = 0; i < run(test)[0].data.size(); ++i)
        EXPECT_NEAR(tapeValues(test)[0].data[i], run(test)[0].data[i], 1e-12);
    }
}

/// PyTorch's numbers of AvgPool2d(3, 2, 1, ceil_mode=True): the last windows reach beyond the
/// padding and count it, but not what lies behind it.
TEST(Windows, MeansOfWindowsBeyondThePadding) {
  Draw draw;
  Tensor ramp = Tensor::zeros({ElementType::f64, {1, 1, 6, 6}});
  std::iota(ramp.data.begin(), ramp.data.end(), 1);
  Attributes window = {{"kernel_shape", std::vector<int64_t>{3, 3}},
                       {"strides", std::vector<int64_t>{2, 2}},
                       {"pads", std::vector<int64_t>{1, 1, 1, 1}},
                       {"count_include_pad", int64_t(1)},
                       {"ceil_mode", int64_t(1)}};
  const std::vector<double> expected = {2,  4,  16. / 3, 3,  9,    15,   17,   9,
                                        17, 27, 29,      15, 10.5, 16.5, 17.5, 9};
  const Tensor found = tapeValue({"AveragePool", window, {ramp}, {0}});
  ASSERT_EQ(found.type.shape, (Shape{1, 1, 4, 4}));
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(found.data[i], expected[i], 1e-12) << i;
  checkComposedGradient({"AveragePool", window, {draw.reals({2, 3, 6, 5})}, {0}});
}

/// The first window's holes step over the only row, and its other element is padding.
TEST(Windows, MeansOfNothingAreRefused) {
  Draw draw;
  Attributes holes = {{"kernel_shape", std::vector<int64_t>{2, 1}},
                      {"dilations", std::vector<int64_t>{2, 1}},
                      {"pads", std::vector<int64_t>{1, 0, 1, 0}}};
  EXPECT_THAT(pdc::refusal([&] {
                run({"AveragePool", holes, {draw.reals({1, 1, 1, 4})}, {0}});
              }),
              testing::HasSubstr("no element of the input to average"));
}

/// The rule's own reference numbers the maxima as what they are composed of does; the first of
/// equal ones counts.
TEST(Windows, PlacesOfMaxima) {
  Draw draw;
  for (int64_t order : {0, 1}) {
    Attributes window = {{"kernel_shape", std::vector<int64_t>{3, 2}},
                         {"strides", std::vector<int64_t>{2, 1}},
                         {"pads", std::vector<int64_t>{1, 1, 1, 0}},
                         {"ceil_mode", int64_t(1)},
                         {"storage_order", order},
                         {"indices", int64_t(1)}};
    Tensor x = draw.integers({2, 3, 5, 4}, 0, 3);
    x.type.element = ElementType::f64;
    const Case test{"MaxPool", window, {x}, {0}, 2};
    std::vector<Tensor> expected = run(test), found = tapeValues(test);
    EXPECT_EQ(found[0].data, expected[0].data);
    EXPECT_EQ(found[1].data, expected[1].data);
  }
}

} // namespace pdc::test
