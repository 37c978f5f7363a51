#include "runtime/CheckpointFolder.h"
#include "testsuite/runtime/ToyRun.h"

/// Several runs that save in one folder, of which --resume FOLDER takes the last one's.
class SharedByRuns : public ToyRun {
protected:
  void SetUp() override {
    ToyRun::SetUp();
    saved = folder / "saved";
    progress = "plain";
    ASSERT_EQ(train({"--steps", "6", "--save-every", "3", "--save", saved}), 0) << errors;
    EXPECT_EQ(text.find("that this run does not go on from"), std::string::npos) << text;
  }
  int train(std::vector<std::string> arguments, int64_t samples = 64) {
    testing::internal::CaptureStdout();
    const int code = run(shape, samples, std::move(arguments));
    text = testing::internal::GetCapturedStdout();
    return code;
  }
  void expectResumed(const std::string &says) {
    EXPECT_EQ(train({"--steps", "20", "--resume", saved}), 0) << errors;
    EXPECT_NE(text.find(says), std::string::npos) << text << "does not say " << says;
  }
  void damage(const fs::path &file) { std::ofstream(file) << "{"; }

  const Shape shape{.stages = 2, .microbatches = 2};
  std::string saved, text;
};

TEST_F(SharedByRuns, TheLastOneGoesOn) {
  EXPECT_EQ(train({"--steps", "2", "--lr", "0.25", "--save", saved}), 0) << errors;
  EXPECT_NE(text.find(saved + " holds checkpoints that this run does not go on from, up to " +
                      saved + "/step-000006: they stay, and --resume " + saved +
                      " takes those of this run"),
            std::string::npos)
      << text;
  expectResumed("resumed at step 2,");
  // By its name another one's is taken.
  EXPECT_EQ(train({"--steps", "20", "--resume", saved + "/step-000006"}), 0) << errors;
  EXPECT_NE(text.find("resumed at step 6\n"), std::string::npos) << text;
}

TEST_F(SharedByRuns, ARunThatSavedNothingIsNoOther) {
  pdc::runtime::beginSaving(saved, "");
  EXPECT_EQ(train({"--steps", "20", "--resume", saved}), 1);
  EXPECT_NE(errors.find(saved +
                        ": the run that began to save there last has saved nothing, and "
                        "step-000006 is of another run; to go on from that one give "
                        "--resume " +
                        saved + "/step-000006"),
            std::string::npos)
      << errors;
}

TEST_F(SharedByRuns, ARunThatWentOnGoesOn) {
  // From an earlier step: what stands beyond it is left behind, also before anything is saved.
  pdc::runtime::beginSaving(saved, saved + "/step-000003/");
  expectResumed("resumed at step 3\n");
  EXPECT_EQ(train({"--steps", "5", "--resume", saved, "--save", saved}), 0) << errors;
  EXPECT_NE(text.find("up to " + saved + "/step-000006"), std::string::npos) << text;
  expectResumed("resumed at step 5\n");
  EXPECT_EQ(train({"--steps", "8", "--resume", saved, "--save", saved}), 0) << errors;
  expectResumed("resumed at step 8\n");
}

TEST_F(SharedByRuns, OneThatIsDamagedTellsTheOneBefore) {
  const std::string says = "; the one before it is " + saved + "/step-000003";
  for (const char *file :
       {"state.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors"}) {
    const fs::path path = fs::path(saved) / "step-000006" / file, whole = folder / "whole";
    fs::copy_file(path, whole, fs::copy_options::overwrite_existing);
    damage(path);
    EXPECT_EQ(train({"--steps", "20", "--resume", saved}), 1) << file;
    EXPECT_NE(errors.find(says), std::string::npos) << errors;
    fs::copy_file(whole, path, fs::copy_options::overwrite_existing);
  }
  damage(fs::path(saved) / "step-000003/state.json");
  EXPECT_EQ(train({"--steps", "20", "--resume", saved + "/step-000003"}), 1);
  EXPECT_EQ(errors.find("the one before it"), std::string::npos) << errors;
}

TEST_F(SharedByRuns, FoldersWithoutAMarkHaveTheHighestStep) {
  fs::remove(fs::path(saved) / ".run");
  expectResumed("resumed at step 6\n");
}

