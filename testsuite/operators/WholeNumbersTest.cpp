#include "testsuite/operators/Tape.h"

/// Integers, which no kernel of floating point holds exactly.
namespace pdc::test {

namespace {

Tensor wholeNumbers(std::vector<int64_t> shape, std::vector<double> values) {
  return {{ElementType::i64, std::move(shape)}, std::move(values)};
}

} // namespace

/// No kernel sums 32 bits.
TEST(WholeNumbers, SumsOfShortIntegers) {
  const Tensor x = {{ElementType::i32, {2, 3}}, {1, 1, 0, 4, -2, 2147483645}};
  Tape tape;
  const Tensor axis = Tensor::scalar(ElementType::i64, 1);
  const Tensor sums = *Tape::tensor(
      tape.add("CumSum", {tape.hold(x), tape.hold(axis)}, {{"exclusive", int64_t(1)}}, 1)[0]);
  EXPECT_EQ(sums.type.element, ElementType::i32);
  EXPECT_EQ(sums.data, (std::vector<double>{0, 1, 2, 0, 4, 2}));
  std::string nodes;
  for (const Tape::Node &node : tape.nodes)
    nodes += node.op + " ";
  EXPECT_EQ(nodes, "Cast CumSum Cast ");
  EXPECT_EQ(tape.nodes.at(1).inputs.at(0)->type.element, ElementType::i64);
}

/// Of numbers that f32 does not hold, five and four of them; the first and the last of equal ones.
TEST(WholeNumbers, ReductionsOfWholeNumbers) {
  const double big = 1LL << 40;
  const Tensor x = wholeNumbers({2, 5, 2}, {1, 9, big, 2, -3, 7, big + 1, 7, big + 1, 9, //
                                            0, 4, 3,   4, 8,  1, 5,       1, 2,       0});
  const Tensor axis = wholeNumbers({1}, {1}), outer = wholeNumbers({2}, {0, 2});
  auto value = [&](const char *op, Attributes attributes, std::vector<Tensor> inputs) {
    return tapeValue({op, std::move(attributes), std::move(inputs), {}});
  };
  const Attributes dropped = {{"keepdims", int64_t(0)}};
  EXPECT_EQ(value("ReduceSum", dropped, {x, axis}).data,
            (std::vector<double>{3 * big, 34, 18, 10}));
  EXPECT_EQ(value("ReduceMax", dropped, {x, axis}).data, (std::vector<double>{big + 1, 9, 8, 4}));
  EXPECT_EQ(value("ReduceMin", dropped, {x, axis}).data, (std::vector<double>{-3, 2, 0, 0}));
  const Tensor sums = value("ReduceSum", {}, {x, outer});
  EXPECT_EQ(sums.type.toString(), "i64[1,5,1]");
  EXPECT_EQ(sums.data, (std::vector<double>{14, big + 9, 13, big + 14, big + 12}));
  EXPECT_EQ(value("ReduceProd", {}, {wholeNumbers({3}, {3, -2, big})}).data,
            (std::vector<double>{-6 * big}));
  Attributes along = {{"axis", int64_t(1)}, {"keepdims", int64_t(0)}};
  EXPECT_EQ(value("ArgMax", along, {x}).data, (std::vector<double>{3, 0, 2, 0}));
  along.set("select_last_index", int64_t(1));
  EXPECT_EQ(value("ArgMax", along, {x}).data, (std::vector<double>{4, 4, 2, 1}));
}

/// Sums of products that f32 does not hold; and no dimension of 1 is repeated.
TEST(WholeNumbers, ProductsOfMatrices) {
  const double big = (1LL << 40) + 1;
  const Tensor left = wholeNumbers({2, 1, 2}, {big, 2, 3, -4}),
               right = wholeNumbers({2, 1}, {3, big});
  const Tensor product = tapeValue({"MatMul", {}, {left, right}, {}});
  EXPECT_EQ(product.type.toString(), "i64[2,1,1]");
  EXPECT_EQ(product.data, (std::vector<double>{5 * big, 9 - 4 * big}));
  EXPECT_EQ(tapeValue({"Einsum",
                       {{"equation", "q,k->qk"}},
                       {wholeNumbers({2}, {big, 1}), wholeNumbers({2}, {0, 2})},
                       {}})
                .data,
            (std::vector<double>{0, 2 * big, 0, 2}));
  EXPECT_THROW(
      tapeValue({"MatMul", {}, {wholeNumbers({1, 2}, {1, 2}), wholeNumbers({1, 1}, {3})}, {}}),
      Error);
}

/// Two that f32 takes for one.
TEST(WholeNumbers, LargestOfWholeNumbers) {
  const double big = 1LL << 40;
  const Tensor x = wholeNumbers({5}, {1, big, -3, big + 1, 7});
  const Case test{"TopK", {}, {x, wholeNumbers({1}, {3})}, {}, 2};
  const std::vector<Tensor> top = tapeValues(test);
  EXPECT_EQ(top[0].data, (std::vector<double>{big + 1, big, 7}));
  EXPECT_EQ(top[1].data, (std::vector<double>{3, 1, 4}));
  const Tensor bytes = {{ElementType::u8, {4}}, {200, 3, 255, 3}};
  EXPECT_EQ(
      tapeValue({"TopK", {{"largest", int64_t(0)}}, {bytes, wholeNumbers({1}, {2})}, {}}).data,
      (std::vector<double>{3, 3}));
}

/// Numbers that f32 does not hold are put into places as they are: an inverse permutation of them,
/// and rows of which one stays.
TEST(WholeNumbers, PutsIntoPlaces) {
  const double big = (1LL << 40) + 1;
  const Tensor data = wholeNumbers({4}, {0, 0, 0, 0}), order = wholeNumbers({4}, {2, 0, 3, 1});
  const Case elements{
      "ScatterElements", {}, {data, order, wholeNumbers({4}, {big, -big, 0, 7})}, {}};
  EXPECT_EQ(tapeValue(elements).data, (std::vector<double>{-big, 7, big, 0}));
  const Case rows{"ScatterND",
                  {},
                  {wholeNumbers({3, 2}, {1, 2, 3, 4, 5, 6}), wholeNumbers({2, 1}, {2, 0}),
                   wholeNumbers({2, 2}, {big, 8, 9, -big})},
                  {}};
  EXPECT_EQ(tapeValue(rows).data, (std::vector<double>{9, -big, 3, 4, big, 8}));
  const Case repeated{"ScatterElements",
                      {},
                      {wholeNumbers({3}, {5, 6, 7}), wholeNumbers({4}, {2, 0, 2, 2}),
                       wholeNumbers({4}, {big, big, big, big})},
                      {}};
  EXPECT_EQ(tapeValue(repeated).data, (std::vector<double>{big, 6, big}));
}

/// Negated, the least number of a type is itself.
TEST(WholeNumbers, LeastOfWholeNumbers) {
  const double least = -0x1p31, most = 0x1p31 - 1;
  const Tensor x = {{ElementType::i32, {2, 3}}, {7, least, most, most, 4, 4}};
  const Attributes along = {{"axis", int64_t(1)}, {"keepdims", int64_t(0)}};
  auto onlyOp = [&](const char *op, Attributes attributes, std::vector<Tensor> inputs) {
    Tape tape;
    std::vector<GradientValue> operands;
    for (const Tensor &input : inputs)
      operands.push_back(tape.hold(input));
    const Tensor result = *Tape::tensor(tape.add(op, operands, attributes, 1)[0]);
    for (const Tape::Node &node : tape.nodes)
      EXPECT_NE(node.op, "Neg");
    return result.data;
  };
  using Numbers = std::vector<double>;
  const Tensor axis = wholeNumbers({1}, {1});
  EXPECT_EQ(onlyOp("ReduceMin", {{"keepdims", int64_t(0)}}, {x, axis}), (Numbers{least, 4}));
  EXPECT_EQ(onlyOp("ArgMin", along, {x}), (Numbers{1, 1}));
  Attributes last = along;
  last.set("select_last_index", int64_t(1));
  EXPECT_EQ(onlyOp("ArgMin", last, {x}), (Numbers{1, 2}));
  EXPECT_EQ(tapeValue({"ReduceSum", {{"noop_with_empty_axes", int64_t(1)}}, {x}, {}}).data, x.data);
}

/// Broadcasting bounds would change the shape.
TEST(WholeNumbers, BoundsAreNumbers) {
  const Tensor x = wholeNumbers({3}, {1, 5, 9}), bounds = wholeNumbers({2, 1}, {2, 3});
  EXPECT_THROW(tapeValue({"OneSidedClip", {}, {x, bounds}, {}}), Error);
  EXPECT_THROW(tapeValue({"Clip", {}, {x, bounds, bounds}, {}}), Error);
  EXPECT_THROW(tapeValue({"OneSidedClip", {}, {x, wholeNumbers({1, 1}, {2})}, {}}), Error);
  EXPECT_EQ(tapeValue({"OneSidedClip", {}, {x, Tensor::scalar(ElementType::i64, 4)}, {}}).data,
            (std::vector<double>{4, 5, 9}));
}

/// Quotients are rounded towards zero; remainders have the sign of the divisor, or that of the
/// dividend with fmod, as C++'s.
TEST(WholeNumbers, QuotientsOfWholeNumbers) {
  const Tensor a = wholeNumbers({6}, {7, -7, 7, -7, 9007199254740991, 6});
  const Tensor b = wholeNumbers({6}, {3, 3, -3, -3, 2, 6});
  using Numbers = std::vector<double>;
  EXPECT_EQ(tapeValue({"Div", {}, {a, b}, {}}).data, (Numbers{2, -2, -2, 2, 4503599627370495, 1}));
  EXPECT_EQ(tapeValue({"Mod", {}, {a, b}, {}}).data, (Numbers{1, 2, -2, -1, 1, 0}));
  EXPECT_EQ(tapeValue({"Mod", {{"fmod", int64_t(1)}}, {a, b}, {}}).data,
            (Numbers{1, -1, 1, -1, 1, 0}));
}

/// As C++'s of the same elements, two's complements among them.
TEST(WholeNumbers, BitsOfWholeNumbers) {
  const std::vector<double> left = {12, -7, 0, 255, 1 << 20}, right = {10, 3, -1, 16, -(1 << 10)};
  const Tensor a = wholeNumbers({5}, left), b = wholeNumbers({5}, right);
  std::vector<double> both, either, one, none;
  for (size_t i = 0; i < left.size(); ++i) {
    const auto x = int64_t(left[i]), y = int64_t(right[i]);
    both.push_back(double(x & y)), either.push_back(double(x | y)), one.push_back(double(x ^ y));
    none.push_back(double(~x));
  }
  EXPECT_EQ(tapeValue({"BitwiseAnd", {}, {a, b}, {}}).data, both);
  EXPECT_EQ(tapeValue({"BitwiseOr", {}, {a, b}, {}}).data, either);
  EXPECT_EQ(tapeValue({"BitwiseXor", {}, {a, b}, {}}).data, one);
  EXPECT_EQ(tapeValue({"BitwiseNot", {}, {a}, {}}).data, none);
}

/// Of more bits than an element has, the lowest.
TEST(WholeNumbers, ElementsOfFewBits) {
  const Tensor bytes{{ElementType::u8, {3}}, {0, 200, 255}};
  EXPECT_EQ(tapeValue({"BitwiseNot", {}, {bytes}, {}}).data, (std::vector<double>{255, 55, 0}));
  EXPECT_EQ(tapeValue({"Add", {}, {bytes, bytes}, {}}).data, (std::vector<double>{0, 144, 254}));
  EXPECT_EQ(toElement(ElementType::i8, 200.5), -56);
  EXPECT_EQ(toElement(ElementType::i32, 0x1p31), -0x1p31);
  EXPECT_EQ(toElement(ElementType::i64, -2.5), -2);
  EXPECT_EQ(toElement(ElementType::boolean, 0.5), 1);
}

} // namespace pdc::test
