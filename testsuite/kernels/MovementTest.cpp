#include "testsuite/kernels/EitherDevice.h"

#include <gtest/gtest.h>

namespace pdc {

TEST(Kernels, Reorder) {
  for (std::string from : {"", "ABcd16b16a"})
    for (std::string to : {"ABcd16a16b", "Acdb16a", "ABcd8b8a"}) {
      UnitCase unit;
      unit.node("Reorder", {unit.operand({20, 33, 3, 3}, -1, 1, from)}, {{"layout", to}});
      unit.check(0);
    }
}

TEST(Kernels, Reduction) {
  for (std::vector<int64_t> axes : {std::vector<int64_t>{0}, {1, 3}, {0, 1, 2, 3}}) {
    UnitCase unit;
    UnitValue x = unit.operand({2, 3, 4, 5});
    unit.node("ReduceSum", {x, unit.constant(Tensor::vector(axes))}, {{"keepdims", int64_t(0)}});
    unit.check();
  }
  // Columns behind what is kept and in two dimensions, fewer and more than are summed at once; and
  // packed ones, which have a kernel of their own.
  for (const auto &[shape, axes] :
       {std::pair<std::vector<int64_t>, std::vector<int64_t>>{{33, 50}, {0}},
        {{3, 40, 130}, {1}},
        {{3, 40, 5}, {1}},
        {{5, 3, 7, 64}, {0, 2}},
        {{5, 2, 1, 3}, {0, 2}},
        {{2, 9, 4, 65}, {1}}}) {
    UnitCase columns;
    UnitValue x = columns.operand(shape);
    columns.node("ReduceSum", {x, columns.constant(Tensor::vector(axes))},
                 {{"keepdims", int64_t(0)}});
    columns.check();
  }
  UnitCase mean;
  mean.node("ReduceMean", {mean.operand({4, 5, 6}), mean.constant(Tensor::vector({1, 2}))});
  mean.check();
}

TEST(Kernels, MaximaProductsAndSums) {
  for (const char *op : {"ReduceMax", "ReduceProd"})
    for (const auto &[shape, axes] :
         {std::pair<std::vector<int64_t>, std::vector<int64_t>>{{2, 3, 4, 5}, {0}},
          {{2, 3, 4, 5}, {1, 3}},
          {{2, 3, 4, 5}, {0, 1, 2, 3}},
          {{3, 40, 130}, {1}},
          {{3, 40, 130}, {2}},
          {{3, 7, 33}, {0, 2}},
          {{3, 7, 33}, {0, 1}}}) {
      UnitCase unit;
      UnitValue x = unit.operand(shape, 0.5, 1.5);
      unit.node(op, {x, unit.constant(Tensor::vector(axes))});
      unit.check();
    }
  for (int64_t reverse : {0, 1})
    for (int64_t exclusive : {0, 1})
      for (int64_t axis : {0, 1, -1}) {
        UnitCase unit;
        UnitValue x = unit.operand({4, 3, 50});
        unit.node("CumSum", {x, unit.constant(Tensor::scalar(ElementType::i64, axis))},
                  {{"reverse", reverse}, {"exclusive", exclusive}});
        unit.check();
      }
}

TEST(Kernels, AlongAnAxis) { expectAlongAnAxis<UnitCase>(); }

/// Large enough for threads, which must not show in the bits.
TEST(Kernels, MovementBitsDoNotDependOnThreads) {
  auto bits = [](int threads, auto build) {
    UnitCase unit;
    unit.options.threads = threads;
    build(unit);
    unit.check();
    return unit.stored;
  };
  auto same = [&](auto build) { EXPECT_EQ(bits(1, build), bits(2, build)); };
  same([](UnitCase &u) {
    u.node("Transpose", {u.operand({50, 31, 47})}, {{"perm", std::vector<int64_t>{2, 0, 1}}});
  });
  same([](UnitCase &u) {
    u.node("Transpose", {u.operand({5, 83, 70})}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  });
  same([](UnitCase &u) {
    UnitValue x = u.operand({210, 230});
    u.node("Pad", {x, u.constant(Tensor::vector({1, -1, 2, 3}))});
  });
  for (std::vector<int64_t> axes : {std::vector<int64_t>{0}, {1}, {0, 1}, {0, 2}})
    same([&](UnitCase &u) {
      UnitValue x = u.operand({40, 50, 30});
      u.node("ReduceSum", {x, u.constant(Tensor::vector(axes))}, {{"keepdims", int64_t(0)}});
    });
}

TEST(Kernels, Movement) {
  auto check = [](auto build) {
    UnitCase unit;
    build(unit);
    unit.check(0);
  };
  check([](UnitCase &u) {
    u.node("Transpose", {u.operand({2, 3, 4})}, {{"perm", std::vector<int64_t>{2, 0, 1}}});
  });
  for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 33, 50}, {3, 64, 128}, {2, 1, 5}})
    check([&](UnitCase &u) {
      u.node("Transpose", {u.operand(shape)}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
    });
  check([](UnitCase &u) {
    UnitValue a = u.operand({2, 3, 4}), b = u.operand({2, 1, 4});
    u.node("Concat", {a, b, u.operand({2, 2, 4})}, {{"axis", int64_t(1)}});
  });
  check([](UnitCase &u) {
    UnitValue x = u.operand({5, 6, 7});
    u.node("Slice", {x, u.constant(Tensor::vector({1, -1})), u.constant(Tensor::vector({4, -8})),
                     u.constant(Tensor::vector({0, 2})), u.constant(Tensor::vector({2, -3}))});
  });
  check([](UnitCase &u) {
    UnitValue dy = u.operand({2, 6, 7});
    u.node("SliceGrad", {dy, u.constant(Tensor::vector({5, 6, 7})), u.constant(Tensor::vector({1})),
                         u.constant(Tensor::vector({4})), u.constant(Tensor::vector({0})),
                         u.constant(Tensor::vector({2}))});
  });
  check([](UnitCase &u) {
    UnitValue x = u.operand({3, 4});
    u.node("Pad", {x, u.constant(Tensor::vector({1, -1, 2, 3})),
                   u.constant(Tensor::scalar(ElementType::f32, 0.5))});
  });
  check([](UnitCase &u) {
    UnitValue dy = u.operand({6, 6});
    u.node("PadGrad", {dy, u.constant(Tensor::vector({1, -1, 2, 3}))},
           {{"input_shape", std::vector<int64_t>{3, 4}}});
  });
  check([](UnitCase &u) {
    UnitValue x = u.operand({3, 1});
    u.node("Expand", {x, u.constant(Tensor::vector({2, 3, 4}))});
  });
  check([](UnitCase &u) {
    UnitValue x = u.operand({3, 5, 2});
    u.node("Gather", {x, u.integers({4}, -5, 4)}, {{"axis", int64_t(1)}});
  });
}

TEST(Kernels, GatherGradient) {
  UnitCase unit;
  UnitValue shape = unit.constant(Tensor::vector({6, 3})), indices = unit.integers({2, 4}, 0, 5);
  unit.node("GatherGrad", {shape, indices, unit.operand({2, 4, 3})});
  unit.check();
}

/// Some rows have none, some several.
TEST(Kernels, ScatterMaximum) {
  UnitCase unit;
  UnitValue shape = unit.constant(Tensor::vector({9, 70})), indices = unit.integers({12}, -9, 8);
  unit.node("ScatterMax", {shape, indices, unit.operand({12, 70})});
  unit.check();
}

TEST(Kernels, PartsOfImages) { expectPartsOfImages<UnitCase>("aBcd16b", false); }

} // namespace pdc