TEST_F(SharedByRuns, OtherDataAreTold) {
  EXPECT_EQ(train({"--steps", "7", "--resume", saved}), 0) << errors;
  EXPECT_EQ(text.find("these are other data"), std::string::npos) << text;
  EXPECT_EQ(train({"--steps", "7", "--resume", saved}, 62), 0) << errors;
  EXPECT_NE(text.find("these are other data: the checkpoint was trained with 64 samples, and here "
                      "are 62"),
            std::string::npos)
      << text;
  run(shape, 64, {"--steps", "1"});
  std::string bytes(fs::file_size(folder / "y.npy"), ' ');
  std::ifstream(folder / "y.npy", std::ios::binary).read(bytes.data(), int64_t(bytes.size()));
  bytes[bytes.size() - 8] = 1 - bytes[bytes.size() - 8];
  std::ofstream(folder / "other.npy", std::ios::binary) << bytes;
  yFile = "other.npy";
  EXPECT_EQ(train({"--steps", "7", "--resume", saved}), 0) << errors;
  EXPECT_NE(text.find("these are other data: the file of input 'y' is not the one"),
            std::string::npos)
      << text;
  // Checkpoints of earlier versions do not tell.
  const fs::path path = fs::path(saved) / "step-000006/state.json";
  nlohmann::json state = nlohmann::json::parse(std::ifstream(path));
  for (const char *field : {"samples", "data", "run"})
    state.erase(field);
  std::ofstream(path) << state.dump();
  EXPECT_EQ(train({"--steps", "7", "--resume", saved + "/step-000006"}), 0) << errors;
  EXPECT_EQ(text.find("these are other data"), std::string::npos) << text;
}

/// No moment is without a whole checkpoint of the step.
TEST_F(SharedByRuns, AStepThatIsSavedAgainIsExchanged) {
  EXPECT_EQ(train({"--steps", "6", "--lr", "0.25", "--save", saved}), 0) << errors;
  std::set<std::string> names;
  for (const auto &entry : fs::directory_iterator(saved))
    names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{".run", "step-000003", "step-000006"}));
  EXPECT_EQ(weights(fs::path(saved) / "step-000006", 2), reference(shape, 64, 6, 0.25));
}

TEST_F(SharedByRuns, StepsThatCannotBeCounted) {
  EXPECT_EQ(train({"--steps", "4611686018427387904"}), 1);
  EXPECT_NE(errors.find("--steps 4611686018427387904: makes more microbatches than can be counted"),
            std::string::npos)
      << errors;
  EXPECT_EQ(train({"--epochs", "9000000000000000000"}), 1);
  EXPECT_NE(errors.find("--epochs 9000000000000000000: makes more "), std::string::npos) << errors;
}

TEST_F(SharedByRuns, SeedsAreOf64Bits) {
  const std::string seeded = folder / "seeded", seed = "18446744073709551615";
  EXPECT_EQ(train({"--steps", "1", "--seed", seed, "--save", seeded}), 0) << errors;
  EXPECT_EQ(train({"--steps", "2", "--seed", seed, "--resume", seeded}), 0) << errors;
}

/// A pipeline without a common step cannot clip.
TEST_F(SharedByRuns, AnOptionThatTheCheckpointTellsCanBeLeftOut) {
  const std::string clipped = folder / "clipped";
  EXPECT_EQ(train({"--steps", "2", "--clip-norm", "0.5", "--save", clipped}), 0) << errors;
  const Shape asynchronous{.stages = 2, .asynchronous = true};
  EXPECT_EQ(run(asynchronous, 64, {"--steps", "4", "--resume", clipped}), 1);
  EXPECT_NE(errors.find("--clip-norm 0.5, which the checkpoint tells, needs a common step of all "
                        "ranks, which schedule pipedream does not have; use a synchronous "
                        "schedule, or leave it out by --clip-norm 0"),
            std::string::npos)
      << errors;
  EXPECT_EQ(run(asynchronous, 64, {"--steps", "4", "--resume", clipped, "--clip-norm", "0"}), 0)
      << errors;
}
