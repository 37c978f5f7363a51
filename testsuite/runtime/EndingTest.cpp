#include "runtime/Control.h"
#include "testsuite/runtime/ToyRun.h"

#include <nlohmann/json.hpp>

#include <cmath>

/// The newest step that was saved; 0: none.
static int64_t lastSaved(const fs::path &folder) {
  int64_t last = 0;
  for (const auto &entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename();
    if (name.starts_with("step-"))
      last = std::max<int64_t>(last, std::stoll(name.substr(5)));
  }
  return last;
}

static fs::path checkpoint(const fs::path &folder, int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%06d", int(step));
  return folder / name;
}

/// Overwrites the weight of a stage, which is the end of its file.
static void overwriteWeight(const fs::path &checkpoint, int stage, int stages, float value) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", stage + 1, stages);
  std::fstream file(checkpoint / name, std::ios::binary | std::ios::in | std::ios::out);
  uint64_t length = 0;
  file.read(reinterpret_cast<char *>(&length), sizeof length);
  std::string header(length, ' ');
  file.read(header.data(), int64_t(length));
  auto tensor = nlohmann::json::parse(header).at("w" + std::to_string(stage));
  file.seekp(int64_t(sizeof length + length) + tensor.at("data_offsets").at(0).get<int64_t>());
  for (int64_t i = 0; i < kWidth; ++i)
    file.write(reinterpret_cast<const char *>(&value), sizeof value);
}

class Ending : public ToyRun {
protected:
  void TearDown() override {
    pdc::runtime::stopSignal = 0;
    ToyRun::TearDown();
  }

  void expectStop(const Shape &shape, int64_t expectedStep = 0) {
    fs::path save = folder / "saved";
    fs::remove_all(save);
    ASSERT_EQ(run(shape, 64, {"--steps", "100000", "--lr", "0.125", "--save", save}), 128 + SIGTERM)
        << errors;
    pdc::runtime::stopSignal = 0;
    int64_t step = lastSaved(save);
    if (expectedStep > 0) {
      EXPECT_EQ(step, expectedStep);
    }
    EXPECT_LT(step, 100);
    ASSERT_GT(step, 0);
    EXPECT_EQ(weights(checkpoint(save, step), shape.stages), reference(shape, 64, step, 0.125));
  }

  /// Saves a step of two stages, then makes the product of its weights finite and the gradient of
  /// the first one not.
  void saveBrokenStep(const Shape &shape, const std::string &saved) {
    ASSERT_EQ(run(shape, 16, {"--steps", "1", "--save", saved}), 0) << errors;
    overwriteWeight(checkpoint(saved, 1), 0, 2, 1e-36f);
    overwriteWeight(checkpoint(saved, 1), 1, 2, 3e38f);
  }

  /// Weights grow until the loss is no number.
  void expectDivergence(const Shape &shape) {
    fs::path save = folder / "diverged";
    fs::remove_all(save);
    EXPECT_EQ(
        run(shape, 64, {"--steps", "100", "--lr", "1e12", "--save", save, "--save-every", "1"}), 1);
    std::string rank = std::to_string(shape.stages - 1);
    EXPECT_NE(errors.find("error: step "), std::string::npos) << errors;
    EXPECT_NE(errors.find(" of epoch 0 in stage " + rank + " on rank " + rank), std::string::npos)
        << errors;
    EXPECT_NE(errors.find("lower --lr (1e+12 at this step)"), std::string::npos) << errors;
    const std::string weight = "'w" + rank + "'";
    EXPECT_TRUE(
        errors.find("; the weights here are finite, " + weight + " up to ") != std::string::npos ||
        errors.find("; here " + weight + " holds numbers that are nan") != std::string::npos)
        << errors;
    int64_t step = lastSaved(save);
    ASSERT_GT(step, 0);
    for (const std::vector<float> &weight : weights(checkpoint(save, step), shape.stages))
      for (float value : weight)
        EXPECT_TRUE(std::isfinite(value)) << step;
  }
};

TEST_F(Ending, SignalEndsBehindTheStepAndSaves) {
  for (int stages = 1; stages <= 4; ++stages)
    for (int stopping = 0; stopping < stages; ++stopping)
      expectStop({.stages = stages, .microbatches = 4, .stoppingStage = stopping}, 3);
}

TEST_F(Ending, SignalDrainsAsynchronousStages) {
  for (int stages = 1; stages <= 4; ++stages)
    for (int stopping = 0; stopping < stages; ++stopping)
      expectStop({.stages = stages, .asynchronous = true, .stoppingStage = stopping});
}

TEST_F(Ending, StoppedRunGoesOnBitForBit) {
  Shape shape{.stages = 3, .microbatches = 2, .stoppingStage = 1};
  std::string saved = folder / "saved";
  EXPECT_EQ(run(shape, 22, {"--steps", "9", "--save", saved}), 128 + SIGTERM) << errors;
  pdc::runtime::stopSignal = 0;
  shape.stoppingStage = -1;
  EXPECT_EQ(run(shape, 22, {"--steps", "9", "--resume", saved, "--save", saved}), 0) << errors;
  EXPECT_EQ(weights(folder / "saved/step-000009", 3), reference(shape, 22, 9, 0.5));
}

