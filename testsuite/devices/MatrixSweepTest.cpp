#include "testsuite/devices/DrawnCase.h"

#include <gtest/gtest.h>

/// Whatever product, softmax or normalisation the compiler accepts runs, and computes what the
/// operators' references do.
namespace pdc {

namespace {

using Integers = std::vector<int64_t>;

/// Sizes with and without whole vectors.
int64_t drawSize(Draw &draw) {
  const int64_t sizes[] = {1, 2, 3, 5, 7, 15, 16, 17, 31, 33, 64, 100};
  return sizes[draw.below(std::size(sizes))];
}

/// Gemm with transposes, alpha, any bias that broadcasts, and a relu.
void checkGemm(Draw &draw) {
  UnitCase unit;
  unit.options = draw.device();
  int64_t m = drawSize(draw), k = drawSize(draw), n = drawSize(draw);
  int64_t transA = draw.below(2), transB = draw.below(2), form = draw.below(7);
  std::vector<UnitValue> inputs = {unit.operand(transA ? Integers{k, m} : Integers{m, k}),
                                   unit.operand(transB ? Integers{n, k} : Integers{k, n})};
  const Integers biases[] = {{n}, {m, n}, {1, n}, {m, 1}, {1}, {}};
  if (form < 6)
    inputs.push_back(unit.operand(biases[form]));
  double alpha = draw.flag() ? 1 : -0.75;
  SCOPED_TRACE(testing::Message() << "Gemm " << m << " " << k << " " << n << " trans " << transA
                                  << transB << " bias form " << form << " alpha " << alpha);
  UnitValue y =
      unit.node("Gemm", inputs, {{"transA", transA}, {"transB", transB}, {"alpha", alpha}});
  if (draw.flag())
    unit.node("Relu", {y});
  unit.check(4e-6);
}

/// MatMul with leading dimensions that broadcast, and vectors.
void checkMatMul(Draw &draw) {
  UnitCase unit;
  unit.options = draw.device();
  int64_t m = drawSize(draw), k = drawSize(draw), n = drawSize(draw);
  Integers a = {m, k}, b = {k, n};
  for (int64_t d = 0, rank = draw.below(4); d < rank; ++d) {
    int64_t size = 1 + draw.below(3), kind = draw.below(4);
    if (kind != 0 || d + 1 < rank)
      a.insert(a.begin(), kind == 1 ? 1 : size);
    if (kind != 3 || d + 1 < rank)
      b.insert(b.begin(), kind == 2 ? 1 : size);
  }
  if (draw.below(6) == 0)
    a = {k};
  else if (draw.below(6) == 0)
    b = {k};
  SCOPED_TRACE(testing::Message() << "MatMul " << testing::PrintToString(a) << " "
                                  << testing::PrintToString(b));
  UnitValue y = unit.node("MatMul", {unit.operand(a), unit.operand(b)});
  if (b.size() >= 2 && a.size() >= 2 && draw.flag())
    y = unit.node("Add", {y, unit.operand({n})});
  unit.check(4e-6);
}

Integers drawShape(Draw &draw, int64_t least, int64_t most) {
  Integers shape;
  for (int64_t d = 0, rank = least + draw.below(most - least + 1); d < rank; ++d)
    shape.push_back(d < 2 ? 1 + draw.below(36) : 1 + draw.below(6));
  return shape;
}

void checkSoftmax(Draw &draw) {
  UnitCase unit, gradient;
  unit.options = gradient.options = draw.device();
  Integers shape = drawShape(draw, 1, 4);
  int64_t rank = static_cast<int64_t>(shape.size()), axis = draw.below(2 * rank) - rank;
  std::string op = draw.flag() ? "Softmax" : "LogSoftmax";
  SCOPED_TRACE(testing::Message() << op << testing::PrintToString(shape) << " " << axis);
  unit.node(op, {unit.operand(shape, -3, 3)}, {{"axis", axis}});
  unit.check();
  UnitValue dy = gradient.operand(shape);
  gradient.node(op + "Grad", {dy, gradient.operand(shape, -2, 0)}, {{"axis", axis}});
  gradient.check(4e-6);
}

void checkLocalResponse(Draw &draw) {
  UnitCase unit, gradient;
  unit.options = gradient.options = draw.device();
  Integers shape = drawShape(draw, 3, 5);
  Attributes attributes = {{"size", 1 + draw.below(9)},
                           {"alpha", 0.1},
                           {"beta", draw.flag() ? 0.75 : 0.5},
                           {"bias", 1.5}};
  SCOPED_TRACE(testing::Message() << "LRN " << testing::PrintToString(shape) << " size "
                                  << attributes.integer("size", 0));
  unit.node("LRN", {unit.operand(shape)}, attributes);
  unit.check();
  UnitValue dy = gradient.operand(shape), x = gradient.operand(shape);
  gradient.node("LRNGrad", {dy, x, gradient.operand(shape)}, attributes);
  gradient.check();
}

void checkNormalisation(Draw &draw) {
  UnitCase unit;
  unit.options = draw.device();
  Integers shape = drawShape(draw, 2, 5);
  shape[0] += 1;
  int64_t c = shape[1];
  SCOPED_TRACE(testing::Message() << "BatchNormalization " << testing::PrintToString(shape));
  UnitValue y = unit.node("BatchNormInternal",
                          {unit.operand(shape, 2, 5), unit.operand({c}, 0.5, 2), unit.operand({c}),
                           unit.operand({c}), unit.operand({c}, 0.5, 2)},
                          {{"epsilon", 1e-3}, {"momentum", 0.9}}, 5);
  for (int r = 0; r < 5; ++r)
    unit.result(UnitValue::node(y.index, r));
  unit.check(1e-4);
}

template <class Check> void runDrawn(Check check) {
  Draw draw(5);
  for (int i = 0; i < 200; ++i) {
    unlessRefused([&] {
      check(draw);
      return true;
    });
    if (testing::Test::HasFailure())
      return;
  }
}

} // namespace

TEST(MatrixSweep, Gemm) { runDrawn(checkGemm); }
TEST(MatrixSweep, MatMul) { runDrawn(checkMatMul); }
TEST(MatrixSweep, Softmax) { runDrawn(checkSoftmax); }
TEST(MatrixSweep, LocalResponse) { runDrawn(checkLocalResponse); }
TEST(MatrixSweep, Normalisation) { runDrawn(checkNormalisation); }

} // namespace pdc
