#include "compiler/devices/LibraryAnswer.h"
#include "testsuite/kernels/KernelCalls.h"

#include <gtest/gtest.h>

/// Workspace bounds of matrix products and pooling: a kernel's constructor refuses too little.
namespace pdc {

namespace {

void expectRuns(std::string_view op, std::vector<TensorType> operands,
                std::vector<TensorType> results, Attributes attributes, int threads, int width) {
  UnitView unit;
  unit.name = op;
  UnitNode node{op, op, &attributes, {}, results};
  for (TensorType &type : operands) {
    node.inputs.push_back(UnitValue::operand(static_cast<int>(unit.operands.size())));
    unit.operands.push_back(std::move(type));
  }
  unit.nodes = {node};
  for (size_t i = 0; i < results.size(); ++i)
    unit.results.push_back(UnitValue::node(0, static_cast<int>(i)));
  KernelChoice choice = chooseKernel(unit, {true, threads, width});
  EXPECT_NO_THROW(makeKernel(choice, {threads, choice.workspaceBytes}));
}

TensorType f32(std::vector<int64_t> shape) { return {ElementType::f32, std::move(shape)}; }

} // namespace

TEST(BoundsSweep, MatrixProducts) {
  for (int64_t m : {1, 8, 64, 128, 1000, 1024})
    for (int64_t k : {1, 10, 84, 400, 784, 2048, 3072, 9216})
      for (int64_t n : {1, 10, 100, 512, 2048})
        for (int64_t form = 0; form < 4; ++form)
          for (int threads : {1, 2, 8}) {
            std::vector<int64_t> a = {m, k}, b = {k, n};
            if (form & 1)
              std::swap(a[0], a[1]);
            if (form & 2)
              std::swap(b[0], b[1]);
            expectRuns("Gemm", {f32(a), f32(b)}, {f32({m, n})},
                       {{"transA", form & 1}, {"transB", form >> 1}}, threads,
                       detectDevice().vectorWidth);
            ASSERT_FALSE(HasFailure())
                << m << " " << k << " " << n << " " << form << " " << threads;
          }
}

TEST(BoundsSweep, Pooling) {
  for (int64_t channels : {1, 3, 6, 16, 24, 64, 512})
    for (int64_t size : {4, 7, 14, 28, 112})
      for (int64_t kernel : {2, 3, 4})
        for (int threads : {1, 2, 8})
          for (int width : {16, 8}) {
            if (!canAskLibrary({true, threads, width}))
              continue; // it has no kernels of this width
            int64_t pooled = (size - kernel) / 2 + 1;
            TensorType x = f32({2, channels, size, size}), y = f32({2, channels, pooled, pooled});
            TensorType positions{ElementType::i64, y.shape};
            Attributes window = {{"kernel_shape", std::vector<int64_t>{kernel, kernel}},
                                 {"strides", std::vector<int64_t>{2, 2}},
                                 {"input_shape", x.shape}};
            expectRuns("MaxPool", {x}, {y, positions}, window, threads, width);
            expectRuns("MaxPool", {x}, {y}, window, threads, width);
            expectRuns("MaxPoolGrad", {y, positions}, {x}, window, threads, width);
            expectRuns("AveragePool", {x}, {y}, window, threads, width);
            expectRuns("AveragePoolGrad", {y}, {x}, window, threads, width);
            ASSERT_FALSE(HasFailure())
                << channels << " " << size << " " << kernel << " " << threads;
          }
}

} // namespace pdc
