#include "runtime/Error.h"
#include "runtime/Tuning.h"
#include "runtime/cuda/Workspace.h"
#include "testsuite/cuda/NormalisedUnit.h"
#include "testsuite/cuda/SaidTuning.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

/// A convolution and the normalisation behind it, as two of cuDNN's kernels and as one.
namespace pdc::normalised {
namespace {

using runtime::Tuning;

/// Rows that come in no round number; one pixel; a channel block and a half.
const Shape kShapes[] = {{{3, 8, 5, 7}, {16, 8, 3, 3}, 1, 1},
                         {{2, 16, 9, 9}, {24, 16, 3, 3}, 2, 1},
                         {{5, 8, 1, 1}, {8, 8, 1, 1}, 1, 0, {-1, 1}}};

class NormalisedConvolutionTest : public ::testing::Test, protected testing::SaidTuning {
protected:
  NormalisedConvolutionTest() : SaidTuning("normalised", 3) {}
  ~NormalisedConvolutionTest() override { allow(); }
  static void refuse(const char *kind) { setenv("HOST_CUDNN_REFUSES", kind, 1); }
  static void allow() { unsetenv("HOST_CUDNN_REFUSES"); }
  /// The engines of both ways take as long as the first ones.
  void takeTogether() { timed = 0, seconds = {1, 1, 1, 1, 2, 1}; }

