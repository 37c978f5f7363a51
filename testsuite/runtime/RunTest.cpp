#include "testsuite/runtime/ToyRun.h"

TEST_F(ToyRun, OneFOneBComputesWhatOneRankComputes) {
  for (int stages = 1; stages <= 4; ++stages)
    for (int64_t microbatches : {1, 2, 3, 5, 8})
      expectTruth({.stages = stages, .microbatches = microbatches}, 64, 6);
}

TEST_F(ToyRun, RendezvousWithDelaysComputesTheSame) {
  for (int stages = 2; stages <= 4; ++stages)
    for (const char *seed : {"1", "2", "3"})
      expectTruth({.stages = stages, .microbatches = 5}, 64, 4, {"--rendezvous", "--delays", seed});
}

TEST_F(ToyRun, EpochTailRunsFewerMicrobatches) {
  // 11 microbatches of 2 samples and one sample left out; 4 per update: 4, 4, 3.
  expectTruth({.stages = 3, .microbatches = 4}, 23, 7);
}

TEST_F(ToyRun, AsynchronousStagesUseTheirStashedVersions) {
  for (int stages = 1; stages <= 4; ++stages)
    for (int64_t steps : {1, 2, 3, 9})
      expectTruth({.stages = stages, .asynchronous = true}, 64, steps);
  expectTruth({.stages = 4, .asynchronous = true}, 64, 9, {"--rendezvous", "--delays", "5"});
}

/// Of three stages the second update of the middle one is the first whose backward pass finds newer
/// weights than its forward pass did. What it hands on is no gradient of any weights.
TEST_F(ToyRun, WithoutStashingGradientsAreWrong) {
  for (bool stashes : {true, false}) {
    Shape shape{.stages = 3, .asynchronous = true, .stashes = stashes};
    int64_t wrong = 0;
    for (int64_t steps = 1; steps <= 6 && !wrong; ++steps) {
      std::string save = folder / ((stashes ? "stashed-" : "newest-") + std::to_string(steps));
      ASSERT_EQ(run(shape, 64, {"--steps", std::to_string(steps), "--save", save, "--lr", "0.125"}),
                0)
          << errors;
      auto trained = weights(fs::path(save) / ("step-00000" + std::to_string(steps)), 3);
      // Up to the update before, weights and data were those of the rule.
      if (trained != reference(shape, 64, steps, 0.125))
        wrong = steps;
    }
    EXPECT_EQ(wrong, stashes ? 0 : 2);
  }
}

TEST_F(ToyRun, ResumedRunContinuesBitForBit) {
  Shape shape{.stages = 3, .microbatches = 2};
  std::string a = folder / "a", b = folder / "b", c = folder / "c";
  ASSERT_EQ(run(shape, 22, {"--steps", "9", "--save", a, "--clip-norm", "0.5"}), 0);
  ASSERT_EQ(run(shape, 22, {"--steps", "4", "--save", b, "--clip-norm", "0.5"}), 0);
  ASSERT_EQ(run(shape, 22, {"--steps", "9", "--resume", b, "--save", c, "--clip-norm", "0.5"}), 0);
  EXPECT_EQ(weights(folder / "a/step-000009", 3), weights(folder / "c/step-000009", 3));
}

TEST_F(ToyRun, EvaluationMasksThePaddedSamples) {
  Shape shape{.stages = 2, .microbatches = 2};
  std::string log = folder / "log";
  std::vector<std::string> data = {"--eval-data", "x=" + folder.string() + "/x.npy", "--eval-data",
                                   "y=" + folder.string() + "/y.npy"};
  data.insert(data.end(), {"--epochs", "2", "--log", log});
  ASSERT_EQ(run(shape, 13, data), 0);
  int evaluations = 0;
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);) {
    nlohmann::json json = nlohmann::json::parse(line);
    if (!json.contains("evaluation_loss"))
      continue;
    ++evaluations;
    EXPECT_EQ(json["samples"], 13);
  }
  EXPECT_EQ(evaluations, 2);
}

