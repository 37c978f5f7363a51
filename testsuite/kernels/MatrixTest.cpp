#include "testsuite/kernels/UnitCase.h"

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

} // namespace pdc