TEST_F(Ending, LossThatIsNoNumberEndsTheRun) {
  for (bool asynchronous : {false, true})
    for (int stages : {1, 3})
      expectDivergence({.stages = stages, .microbatches = 2, .asynchronous = asynchronous});
}

/// Without --clip-norm, the loss of the step behind tells of it, and what is known where it is.
TEST_F(Ending, GradientThatIsNoNumberBreaksWeights) {
  Shape shape{.stages = 2, .microbatches = 2};
  std::string saved = folder / "saved";
  ASSERT_NO_FATAL_FAILURE(saveBrokenStep(shape, saved));
  EXPECT_EQ(run(shape, 16, {"--steps", "3", "--lr", "0", "--resume", saved}), 1);
  EXPECT_NE(errors.find("error: step 3: the loss is nan"), std::string::npos) << errors;
  EXPECT_NE(errors.find("; the weights here are finite, 'w1' up to 3e+38; lower"),
            std::string::npos)
      << errors;
}

TEST_F(Ending, WeightsThatAreNoNumbersAreNamed) {
  Shape shape{.stages = 2, .microbatches = 2};
  std::string saved = folder / "saved";
  ASSERT_EQ(run(shape, 16, {"--steps", "1", "--save", saved}), 0) << errors;
  overwriteWeight(checkpoint(saved, 1), 0, 2, 1e30f);
  overwriteWeight(checkpoint(saved, 1), 1, 2, 1e-36f);
  EXPECT_EQ(run(shape, 16, {"--steps", "3", "--lr", "1e12", "--resume", saved}), 1);
  EXPECT_NE(
      errors.find("; here 'w1' holds numbers that are nan or infinite since an earlier update; "
                  "lower"),
      std::string::npos)
      << errors;
}

TEST_F(Ending, GradientThatIsNoNumberEndsTheRun) {
  Shape shape{.stages = 2, .microbatches = 2};
  std::string saved = folder / "saved";
  ASSERT_NO_FATAL_FAILURE(saveBrokenStep(shape, saved));
  EXPECT_EQ(
      run(shape, 16,
          {"--steps", "2", "--lr", "0", "--resume", saved, "--save", saved, "--clip-norm", "1"}),
      1);
  EXPECT_NE(errors.find("error: step 2: the 2-norm of the gradient is nan, that of 'w0', over"),
            std::string::npos)
      << errors;
  EXPECT_NE(errors.find("; lower --lr (0 at this step)"), std::string::npos) << errors;
  EXPECT_NE(errors.find("over microbatch 2 of 8 of epoch 0 to microbatch 3 of 8 of epoch 0"),
            std::string::npos)
      << errors;
  EXPECT_EQ(lastSaved(saved), 1);
}

TEST_F(Ending, BrokenStateIsNotSaved) {
  Shape shape{.stages = 2, .microbatches = 2};
  std::string saved = folder / "saved";
  ASSERT_NO_FATAL_FAILURE(saveBrokenStep(shape, saved));
  EXPECT_EQ(run(shape, 16, {"--steps", "2", "--resume", saved, "--save", saved}), 1);
  EXPECT_NE(
      errors.find("error: after step 2 'w0' on rank 0 holds numbers that are nan or infinite"),
      std::string::npos)
      << errors;
  EXPECT_EQ(lastSaved(saved), 1);
}

TEST_F(Ending, NothingLeftIsSaidAndEvaluated) {
  Shape shape{.stages = 2, .microbatches = 2};
  std::string saved = folder / "saved", log = folder / "log";
  ASSERT_EQ(run(shape, 16, {"--steps", "4", "--save", saved}), 0);
  progress = "plain";
  testing::internal::CaptureStdout();
  int code =
      run(shape, 16,
          {"--steps", "4", "--resume", saved, "--log", log, "--eval-data",
           "x=" + folder.string() + "/x.npy", "--eval-data", "y=" + folder.string() + "/y.npy"});
  std::string text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, 0) << errors;
  EXPECT_NE(text.find("nothing is left to train: the checkpoint stands at step 4"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("evaluation after step 4"), std::string::npos) << text;
  EXPECT_EQ(text.find("trained to"), std::string::npos) << text;
}

#ifdef PDC_TOY_MAIN

class EndingProcesses : public Ending {
protected:
  void SetUp() override {
    Ending::SetUp();
    mpi = true;
    if (std::system("mpirun --version > /dev/null 2>&1") != 0)
      GTEST_SKIP() << "mpirun is not installed";
  }
};

/// One rank alone gets the signal.
TEST_F(EndingProcesses, SignalEndsBehindTheStepAndSaves) {
  for (int stopping : {0, 2})
    expectStop({.stages = 3, .microbatches = 4, .stoppingStage = stopping}, 3);
}

TEST_F(EndingProcesses, SignalDrainsAsynchronousStages) {
  for (int stopping : {0, 1, 2})
    expectStop({.stages = 3, .asynchronous = true, .stoppingStage = stopping});
}

TEST_F(EndingProcesses, LossThatIsNoNumberEndsTheRun) {
  for (bool asynchronous : {false, true})
    expectDivergence({.stages = 3, .microbatches = 2, .asynchronous = asynchronous});
}

#endif
