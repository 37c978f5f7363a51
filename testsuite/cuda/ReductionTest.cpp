#include "testsuite/cuda/CudaCase.h"

#include <gtest/gtest.h>

namespace pdc {

TEST(CudaKernels, Reductions) {
  for (std::vector<int64_t> axes : {std::vector<int64_t>{0}, {1, 3}, {0, 1, 2, 3}})
    expectReference([&](UnitCase &u) {
      UnitValue x = u.operand({2, 3, 4, 5});
      u.node("ReduceSum", {x, u.constant(Tensor::vector(axes))}, {{"keepdims", int64_t(0)}});
    });
  expectReference([](UnitCase &u) {
    UnitValue x = u.operand({700, 50});
    u.node("ReduceSum", {x, u.constant(Tensor::vector({0}))}, {{"keepdims", int64_t(0)}});
  });
  expectReference([](UnitCase &u) {
    u.node("ReduceMean", {u.operand({4, 50, 60}), u.constant(Tensor::vector({1, 2}))});
  });
  // Results side by side.
  for (int64_t width : {16, 37, 64})
    expectReference([&](UnitCase &u) {
      u.node("ReduceMean", {u.operand({3, 19, width}), u.constant(Tensor::vector({1}))});
    });
}

/// Images as they lie on GPUs, channels innermost.
TEST(CudaKernels, ReductionsOfImages) {
  for (std::vector<int64_t> axes : {std::vector<int64_t>{2, 3}, {0, 2, 3}, {1}, {0, 3}})
    expectReference([&](UnitCase &u) {
      UnitValue x = u.operand({2, 35, 4, 5}, -1, 1, "acdb");
      u.node("ReduceSum", {x, u.constant(Tensor::vector(axes))}, {{"keepdims", int64_t(1)}});
    });
}

/// Of so many elements that each of the few sums has several blocks, as many as there are at most.
TEST(CudaKernels, LongReductions) {
  for (std::vector<int64_t> axes : {std::vector<int64_t>{0, 2, 3}, {0, 1, 2, 3}})
    expectReference([&](UnitCase &u) {
      UnitValue x = u.operand({4, 3, 50, 61});
      u.node("ReduceSum", {x, u.constant(Tensor::vector(axes))}, {{"keepdims", int64_t(0)}});
    });
  for (const char *op : {"ReduceMax", "ReduceProd"})
    for (std::vector<int64_t> axes : {std::vector<int64_t>{0, 2}, {0, 1, 2}, {1}})
      expectReference([&](UnitCase &u) {
        UnitValue x = u.operand({90, 2, 101}, 0.9999, 1.0001);
        u.node(op, {x, u.constant(Tensor::vector(axes))});
      });
  expectReference([](UnitCase &u) { u.node("ReduceMean", {u.operand({7, 5003})}); });
  expectReference([](UnitCase &u) { u.node("ReduceMean", {u.operand({3, 721'003})}); });
}

} // namespace pdc
