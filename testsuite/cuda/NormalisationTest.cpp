#include "runtime/Error.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Workspace.h"
#include "testsuite/cuda/CudaCase.h"
#include "testsuite/cuda/Rounding.h"

#include <algorithm>
#include <cstring>

/// What GPUs compute beside a normalisation, against the references and, bit for bit, against
/// kernels that do one thing each.
namespace pdc::narrow {
namespace {

const std::vector<int64_t> kShapes[] = {{6, 5}, {3, 37, 4, 5}, {2, 140, 3, 3}};

TEST(BesideNormalisations, ImagesAreAdded) {
  for (const std::vector<int64_t> &shape : kShapes)
    for (bool relu : {false, true})
      for (bool isFirst : {false, true})
        for (const char *op : {"BatchNormInternal", "BatchNormalization"}) {
          const std::vector<int64_t> channels = {shape[1]};
          const bool trains = std::string(op) == "BatchNormInternal";
          CudaCase unit;
          const UnitValue x = unit.operand(shape, 3, 5), addend = unit.operand(shape);
          const UnitValue y = unit.node(op,
                                        {x, unit.operand(channels), unit.operand(channels),
                                         unit.operand(channels), unit.operand(channels, 0.5, 2)},
                                        {{"momentum", 0.8}}, trains ? 5 : 1);
          UnitValue last = isFirst ? unit.node("Add", {addend, y}) : unit.node("Add", {y, addend});
          if (relu)
            last = unit.node("Relu", {last});
          unit.result(last);
          for (int slot = 1; trains && slot < 5; ++slot)
            unit.result(UnitValue::node(0, slot));
          unit.check(1e-5);
          EXPECT_EQ(unit.choice.fields.integer("addend", 0), 1);
          EXPECT_EQ(unit.choice.arguments.size(), 6u);
        }
}

/// Of two images of equal width alone; not of a number, nor of twice the normalised image.
TEST(BesideNormalisations, OtherSumsAreTheirOwn) {
  auto mayAdd = [](std::vector<int64_t> shape, bool isTwice) {
    CudaCase unit;
    const UnitValue y = unit.node("BatchNormInternal",
                                  {unit.operand({3, 4, 2, 2}), unit.operand({4}), unit.operand({4}),
                                   unit.operand({4}), unit.operand({4})},
                                  {}, 5);
    const UnitValue other = isTwice ? y : unit.operand(shape);
    unit.node("Add", {y, other});
    UnitView before = unit.view;
    before.nodes.pop_back();
    return canAppend(before, unit.view.nodes.back(), unit.options);
  };
  EXPECT_TRUE(mayAdd({3, 4, 2, 2}, false));
  EXPECT_FALSE(mayAdd({1, 4, 1, 1}, false));
  EXPECT_FALSE(mayAdd({}, false));
  EXPECT_FALSE(mayAdd({}, true));
}

enum class Mask { none, byResult, byImage };

/// The unit that fuse-normalisations makes.
void makeGradient(UnitCase &unit, const std::vector<int64_t> &shape, int terms, Mask mask,
                  bool isKept, std::vector<int> slots) {
  const std::vector<int64_t> channels = {shape[1]};
  std::vector<UnitValue> arriving;
  for (int term = 0; term < terms; ++term)
    arriving.push_back(unit.operand(shape));
  const UnitValue x = unit.operand(shape, 3, 5), scale = unit.operand(channels, 0.5, 1),
                  bias = unit.operand(channels), mean = unit.operand(channels, 3.8, 4.2),
                  inverse = unit.operand(channels, 1, 2);
  UnitValue g = terms > 1 ? unit.node("Sum", arriving) : arriving[0];
  if (mask == Mask::byImage)
    g = unit.node("ReluGrad", {g, unit.node("BatchNormApply", {x, scale, bias, mean, inverse})});
  else if (mask == Mask::byResult)
    g = unit.node("ReluGrad", {g, unit.operand(shape)});
  const UnitValue d = unit.node("BatchNormalizationGrad", {g, x, scale, mean, inverse}, {}, 3);
  if (isKept)
    unit.result(g);
  for (int slot : slots)
    unit.result(UnitValue::node(d.index, slot));
}

TEST(BesideNormalisations, GradientsOfSumsAndRelus) {
  for (const std::vector<int64_t> &shape : {kShapes[0], kShapes[1]})
    for (int terms = 1; terms <= int(mostArrivingTerms()); ++terms)
      for (Mask mask : {Mask::byResult, Mask::byImage})
        for (bool isKept : {false, true})
          for (const std::vector<int> &slots : {std::vector<int>{0, 1, 2}, {1, 2}}) {
            CudaCase unit;
            makeGradient(unit, shape, terms, mask, isKept, slots);
            unit.check(1e-5);
            EXPECT_EQ(unit.choice.kernel, "BatchNormalizationGradient");
            EXPECT_EQ(unit.choice.fields.integer("terms", 1), terms);
          }
}

TEST(BesideNormalisations, OtherChainsAreRefused) {
  CudaCase five;
  makeGradient(five, {2, 4, 3, 3}, 5, Mask::byResult, false, {0});
  EXPECT_THROW(chooseKernel(five.view, five.options), Error);
  CudaCase turned;
  makeGradient(turned, {2, 4, 3, 3}, 1, Mask::byImage, false, {0});
  UnitNode &image = turned.view.nodes.front();
  ASSERT_EQ(image.op, "BatchNormApply");
  EXPECT_NO_THROW(chooseKernel(turned.view, turned.options));
  std::swap(image.inputs[1], image.inputs[3]);
  EXPECT_THROW(chooseKernel(turned.view, turned.options), Error);
}

template <class T> struct Beside : ::testing::Test {};
using AllTypes = ::testing::Types<float, BFloat16, Float16>;
TYPED_TEST_SUITE(Beside, AllTypes);

template <class T> std::vector<T> drawn(int64_t count, float from, float to) {
  return Both<T>(count, from, to).narrow;
}

/// The image is positive where its normalisation, rounded and kept, was.
TYPED_TEST(Beside, MasksAreThoseOfResults) {
  for (int64_t channels : {5, 12}) {
    const std::vector<int64_t> shape = {3, channels, 7, 5};
    const int64_t count = 3 * channels * 35;
    const auto x = drawn<TypeParam>(count, 3, 5), dy = drawn<TypeParam>(count, -1, 1);
    const std::vector<float> scale = numbers(channels), bias(size_t(channels), 0.25f),
                             running = numbers(channels);
    runtime::BatchNormalizationFields f;
    f.input = shape, f.relu = 1, f.results = {0, 3, 4};
    Scratch scratch;
    std::vector<TypeParam> y(x.size());
    std::vector<float> mean(scale.size()), inverse(scale.size());
    runtime::cuda::BatchNormalization(device, f)(scratch.run, x.data(), scale.data(), bias.data(),
                                                 running.data(), running.data(), y.data(),
                                                 mean.data(), inverse.data());
    f.results = {0, 1, 2};
    std::vector<TypeParam> read(x.size()), again(x.size());
    std::vector<float> sums[4];
    for (std::vector<float> &sum : sums)
      sum.resize(scale.size());
    runtime::cuda::BatchNormalizationGradient(device, f)(
        scratch.run, dy.data(), y.data(), x.data(), scale.data(), mean.data(), inverse.data(),
        read.data(), sums[0].data(), sums[1].data());
    f.reluOfImage = 1;
    runtime::cuda::BatchNormalizationGradient(device, f)(
        scratch.run, dy.data(), x.data(), scale.data(), bias.data(), mean.data(), inverse.data(),
        again.data(), sums[2].data(), sums[3].data());
    finish();
    EXPECT_TRUE(haveEqualBits(read, again));
    EXPECT_TRUE(haveEqualBits(sums[0], sums[2]));
    EXPECT_TRUE(haveEqualBits(sums[1], sums[3]));
  }
}

/// What a loop by itself makes of gradients that arrive and of a relu's result.
template <class T>
std::vector<T> masked(const std::vector<std::vector<T>> &arriving, const std::vector<T> &y) {
  std::vector<T> sum(y.size());
  for (size_t i = 0; i < sum.size(); ++i) {
    float total = 0;
    for (const std::vector<T> &term : arriving)
      total += float(term[i]);
    sum[i] = T(float(y[i]) > 0 ? total : 0);
  }
  return sum;
}

/// What arrives is what a loop by itself would write, whatever lies in whose place.
TYPED_TEST(Beside, SumsAreThoseOfTheirOwnKernels) {
  for (int64_t channels : {5, 12})
    for (int terms = 2; terms <= 4; ++terms) {
      const int64_t count = 3 * channels * 35;
      std::vector<std::vector<TypeParam>> arriving;
      for (int term = 0; term < terms; ++term)
        arriving.push_back(drawn<TypeParam>(count, -1, 1));
      const auto x = drawn<TypeParam>(count, 3, 5), y = drawn<TypeParam>(count, -1, 1);
      const std::vector<float> scale = numbers(channels), mean = numbers(channels),
                               inverse = numbers(channels);
      const std::vector<TypeParam> sum = masked(arriving, y);
      std::vector<TypeParam> expected(x.size());
      runtime::BatchNormalizationFields f;
      f.input = {3, channels, 7, 5}, f.results = {0};
      Scratch scratch;
      runtime::cuda::BatchNormalizationGradient(device, f)(scratch.run, sum.data(), x.data(),
                                                           scale.data(), mean.data(),
                                                           inverse.data(), expected.data());
      finish();
      // Kept in a place of its own or in the first term's; the gradient in the last one's.
      for (bool isKept : {false, true}) {
        f.relu = 1, f.terms = terms, f.results = {0};
        if (isKept)
          f.results = {3, 0};
        auto held = arriving;
        auto call = [&](auto... results) {
          const runtime::cuda::BatchNormalizationGradient gradient(device, f);
          const TypeParam *t[4] = {};
          for (int term = 0; term < terms; ++term)
            t[term] = held[size_t(term)].data();
          auto with = [&](auto... given) {
            gradient(scratch.run, given..., y.data(), x.data(), scale.data(), mean.data(),
                     inverse.data(), results...);
          };
          terms == 2   ? with(t[0], t[1])
          : terms == 3 ? with(t[0], t[1], t[2])
                       : with(t[0], t[1], t[2], t[3]);
          finish();
        };
        isKept ? call(held.front().data(), held.back().data()) : call(held.back().data());
        EXPECT_TRUE(haveEqualBits(held.back(), expected));
        if (isKept) {
          EXPECT_TRUE(haveEqualBits(held.front(), sum));
        }
      }
    }
}

TYPED_TEST(Narrow, AddedImagesRound) {
  const Both<TypeParam> x(2 * 6 * 5 * 7), addend(420);
  const std::vector<float> scale = numbers(6), bias = numbers(6), mean = numbers(6),
                           inverse = numbers(6);
  runtime::BatchNormalizationFields f;
  f.addend = 1, f.input = {2, 6, 5, 7}, f.relu = 1, f.results = {0};
  const runtime::cuda::BatchNormalization forward(device, f);
  const runtime::cuda::BatchNormalizationInference inference(device, f);
  auto with = [&](const auto &kernel) {
    expectRounds<TypeParam>(
        420,
        [&](auto &run, auto *y, auto *x, auto *addend) {
          kernel(run, x, scale.data(), bias.data(), mean.data(), inverse.data(), addend, y);
        },
        x, addend);
  };
  with(forward);
  with(inference);
}

TEST(BesideNormalisations, TooManyTermsAreRefused) {
  runtime::BatchNormalizationFields f;
  f.input = {2, 4, 3, 3}, f.results = {0}, f.terms = 5;
  std::vector<float> x(72);
  Scratch scratch;
  const runtime::cuda::BatchNormalizationGradient gradient(device, f);
  const float *all = x.data();
  EXPECT_THROW(gradient(scratch.run, all, all, all, all, all, all, all, all, all, x.data()),
               runtime::Error);
}

} // namespace
} // namespace pdc::narrow
