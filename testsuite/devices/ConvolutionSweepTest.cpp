#include "testsuite/kernels/UnitCase.h"

#include <gtest/gtest.h>

/// Convolutions of any geometry against literal loops in double, whatever the device chooses for
/// them.
namespace pdc {

namespace {

using Integers = std::vector<int64_t>;

struct Geometry {
  int64_t batch, in, out, groups;
  Integers size, kernel, strides, dilations, padsBegin, padsEnd;

  Integers output() const {
    Integers result;
    for (size_t d = 0; d < size.size(); ++d)
      result.push_back((size[d] + padsBegin[d] + padsEnd[d] - (kernel[d] - 1) * dilations[d] - 1) /
                           strides[d] +
                       1);
    return result;
  }
  bool isPossible() const {
    for (size_t d = 0; d < size.size(); ++d)
      if (size[d] + padsBegin[d] + padsEnd[d] < (kernel[d] - 1) * dilations[d] + 1)
        return false;
    return true;
  }
  Integers inputShape() const { return shape(batch, in, size); }
  Integers weightShape() const { return shape(out, in / groups, kernel); }
  Integers outputShape() const { return shape(batch, out, output()); }
  Attributes attributes() const {
    Integers pads = padsBegin;
    pads.insert(pads.end(), padsEnd.begin(), padsEnd.end());
    return {{"group", groups},        {"kernel_shape", kernel}, {"strides", strides},
            {"dilations", dilations}, {"pads", pads},           {"input_shape", inputShape()}};
  }

private:
  static Integers shape(int64_t first, int64_t second, const Integers &rest) {
    Integers result = {first, second};
    result.insert(result.end(), rest.begin(), rest.end());
    return result;
  }
};

/// One, two or three spatial dimensions as three.
Integers three(Integers values, int64_t otherwise) {
  values.insert(values.begin(), 3 - values.size(), otherwise);
  return values;
}

/// Calls visit(x, w, y) with the offsets of the factors and the result of each multiplication.
template <class Visit> void forEachProduct(const Geometry &g, Visit visit) {
  Integers i = three(g.size, 1), k = three(g.kernel, 1), o = three(g.output(), 1),
           s = three(g.strides, 1), d = three(g.dilations, 1), p = three(g.padsBegin, 0);
  int64_t perGroup = g.in / g.groups;
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t m = 0; m < g.out; ++m)
      for (int64_t c = 0; c < perGroup; ++c)
        for (int64_t a = 0; a < o[0] * o[1] * o[2]; ++a)
          for (int64_t t = 0; t < k[0] * k[1] * k[2]; ++t) {
            int64_t z = a / (o[1] * o[2]) * s[0] + t / (k[1] * k[2]) * d[0] - p[0];
            int64_t v = a / o[2] % o[1] * s[1] + t / k[2] % k[1] * d[1] - p[1];
            int64_t u = a % o[2] * s[2] + t % k[2] * d[2] - p[2];
            if (z < 0 || z >= i[0] || v < 0 || v >= i[1] || u < 0 || u >= i[2])
              continue;
            int64_t channel = n * g.in + m / (g.out / g.groups) * perGroup + c;
            visit(((channel * i[0] + z) * i[1] + v) * i[2] + u,
                  (m * perGroup + c) * k[0] * k[1] * k[2] + t,
                  (n * g.out + m) * o[0] * o[1] * o[2] + a);
          }
}

enum class Product { forward, inputGradient, weightGradient };

std::vector<double> literal(const Geometry &g, Product product, const Tensor &first,
                            const Tensor &second, size_t elements) {
  std::vector<double> result(elements);
  forEachProduct(g, [&](int64_t x, int64_t w, int64_t y) {
    if (product == Product::forward)
      result[y] += first.data[x] * second.data[w];
    else if (product == Product::inputGradient)
      result[x] += first.data[y] * second.data[w];
    else
      result[w] += first.data[y] * second.data[x];
  });
  return result;
}

/// Builds the unit and runs it; its bits, and whether the device falls back to a slow kernel.
struct Outcome {
  std::vector<Buffer> bits;
  bool isSlow;
};

Outcome run(const Geometry &g, Product product, const DeviceOptions &options) {
  UnitCase unit;
  unit.options = options;
  Integers first = product == Product::forward ? g.inputShape() : g.outputShape();
  Integers second = product == Product::weightGradient ? g.inputShape() : g.weightShape();
  const char *ops[] = {"Conv", "ConvInputGrad", "ConvWeightGrad"};
  Attributes attributes = g.attributes();
  if (product == Product::weightGradient)
    attributes.erase("input_shape");
  UnitValue a = unit.operand(first), b = unit.operand(second);
  UnitValue result = unit.node(ops[static_cast<int>(product)], {a, b}, attributes);
  const Tensor &reference = unit.referenceOf(result.index)[0];
  std::vector<double> expected = literal(g, product, unit.operandValue(a.index),
                                         unit.operandValue(b.index), reference.data.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(reference.data[i], expected[i], 1e-10);
  unit.check(8e-6);
  return {unit.stored, unit.choice.fields.has("fallback")};
}

void check(const Geometry &g, const DeviceOptions &options) {
  for (Product product : {Product::forward, Product::inputGradient, Product::weightGradient}) {
    Outcome outcome = run(g, product, options);
    // A slow kernel's bits must not depend on threads where bits are promised.
    if (options.exact && outcome.isSlow) {
      DeviceOptions other = options;
      other.threads = 3 - options.threads;
      EXPECT_EQ(outcome.bits, run(g, product, other).bits);
    }
    ASSERT_FALSE(testing::Test::HasFailure())
        << "product " << static_cast<int>(product) << " batch " << g.batch << ", " << g.in << "->"
        << g.out << " groups " << g.groups << " size " << g.size[0] << " kernel " << g.kernel[0]
        << " stride " << g.strides[0] << " dilation " << g.dilations[0] << " pads "
        << g.padsBegin[0] << " " << g.padsEnd[0] << " width " << options.vectorWidth << " exact "
        << options.exact << " threads " << options.threads;
  }
}

Geometry square(int64_t batch, int64_t in, int64_t out, int64_t groups, int64_t size,
                int64_t kernel, int64_t stride, int64_t dilation, Integers pads) {
  return {batch,
          in,
          out,
          groups,
          {size, size},
          {kernel, kernel},
          {stride, stride},
          {dilation, dilation},
          {pads[0], pads[1]},
          {pads[2], pads[3]}};
}

/// Every kind of drawn device.
template <class Random> DeviceOptions drawDevice(Random draw) {
  return {draw(2) == 1, static_cast<int>(1 + draw(2)), draw(2) ? 16 : 8};
}

} // namespace

TEST(ConvolutionSweep, WhatBlockedKernelsLack) {
  for (const Geometry &g : {square(2, 16, 16, 1, 8, 3, 1, 1, {3, 3, 3, 3}),
                            square(2, 16, 16, 16, 9, 3, 1, 2, {2, 2, 2, 2}),
                            square(2, 7, 7, 7, 9, 3, 2, 3, {0, 3, 3, 1}),
                            square(2, 16, 32, 1, 9, 3, 2, 2, {2, 2, 2, 2}),
                            square(1, 3, 16, 1, 5, 7, 2, 1, {3, 3, 3, 3}),
                            square(3, 12, 18, 3, 6, 3, 1, 1, {1, 0, 0, 1})})
    for (bool exact : {true, false})
      for (int threads : {1, 2})
        for (int width : {16, 8})
          check(g, {exact, threads, width});
}

TEST(ConvolutionSweep, AnyGeometry) {
  std::mt19937 random(7);
  auto draw = [&](int64_t below) { return static_cast<int64_t>(random() % below); };
  const int64_t channels[][3] = {{1, 1, 1}, {3, 16, 1}, {5, 7, 1},  {16, 16, 1}, {17, 33, 1},
                                 {7, 7, 7}, {8, 8, 8},  {6, 12, 3}, {32, 32, 2}, {16, 32, 16}};
  for (int cases = 0; cases < 300;) {
    const int64_t *c = channels[draw(10)];
    Geometry g{1 + draw(4), c[0], c[1], c[2], {}, {}, {}, {}, {}, {}};
    int64_t rank = 1 + draw(8) % 3, reach = rank == 3 ? 3 : 7;
    bool isSquare = draw(2), isSymmetric = draw(2);
    for (int64_t d = 0; d < rank; ++d) {
      bool copies = isSquare && d > 0;
      g.size.push_back(copies ? g.size[0] : 1 + draw(rank == 1 ? 30 : rank == 2 ? 10 : 5));
      g.kernel.push_back(copies ? g.kernel[0] : 1 + draw(reach));
      g.strides.push_back(copies ? g.strides[0] : 1 + draw(3));
      g.dilations.push_back(copies ? g.dilations[0] : 1 + draw(3));
      g.padsBegin.push_back(copies ? g.padsBegin[0] : draw(g.kernel[d] + 2));
      g.padsEnd.push_back(isSymmetric ? g.padsBegin[d] : draw(g.kernel[d] + 2));
    }
    if (!g.isPossible())
      continue;
    check(g, drawDevice(draw));
    if (HasFatalFailure())
      return;
    ++cases;
  }
}

} // namespace pdc
