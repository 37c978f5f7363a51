#include "testsuite/kernels/UnitCase.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pdc {

TEST(Kernels, MatrixProduct) {
  for (auto [m, k, n] : {std::tuple{4, 5, 6}, {64, 84, 10}, {32, 100, 33}, {1, 7, 1}})
    for (int64_t transA : {0, 1})
      for (int64_t transB : {0, 1})
        for (int form : {0, 1, 2, 3}) {
          UnitCase unit;
          std::vector<UnitValue> inputs = {
              unit.operand(transA ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k}),
              unit.operand(transB ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n})};
          if (form > 0)
            inputs.push_back(
                unit.operand(form == 1 ? std::vector<int64_t>{n} : std::vector<int64_t>{m, n}));
          UnitValue y =
              unit.node("Gemm", inputs, {{"transA", transA}, {"transB", transB}, {"alpha", 0.5}});
          if (form == 3)
            unit.node("Relu", {y});
          unit.check();
        }
}

TEST(Kernels, BatchedMatrixProduct) {
  struct Shapes {
    std::vector<int64_t> a, b;
  };
  for (const auto &[a, b] : std::vector<Shapes>{{{2, 3, 4, 5}, {2, 3, 5, 6}},
                                                {{2, 4, 5}, {5, 6}},
                                                {{3, 1, 4, 5}, {1, 2, 5, 6}},
                                                {{5}, {5, 6}},
                                                {{4, 5}, {5}}}) {
    UnitCase unit;
    unit.node("MatMul", {unit.operand(a), unit.operand(b)});
    unit.check();
  }
  UnitCase unit;
  UnitValue y = unit.node("MatMul", {unit.operand({3, 4, 5}), unit.operand({5, 6})});
  unit.node("Relu", {unit.node("Add", {y, unit.operand({6})})});
  unit.check();
}

/// A resize along the last axis: one matrix times a batch of columns, also with what is added.
TEST(Kernels, OneMatrixTimesColumns) {
  for (int64_t transA : {0, 1})
    for (int64_t transB : {0, 1})
      for (const std::vector<int64_t> &bias :
           std::vector<std::vector<int64_t>>{{}, {1}, {7, 1}, {3, 2, 7, 1}}) {
        UnitCase unit;
        UnitValue a =
            unit.operand(transA ? std::vector<int64_t>{5, 7} : std::vector<int64_t>{7, 5});
        UnitValue b = unit.operand(transB ? std::vector<int64_t>{3, 2, 1, 5}
                                          : std::vector<int64_t>{3, 2, 5, 1});
        UnitValue y = unit.node("FusedMatMul", {a, b},
                                {{"transA", transA}, {"transB", transB}, {"alpha", 0.5}});
        if (!bias.empty())
          unit.node("Relu", {unit.node("Add", {y, unit.operand(bias)})});
        unit.check();
      }
}

/// The weights of linear layers lie transposed; batches of rows, batches of matrices, with what is
/// added behind.
TEST(Kernels, ProductsOfTransposedOperands) {
  struct Case {
    std::vector<int64_t> a, b;
    int64_t transA, transB;
  };
  for (const Case &one : std::vector<Case>{{{2, 5, 4}, {6, 4}, 0, 1},
                                           {{2, 4, 5}, {2, 6, 4}, 1, 1},
                                           {{2, 4, 5}, {4, 6}, 1, 0},
                                           {{2, 70, 64}, {3072, 64}, 0, 1}})
    for (bool adds : {false, true}) {
      UnitCase unit;
      UnitValue y = unit.node("FusedMatMul", {unit.operand(one.a), unit.operand(one.b)},
                              {{"transA", one.transA}, {"transB", one.transB}, {"alpha", 1.0}});
      const int64_t columns = one.b[one.b.size() - (one.transB ? 2 : 1)];
      if (adds)
        unit.node("Relu", {unit.node("Add", {y, unit.operand({columns})})});
      unit.check();
    }
}