TEST_F(ToyRun, StuckRankEndsTheRunWithAReport) {
  EXPECT_EQ(run({.stages = 3, .microbatches = 4, .hangingStage = 1}, 64,
                {"--steps", "4", "--timeout", "1"}),
            1);
  const std::string &text = errors;
  EXPECT_NE(text.find("nothing moves"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1 computes in stage 1, step 1, microbatch 2 (F2)"), std::string::npos)
      << text;
  EXPECT_NE(text.find("rank 2 waits to send 'y1/grad' to rank 1 in stage 2"), std::string::npos)
      << text;
}

TEST_F(ToyRun, RefusalsNameTheField) {
  auto refusal = [&](std::vector<std::string> arguments) {
    int code = run({.stages = 2}, 16, arguments);
    return std::to_string(code) + " " + errors;
  };
  EXPECT_NE(refusal({"--data", "z=" + folder.string() + "/x.npy"}).find("1 error: --data z="),
            std::string::npos);
  EXPECT_NE(refusal({"--lr-schedule", "exponential"}).find("'exponential' is not known"),
            std::string::npos);
  EXPECT_NE(refusal({"--resume", folder / "none"}).find("holds no checkpoint"), std::string::npos);
  EXPECT_EQ(refusal({"--nothing"})[0], '2');
}

TEST_F(ToyRun, TraceAndRecordHoldEveryRank) {
  std::string trace = folder / "trace.json", record = folder / "record";
  ASSERT_EQ(run({.stages = 2, .microbatches = 2}, 16,
                {"--steps", "1", "--trace", trace, "--record", record}),
            0);
  nlohmann::json json = nlohmann::json::parse(std::ifstream(trace));
  int tasks = 0, transfers = 0;
  for (const auto &event : json["traceEvents"]) {
    tasks += event["name"] == "F1" || event["name"] == "B0";
    transfers += event["name"] == "y0" || event["name"] == "y0/grad";
  }
  EXPECT_EQ(tasks, 4);
  EXPECT_EQ(transfers, 8);
  std::ifstream file(record);
  std::string all(std::istreambuf_iterator<char>(file), {});
  EXPECT_NE(all.find("rank 1 step 1 run 1F0"), std::string::npos) << all;
}

#ifdef PDC_TOY_MAIN

TEST_F(ToyProcesses, OneFOneBComputesWhatOneRankComputes) {
  for (int stages : {1, 2, 4})
    expectTruth({.stages = stages, .microbatches = 5}, 64, 8);
}

TEST_F(ToyProcesses, AsynchronousStagesUseTheirStashedVersions) {
  expectTruth({.stages = 3, .asynchronous = true}, 64, 20);
}

TEST_F(ToyProcesses, CheckpointOfProcessesIsThatOfThreads) {
  Shape shape{.stages = 3, .microbatches = 2};
  std::string processes = folder / "processes", threads = folder / "threads";
  ASSERT_EQ(run(shape, 22, {"--steps", "5", "--save", processes}), 0) << errors;
  mpi = false;
  ASSERT_EQ(run(shape, 22, {"--steps", "9", "--resume", processes, "--save", processes}), 0);
  ASSERT_EQ(run(shape, 22, {"--steps", "9", "--save", threads}), 0);
  EXPECT_EQ(weights(folder / "processes/step-000009", 3),
            weights(folder / "threads/step-000009", 3));
}

/// Without a single copy the sender must call MPI until its message is through, also while it waits
/// for the sum of the losses: the last microbatch of a step is sent just before that.
TEST_F(ToyProcesses, SendersKeepMovingWhileTheyWaitForTheOthers) {
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
  expectTruth({.stages = 4, .microbatches = 2}, 64, 12, {"--timeout", "10"});
  unsetenv("OMPI_MCA_btl_vader_single_copy_mechanism");
}

TEST_F(ToyProcesses, KilledRankEndsTheRunWithAReport) {
  for (int dying : {0, 1, 2}) {
    EXPECT_NE(run({.stages = 3, .microbatches = 4, .dyingStage = dying}, 64, {"--steps", "4"}), 0);
    EXPECT_NE(errors.find("rank " + std::to_string(dying) + " has ended without a word"),
              std::string::npos)
        << errors;
    EXPECT_NE(errors.find("in stage "), std::string::npos) << errors;
  }
}

TEST_F(ToyProcesses, StuckRankEndsTheRunWithAReport) {
  EXPECT_NE(run({.stages = 3, .microbatches = 4, .hangingStage = 1}, 64,
                {"--steps", "4", "--timeout", "1"}),
            0);
  EXPECT_NE(errors.find("nothing moves"), std::string::npos) << errors;
  EXPECT_NE(errors.find("rank 1 computes in stage 1, step 1, microbatch 2 (F2)"), std::string::npos)
      << errors;
}

TEST_F(ToyProcesses, RefusalIsToldOnce) {
  EXPECT_EQ(run({.stages = 3}, 64, {"--data", "z=nothing"}), 1);
  size_t first = errors.find("error: --data z=nothing: the model has no input 'z'");
  EXPECT_NE(first, std::string::npos) << errors;
  EXPECT_EQ(errors.find("error: --data", first + 1), std::string::npos) << errors;
}

/// What one of two ranks is told alone is named, whatever it is.
TEST_F(ToyProcesses, RefuseOptionsThatDiffer) {
  writeData(folder, 64);
  const Shape shape = {.stages = 2};
  const std::string x = "x=" + folder.string() + "/x.npy", y = "y=" + folder.string() + "/y.npy";
  const std::string saved = folder / "saved";
  ASSERT_EQ(run(shape, 64, {"--steps", "1", "--save", saved}), 0) << errors;
  struct Case {
    int rank;
    std::vector<std::string> words;
    std::string says;
  };
  const std::string one = "rank 1 was started ", zero = " and rank 0 ";
  for (const Case &given :
       {Case{0,
             {"--eval-data", x, "--eval-data", y},
             one + "without --eval-data" + zero + "with --eval-data;"},
        Case{1,
             {"--eval-data", x, "--eval-data", y},
             one + "with --eval-data" + zero + "without --eval-data;"},
        Case{1, {"--resume", saved}, one + "with --resume" + zero + "without --resume;"},
        Case{1, {"--save", saved}, one + "with --save" + zero + "without --save;"},
        Case{0, {"--save", saved}, one + "without --save" + zero + "with --save;"},
        Case{0, {"--steps", "5"}, one + "without --steps" + zero + "with --steps 5;"},
        Case{1,
             {"--clip-norm", "0.5"},
             one + "with --clip-norm 0.5" + zero + "with --clip-norm 0;"}}) {
    std::string line = "timeout 60 mpirun --allow-run-as-root --oversubscribe --bind-to none";
    for (int rank : {0, 1}) {
      line += std::string(rank ? " :" : "") + " -n 1 " PDC_TOY_MAIN " '" + shapeText(shape) + "'";
      const std::vector<std::string> words =
          command(rank == given.rank ? given.words : std::vector<std::string>());
      for (size_t i = 1; i < words.size(); ++i)
        line += " " + words[i];
    }
    const int status = std::system((line + " 2> " + (folder / "errors").string()).c_str());
    EXPECT_EQ(WEXITSTATUS(status), 1) << given.says;
    std::ifstream file(folder / "errors");
    errors.assign(std::istreambuf_iterator<char>(file), {});
    EXPECT_NE(errors.find("error: " + given.says + " start all ranks with the same options"),
              std::string::npos)
        << errors << "does not say " << given.says;
  }
}

/// Each in a folder of its own, as on hosts that share none.
TEST_F(ToyProcesses, RefuseAFolderThatIsNotShared) {
  writeData(folder, 64);
  const Shape shape = {.stages = 2};
  std::string line = "timeout 60 mpirun --allow-run-as-root --oversubscribe --bind-to none";
  for (const char *host : {"a", "b"}) {
    fs::create_directories(folder / host);
    line += std::string(*host == 'a' ? "" : " :") + " -n 1 --wdir " + (folder / host).string() +
            " " PDC_TOY_MAIN " '" + shapeText(shape) + "'";
    const std::vector<std::string> words = command({"--steps", "4", "--save", "saved"});
    for (size_t i = 1; i < words.size(); ++i)
      line += " " + words[i];
  }
  const int status = std::system((line + " 2> " + (folder / "errors").string()).c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  std::ifstream file(folder / "errors");
  errors.assign(std::istreambuf_iterator<char>(file), {});
  EXPECT_NE(errors.find("error: --save saved: is not the same folder on all hosts: rank 1 on "),
            std::string::npos)
      << errors;
  EXPECT_FALSE(fs::exists(folder / "a" / "saved" / "step-000004"));
}

#else

TEST(ToyProcesses, RunUnderMpirun) { GTEST_SKIP() << "the runtime was built without MPI"; }

#endif