  struct Made {
    runtime::cuda::NormalisedConvolution kernel;
    std::vector<std::byte> workspace;
    runtime::Run run = started({});
  };
  std::unique_ptr<Made> make(const Unit &unit, Tuning *by) {
    const int64_t bytes = unit.choice.workspaceBytes;
    std::unique_ptr<Made> made(
        new Made{{runtime::Device{1, bytes, false, by}, fieldsOf(unit.choice)},
                 std::vector<std::byte>(size_t(bytes) + 64, std::byte(0xff))});
    auto address = reinterpret_cast<uintptr_t>(made->workspace.data());
    made->run.scratchBase = made->workspace.data() + (64 - address % 64) % 64;
    return made;
  }
  /// With the slots 0, 1, 2, 3 and 4.
  static Written call(Made &made, const Unit &unit) {
    Written to(unit);
    made.kernel(made.run, unit.x.data(), unit.w.data(), unit.scale.data(), unit.bias.data(),
                unit.mean.data(), unit.variance.data(), to.y.data(), to.z.data(), to.mean.data(),
                to.variance.data(), to.savedMean.data(), to.savedInverse.data());
    finish();
    return to;
  }
  /// 16 bits are off by 2^-11; what is normalised, by as much of where it lies as well.
  static void expectReference(const Unit &unit, const Written &found, bool relu) {
    const TensorType &type = unit.view.nodes[0].outputs[0];
    const Tensor y = fromStored(found.y, type);
    expectNear(y.data, unit.referenceOf(0)[0].data, 0x1p-11, "what is convolved");
    const Tensors expected = unit.normalised(y, relu);
    expectNear(fromStored(found.z, type).data, expected[0].data, 0x1p-10, "what is normalised");
    const std::vector<float> *const others[] = {&found.mean, &found.variance, &found.savedMean,
                                                &found.savedInverse};
    for (size_t i = 0; i < 4; ++i)
      expectNear({others[i]->begin(), others[i]->end()}, expected[i + 1].data, 1e-4,
                 "result " + std::to_string(i + 1));
  }
};

const std::vector<int> kAllSlots = {0, 1, 2, 3, 4};

TEST_F(NormalisedConvolutionTest, ComputesBothWays) {
  for (const Shape &shape : kShapes)
    for (bool relu : {false, true}) {
      const Unit unit(shape, relu, kAllSlots);
      ASSERT_EQ(unit.choice.kernel, "NormalisedConvolution");
      const Written apart = call(*make(unit, nullptr), unit);
      expectReference(unit, apart, relu);
      takeTogether();
      auto made = make(unit, &*tuning);
      const Written together = call(*made, unit);
      EXPECT_EQ(timed, relu ? 0u : 6u); // as without a relu
      expectReference(unit, together, relu);
      EXPECT_EQ(together, call(*made, unit)) << "other bits at repeat";
      EXPECT_EQ(std::memcmp(together.y.data(), apart.y.data(), 2 * apart.y.size()), 0);
      EXPECT_NE(together.savedInverse, apart.savedInverse) << "of other sums";
    }
}

/// Plain sums of squares lose what varies where means are hundreds of deviations from zero.
TEST_F(NormalisedConvolutionTest, KeepsVariancesFarFromZero) {
  const Shape far = {{4, 8, 40, 40}, {8, 8, 1, 1}, 1, 0, {0.98, 1}, {0.9, 1}};
  const Unit unit(far, false, kAllSlots, 0.8, 1e-7);
  takeTogether();
  const Written together = call(*make(unit, &*tuning), unit);
  EXPECT_EQ(timed, 6u);
  for (size_t channel = 0; channel < 8; ++channel)
    EXPECT_GT(together.savedMean[channel] * together.savedInverse[channel], 200);
  expectReference(unit, together, false);
}

/// What convolves without a normalisation, such as an evaluation, takes part in the measuring.
TEST_F(NormalisedConvolutionTest, SharesItsPlainConvolution) {
  const Unit unit(kShapes[0], false, kAllSlots);
  const NormalisedConvolutionFields f = fieldsOf(unit.choice);
  takeTogether();
  auto made = make(unit, &*tuning);
  runtime::cuda::Convolution plain(runtime::Device{1, unit.choice.workspaceBytes, false, &*tuning},
                                   f.convolution());
  const Written found = call(*made, unit);
  EXPECT_EQ(timed, 6u);
  Written alone(unit);
  plain(made->run, unit.x.data(), unit.w.data(), static_cast<float *>(nullptr), alone.y.data());
  finish();
  EXPECT_EQ(timed, 6u);
  EXPECT_EQ(std::memcmp(alone.y.data(), found.y.data(), 2 * found.y.size()), 0);
}

/// Equal convolutions share their kernels, not what is done with their statistics.
TEST_F(NormalisedConvolutionTest, SharesKernelsAlone) {
  const Unit first(kShapes[0], false, kAllSlots), second(kShapes[0], false, kAllSlots, 0.3, 0.5);
  takeTogether();
  for (const Unit *unit : {&first, &second}) {
    auto made = make(*unit, &*tuning);
    expectReference(*unit, call(*made, *unit), false);
  }
  EXPECT_EQ(timed, 6u);
}

/// Without a tuning the bits of a convolution and of a normalisation behind it.
TEST_F(NormalisedConvolutionTest, IsBothByThemselves) {
  const Unit unit(kShapes[0], true, kAllSlots);
  const NormalisedConvolutionFields f = fieldsOf(unit.choice);
  auto made = make(unit, nullptr);
  const Written found = call(*made, unit);
  Written expected(unit);
  const runtime::Device device{1, unit.choice.workspaceBytes};
  runtime::cuda::Convolution(device, f.convolution())(made->run, unit.x.data(), unit.w.data(),
                                                      expected.y.data());
  runtime::cuda::BatchNormalization(device, f.normalisation())(
      made->run, expected.y.data(), unit.scale.data(), unit.bias.data(), unit.mean.data(),
      unit.variance.data(), expected.z.data(), expected.mean.data(), expected.variance.data(),
      expected.savedMean.data(), expected.savedInverse.data());
  finish();
  EXPECT_EQ(found, expected);
}

/// And of an image that is added.
TEST_F(NormalisedConvolutionTest, AddsAnImage) {
  const Unit unit(kShapes[1], true, {0});
  NormalisedConvolutionFields f = fieldsOf(unit.choice);
  f.addend = 1;
  const runtime::Device device{1, unit.choice.workspaceBytes};
  auto made = make(unit, nullptr);
  Written found(unit), expected(unit);
  std::vector<Float16> addend;
  for (size_t i = 0; i < found.z.size(); ++i)
    addend.push_back(Float16(float(i % 37) / 16 - 1));
  runtime::cuda::NormalisedConvolution(device, f)(
      made->run, unit.x.data(), unit.w.data(), unit.scale.data(), unit.bias.data(),
      unit.mean.data(), unit.variance.data(), addend.data(), found.y.data(), found.z.data());
  runtime::cuda::Convolution(device, f.convolution())(made->run, unit.x.data(), unit.w.data(),
                                                      expected.y.data());
  runtime::cuda::BatchNormalization(device, f.normalisation())(
      made->run, expected.y.data(), unit.scale.data(), unit.bias.data(), unit.mean.data(),
      unit.variance.data(), addend.data(), expected.z.data());
  finish();
  EXPECT_EQ(found, expected);
}

/// In any order, such as that of a unit whose last node is a relu; what is saved for nobody, and
/// what is normalised for nobody, is left out.
TEST_F(NormalisedConvolutionTest, WritesWhatIsAskedFor) {
  Unit unit(kShapes[1], true, {1, 2, 0});
  EXPECT_EQ(fieldsOf(unit.choice).results.size(), 3u);
  const std::vector<std::pair<int, int>> inPlace = {{4, 1}, {5, 2}};
  EXPECT_EQ(unit.choice.inPlace, inPlace);
  const Unit whole(kShapes[1], true, kAllSlots), saved(kShapes[1], true, {4, 3});
  for (Tuning *by : {static_cast<Tuning *>(nullptr), &*tuning}) {
    takeTogether();
    const Written all = call(*make(whole, by), whole);
    Written some(unit);
    // Running statistics change once, in place, however often the ways are measured.
    std::vector<float> mean = unit.mean, variance = unit.variance;
    tuning.emplace("another card", clock, folder.string(), 0);
    takeTogether();
    auto made = make(unit, by);
    made->kernel(made->run, unit.x.data(), unit.w.data(), unit.scale.data(), unit.bias.data(),
                 mean.data(), variance.data(), some.y.data(), mean.data(), variance.data(),
                 some.z.data());
    finish();
    EXPECT_EQ(timed, by ? 6u : 0u);
    EXPECT_EQ(mean, all.mean);
    EXPECT_EQ(variance, all.variance);
    EXPECT_EQ(std::memcmp(some.z.data(), all.z.data(), 2 * all.z.size()), 0);
    auto other = make(saved, by);
    other->kernel(other->run, saved.x.data(), saved.w.data(), saved.scale.data(), saved.bias.data(),
                  saved.mean.data(), saved.variance.data(), some.y.data(), some.savedInverse.data(),
                  some.savedMean.data());
    finish();
    EXPECT_EQ(some.savedMean, all.savedMean);
    EXPECT_EQ(some.savedInverse, all.savedInverse);
  }
}

/// Of the ways, after the engines of each; another run makes and takes what this one has kept.
TEST_F(NormalisedConvolutionTest, TakesTheFasterWayAgain) {
  const Unit unit(kShapes[2], true, kAllSlots);
  for (bool together : {false, true}) {
    tuning.emplace(together ? "a card" : "another", clock, folder.string(), 0);
    timed = 0, seconds = {1, 1, 1, 1, 1, together ? 0.5 : 2};
    auto first = make(unit, &*tuning), equal = make(unit, &*tuning);
    const Written found = call(*first, unit);
    EXPECT_EQ(timed, 6u);
    EXPECT_EQ(found, call(*equal, unit));
    ::testing::internal::CaptureStderr();
    tuning->keep();
    EXPECT_NE(::testing::internal::GetCapturedStderr().find("measured 6 kernels"),
              std::string::npos);
    tuning.emplace(together ? "a card" : "another", clock, folder.string(), 3);
    if (!together)
      refuse("fused plans"); // nor are they made
    auto again = make(unit, &*tuning);
    EXPECT_EQ(found, call(*again, unit));
    EXPECT_EQ(timed, 6u);
    refuse("fused");
    if (together)
      EXPECT_ANY_THROW(call(*again, unit));
    else
      EXPECT_EQ(found, call(*again, unit));
    allow();
  }
}

/// Of the library's, which is 1024 bytes here, beside its own.
TEST_F(NormalisedConvolutionTest, KeepsWithinTheWorkspace) {
  const Unit unit(kShapes[0], false, kAllSlots);
  const int64_t own = runtime::cuda::normalisationBytes(3 * 5 * 7, 16);
  for (int64_t room : {1023, 1024}) {
    const runtime::Device device{1, own + runtime::cuda::kWorkspaceAlignment + room};
    auto make = [&] { runtime::cuda::NormalisedConvolution(device, fieldsOf(unit.choice)); };
    if (room == 1024)
      EXPECT_NO_THROW(make());
    else
      EXPECT_THROW(make(), runtime::Error);
  }
}

/// By themselves they run everywhere.
TEST_F(NormalisedConvolutionTest, DoesWithoutKernelsOfSums) {
  const Unit unit(kShapes[0], false, kAllSlots);
  const Written apart = call(*make(unit, nullptr), unit);
  for (const char *kind : {"fused plans", "fused"}) {
    tuning.emplace(kind, clock, folder.string(), 0);
    takeTogether();
    refuse(kind);
    ::testing::internal::CaptureStderr();
    auto made = make(unit, &*tuning);
    EXPECT_EQ(apart, call(*made, unit));
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    allow();
  }
  refuse("all");
  auto none = make(unit, nullptr);
  try {
    call(*none, unit);
    FAIL() << "it ran";
  } catch (const std::exception &error) {
    EXPECT_EQ(error.what(),
              std::string("unit 'unit': cudnnBackendExecute failed: the execution failed"));
  }
}

} // namespace
} // namespace pdc::normalised