/// Their rows are packed before they are read.
TEST(Kernels, ProductsWithRowsThatShareLinesOfTheCache) {
  for (int64_t transA : {0, 1})
    for (bool hasBias : {false, true}) {
      UnitCase unit;
      std::vector<UnitValue> inputs = {
          unit.operand(transA ? std::vector<int64_t>{70, 130} : std::vector<int64_t>{130, 70}),
          unit.operand({70, 3072})};
      if (hasBias)
        inputs.push_back(unit.operand({3072}));
      unit.node("Gemm", inputs, {{"transA", transA}});
      unit.check();
    }
  for (int64_t transB : {0, 1}) { // as the gradient of a weight reads them
    UnitCase unit;
    unit.node("Gemm",
              {unit.operand({70, 1024}),
               unit.operand(transB ? std::vector<int64_t>{66, 70} : std::vector<int64_t>{70, 66})},
              {{"transA", int64_t(1)}, {"transB", transB}});
    unit.check();
  }
}

/// A batch of rows is one matrix, unless what is added differs between rows.
TEST(Kernels, ProductsOfABatchOfRows) {
  for (std::vector<int64_t> bias : {std::vector<int64_t>{3072},
                                    {1, 1, 1},
                                    {2, 65, 3072},
                                    {65, 3072},
                                    {65, 1},
                                    {2, 1, 3072},
                                    {2, 1, 1}}) {
    UnitCase unit;
    UnitValue y = unit.node("MatMul", {unit.operand({2, 65, 64}), unit.operand({64, 3072})});
    unit.node("Relu", {unit.node("Add", {y, unit.operand(bias)})});
    unit.check();
  }
}

/// Sums that no cache holds are added in parts: their last one is not whole, and one has more rows
/// than a part.
TEST(Kernels, SumsOfProductsBeyondTheCaches) {
  for (auto [rows, columns] : {std::pair{901, 900}, {33, 20000}})
    for (int64_t transA : {0, 1}) {
      UnitCase unit;
      UnitValue a =
          unit.operand(transA ? std::vector<int64_t>{3, rows} : std::vector<int64_t>{rows, 3});
      unit.node("Gemm", {a, unit.operand({3, columns})}, {{"transA", transA}, {"alpha", 0.5}});
      unit.check();
    }
}

/// A weight of 16 MiB, its gradient, and what it passes on: none has a copy in workspace.
TEST(Kernels, ProductsKeepNoCopyOfTheirOperands) {
  struct Case {
    std::vector<int64_t> a, b;
    int64_t transA, transB;
  };
  for (const Case &one : {Case{{16, 2048}, {2048, 2048}, 0, 0},
                          {{16, 2048}, {2048, 2048}, 0, 1},
                          {{16, 2048}, {16, 2048}, 1, 0}}) {
    UnitCase unit;
    unit.node("Gemm", {unit.operand(one.a), unit.operand(one.b)},
              {{"transA", one.transA}, {"transB", one.transB}});
    unit.check();
    EXPECT_LT(unit.choice.workspaceBytes, 4 << 20);
  }
}

/// Sources that are for another device: the kernels for CPUs know one way to multiply.
TEST(Kernels, ProductsInTf32AreRefused) {
  auto expectRefusal = [](UnitCase &unit) {
    unit.check();
    unit.choice.fields.set("compute", std::string("tf32"));
    try {
      makeKernel(unit.choice, unit.device);
      FAIL() << unit.choice.kernel << " is made";
    } catch (const std::exception &error) {
      EXPECT_THAT(error.what(), testing::EndsWith("multiplies in tf32, which the kernels for CPUs "
                                                  "do not; run pdc again with --precision fp32"));
    }
  };
  UnitCase product, convolution;
  product.node("MatMul", {product.operand({4, 5}), product.operand({5, 6})});
  expectRefusal(product);
  convolution.node("Conv", {convolution.operand({1, 4, 5, 5}), convolution.operand({4, 4, 1, 1})},
                   {{"kernel_shape", std::vector<int64_t>{1, 1}}});
  expectRefusal(convolution);
}

} // namespace pdc
