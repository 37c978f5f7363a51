#include "runtime/Error.h"
#include "runtime/kernels/Gather.h"
#include "runtime/kernels/GatherGradient.h"
#include "runtime/kernels/TopK.h"
#include "testsuite/kernels/EitherDevice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

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
          {{70, 3, 4}, {2}}, // few, of more results than are found together
          {{5, 4, 33}, {1}},
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

/// Rows of one to five elements, which move as one; a slice begins within one.
TEST(Kernels, MovementOfFewElementsTogether) {
  auto check = [](auto build) {
    UnitCase unit;
    build(unit);
    unit.check(0);
  };
  for (int64_t inner : {1, 2, 3, 4, 5}) {
    check([&](UnitCase &u) {
      u.node("Transpose", {u.operand({3, 70, 66, inner})},
             {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    });
    check([&](UnitCase &u) {
      u.node("Transpose", {u.operand({3, 7, 5, inner})},
             {{"perm", std::vector<int64_t>{2, 1, 0, 3}}});
    });
    for (int64_t first : {int64_t(1), inner})
      check([&](UnitCase &u) {
        UnitValue x = u.operand({40, 4 * inner});
        u.node("Slice",
               {x, u.constant(Tensor::vector({first})), u.constant(Tensor::vector({first + inner})),
                u.constant(Tensor::vector({1}))});
      });
    check([&](UnitCase &u) {
      UnitValue a = u.operand({70, 130, inner}), b = u.operand({70, 130, 2});
      u.node("Concat", {a, b, u.operand({70, 130, inner})}, {{"axis", int64_t(2)}});
    });
    check([&](UnitCase &u) {
      const UnitValue node = u.node(
          "Split",
          {u.operand({70, 130, 2 * inner + 1}), u.constant(Tensor::vector({inner, 1, inner}))},
          {{"axis", int64_t(2)}}, 3);
      for (int part : {0, 2})
        u.result(UnitValue::node(node.index, part));
    });
  }
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

/// Single elements, more than one thread takes at once; sums of equal indices keep their order.
TEST(Kernels, GatherOfSingleElements) {
  for (auto [outer, count, size] :
       {std::array<int64_t, 3>{3, 5, 4}, {1, 70000, 300}, {7, 9001, 50}})
    for (int threads : {1, 3}) {
      std::mt19937 random(5);
      std::vector<float> x(outer * size), y(outer * count), dx(x.size(), 0.5f), sums = dx;
      for (float &value : x)
        value = std::ldexp(static_cast<float>(random()), -20);
      std::vector<int32_t> indices(count);
      for (int32_t &index : indices)
        index = static_cast<int32_t>(random() % (2 * size)) - static_cast<int32_t>(size);
      const runtime::GatherFields fields{.count = count, .inner = 1, .outer = outer, .size = size};
      const runtime::Device device{threads, 0};
      runtime::Gather(device, fields)(runtime::Run(), x.data(), indices.data(), y.data());
      runtime::GatherGradient(device, fields)(runtime::Run(), indices.data(), y.data(), dx.data(),
                                              true);
      for (int64_t i = 0; i < outer * count; ++i) {
        const int64_t index = indices[i % count],
                      from = i / count * size + (index < 0 ? index + size : index);
        ASSERT_EQ(y[i], x[from]) << i;
        sums[from] += y[i];
      }
      EXPECT_EQ(dx, sums);
      indices[count / 2] = static_cast<int32_t>(size);
      EXPECT_THROW(
          runtime::Gather(device, fields)(runtime::Run(), x.data(), indices.data(), y.data()),
          runtime::DataError);
    }
}

/// As a stable sort has it: of equal ones the first comes first, and NaN is the largest.
template <class T> static void expectTopK(const runtime::TopKFields &f, const std::vector<T> &x) {
  std::vector<int64_t> y(f.outer * f.count * f.inner), order(f.size);
  runtime::TopK(runtime::Device{2, 0}, f)(runtime::Run(), x.data(), y.data());
  for (int64_t line = 0; line < f.outer * f.inner; ++line) {
    const T *from = x.data() + line / f.inner * f.size * f.inner + line % f.inner;
    auto isLess = [&](int64_t a, int64_t b) {
      const T first = from[a * f.inner], second = from[b * f.inner];
      return first < second || (first == first && second != second);
    };
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(
        order, [&](int64_t a, int64_t b) { return f.largest ? isLess(b, a) : isLess(a, b); });
    for (int64_t k = 0; k < f.count; ++k)
      ASSERT_EQ(y[(line / f.inner * f.count + k) * f.inner + line % f.inner], order[k])
          << f.count << " of " << f.size << ", inner " << f.inner << ", place " << k;
  }
}

template <class Value> static void expectTopKOf(Value value) {
  std::mt19937_64 random(3);
  for (int64_t size : {1, 3, 60, 700, 5000})
    for (int64_t count : {int64_t(1), size / 20, size / 2, size})
      for (int64_t inner : {1, 3})
        for (int64_t largest : {0, 1}) {
          std::vector<decltype(value(random))> x(size < 1000 ? 2 * size * inner : size * inner);
          for (auto &element : x)
            element = value(random);
          expectTopK({count, inner, largest, size < 1000 ? 2 : 1, size}, x);
        }
}

TEST(Kernels, TopKOfAnyLine) {
  using Random = std::mt19937_64;
  using Whole = std::numeric_limits<int64_t>;
  const float infinity = std::numeric_limits<float>::infinity();
  // 1. Of each size and sign; NaNs of both signs, zeros of both, infinities, many equal ones.
  expectTopKOf(
      [](Random &random) { return std::bit_cast<float>(static_cast<uint32_t>(random())); });
  expectTopKOf([&](Random &random) {
    const float values[] = {NAN, -NAN, 0, -0.0f, infinity, -infinity, 1, -1, 1e-40f, -1e-40f};
    return values[random() % std::size(values)];
  });
  // 2. Near each other, and as far apart as they can be.
  expectTopKOf([](Random &random) { return static_cast<int64_t>(random() % 9) - 4; });
  expectTopKOf([](Random &random) { return Whole::max() - static_cast<int64_t>(random() % 900); });
  expectTopKOf([](Random &random) { return static_cast<int64_t>(random()); });
  expectTopKOf([](Random &random) { return random() % 2 ? Whole::min() : Whole::max(); });
  // 3. In order, and against it.
  std::vector<float> rising(9000);
  std::iota(rising.begin(), rising.end(), -4500.0f);
  for (int64_t count : {90, 4500, 9000})
    for (int64_t largest : {0, 1})
      expectTopK({.count = count, .largest = largest, .size = 9000}, rising);
}

} // namespace pdc
