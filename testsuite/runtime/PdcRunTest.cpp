#include "testsuite/runtime/Toy.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fs = std::filesystem;

/// A project folder whose build only makes scripts that start ToyMain.
class PdcRun : public testing::Test {
protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("pdc-run-tool-" + std::to_string(getpid()));
    fs::create_directories(folder);
    toy::writeData(folder, 32);
    std::ofstream(folder / "plan.json")
        << R"({"model": "toy", "stages": [{"ranks": [0]}, {"ranks": [1]}]})";
    std::ofstream(folder / "start")
        << "#!/bin/sh\nexec " PDC_TOY_MAIN " '2 4 0 0.001 -1 -1 -1' \"$@\"\n";
    fs::permissions(folder / "start", fs::perms::owner_all);
    std::ofstream(folder / "CMakeLists.txt") << R"(cmake_minimum_required(VERSION 3.20)
project(toy NONE)
foreach(name all_stages stage_0)
  add_custom_target(${name} ALL COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/start ${name})
endforeach()
)";
  }
  void TearDown() override { fs::remove_all(folder); }

  int run(const std::string &options, const std::string &environment = "") {
    std::string line = environment + PDC_RUN " " + folder.string() +
                       " --data x=" + folder.string() + "/x.npy --data y=" + folder.string() +
                       "/y.npy " + options + " > " + (folder / "output").string() + " 2>&1";
    int status = std::system(line.c_str());
    std::ifstream file(folder / "output");
    output.assign(std::istreambuf_iterator<char>(file), {});
    return WEXITSTATUS(status);
  }

  fs::path folder;
  std::string output;
};

TEST_F(PdcRun, BuildsAndTrainsOnBothTransports) {
  for (const char *transport : {"local", "mpi", "mpi --hosts localhost:2"}) {
    std::string save = folder / "saved";
    fs::remove_all(save);
    EXPECT_EQ(run(std::string("--steps 3 --transport ") + transport + " --save " + save), 0)
        << output;
    EXPECT_NE(output.find("trained to step 3"), std::string::npos) << output;
    EXPECT_TRUE(fs::exists(fs::path(save) / "step-000003" / "state.json"));
  }
  // Programs of single stages only for who asks; from then on they stay those of the plan.
  fs::path stage = folder / "build" / "stage_0";
  EXPECT_FALSE(fs::exists(stage));
  EXPECT_EQ(run("--build-only"), 0) << output;
  EXPECT_TRUE(fs::exists(stage));
  fs::resize_file(stage, 0);
  EXPECT_EQ(run("--steps 3"), 0) << output;
  EXPECT_GT(fs::file_size(stage), 0u);
}

/// The variables of sbatch's script and of srun's tasks, as in RankPlaceTest.
TEST_F(PdcRun, BuildsInABatchScriptAndNotAsARank) {
  const std::string batch = "SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=2 ",
                    task = batch + "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 ";
  EXPECT_EQ(run("--transport nccl", task), 1);
  EXPECT_NE(output.find("all_stages: is not built, and this is one of several ranks, which build "
                        "nothing; build before they start: pdc-run " +
                        folder.string() + " --build-only"),
            std::string::npos)
      << output;
  EXPECT_FALSE(fs::exists(folder / "build"));
  EXPECT_EQ(run("--steps 3", batch), 0) << output;
  EXPECT_NE(output.find("trained to step 3"), std::string::npos) << output;
  for (const std::string &environment : {batch, task}) {
    fs::remove_all(folder / "build");
    EXPECT_EQ(run("--build-only", environment), 0) << output;
    EXPECT_TRUE(fs::exists(folder / "build" / "stage_0"));
  }
}

class PdcRunSignal : public PdcRun {
protected:
  /// The exit code of pdc-run after a signal to it (`second`: and again); what it printed is in
  /// `output`.
  int runUntil(int signal, const std::string &options, bool second = false) {
    std::string to = folder / "output", x = "x=" + folder.string() + "/x.npy",
                y = "y=" + folder.string() + "/y.npy", line = options;
    fs::remove(to);
    pid_t child = fork();
    if (child == 0) {
      FILE *file = std::fopen(to.c_str(), "w");
      dup2(fileno(file), STDOUT_FILENO);
      dup2(fileno(file), STDERR_FILENO);
      execl("/bin/sh", "sh", "-c",
            ("exec " PDC_RUN " " + folder.string() + " --data " + x + " --data " + y + " " + line)
                .c_str(),
            nullptr);
      _exit(127);
    }
    auto said = [&](const char *text) {
      for (int i = 0; i < 600; ++i) {
        std::ifstream file(to);
        output.assign(std::istreambuf_iterator<char>(file), {});
        if (output.find(text) != std::string::npos)
          return true;
        usleep(50000);
      }
      return false;
    };
    EXPECT_TRUE(said("step 1/")) << output;
    usleep(second ? 500000 : 0);
    kill(child, signal);
    if (second && said("asked to end")) {
      usleep(400000);
      kill(child, signal);
    }
    int status = 0;
    waitpid(child, &status, 0);
    said("");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
};

TEST_F(PdcRunSignal, EndsBehindTheStepAndSavesOnBothTransports) {
  for (const char *transport : {"local", "mpi"})
    for (int signal : {SIGINT, SIGTERM}) {
      fs::path save = folder / (transport + std::to_string(signal));
      EXPECT_EQ(runUntil(signal, std::string("--steps 1000000 --transport ") + transport +
                                     " --save " + save.string()),
                128 + signal)
          << output;
      EXPECT_NE(output.find("asked to end"), std::string::npos) << output;
      EXPECT_NE(output.find(": go on with --resume " + save.string() + "/step-"), std::string::npos)
          << output;
      EXPECT_EQ(output.find("error:"), std::string::npos) << output;
      EXPECT_EQ(
          run(std::string("--steps 1000000 --check --transport local --resume ") + save.string()),
          0);
    }
}

/// The third forward task of a stage sleeps for seconds: only the second signal ends it.
TEST_F(PdcRunSignal, SecondSignalEndsAtOnce) {
  for (const char *transport : {"local", "mpi"}) {
    std::ofstream(folder / "start")
        << "#!/bin/sh\nexec " PDC_TOY_MAIN " '2 1 0 0 1 -1 -1' \"$@\"\n";
    EXPECT_EQ(runUntil(SIGINT, std::string("--steps 1000000 --transport ") + transport, true),
              128 + SIGINT)
        << output;
    EXPECT_EQ(output.find("stopped behind"), std::string::npos) << output;
  }
}

TEST_F(PdcRun, OneBuildOfAFolderAtATime) {
  std::ofstream(folder / "CMakeLists.txt", std::ios::app)
      << "execute_process(COMMAND mkdir ${CMAKE_SOURCE_DIR}/configuring RESULT_VARIABLE taken)\n"
         "if(taken)\n  message(FATAL_ERROR two)\nendif()\n"
         "execute_process(COMMAND sleep 1)\n"
         "execute_process(COMMAND rmdir ${CMAKE_SOURCE_DIR}/configuring)\n";
  std::string build = PDC_RUN " " + folder.string() + " --build-only > " + folder.string() + "/";
  int status = std::system(
      (build + "a 2>&1 & " + build + "b 2>&1; b=$?; wait $!; exit $(($? + b))").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 0);
  std::string said;
  for (const char *name : {"a", "b"}) {
    std::ifstream file(folder / name);
    said.append(std::istreambuf_iterator<char>(file), {});
  }
  EXPECT_NE(said.find("another pdc-run builds " + folder.string() + "; waiting"), std::string::npos)
      << said;
}

TEST_F(PdcRun, PassesErrorsAndExitCodesOn) {
  EXPECT_EQ(run("--steps 3 --weights /nonexistent"), 0) << output;
  EXPECT_EQ(run("--steps 3 --data z=nothing"), 1);
  EXPECT_NE(output.find("error: --data z=nothing: the model has no input 'z'"), std::string::npos)
      << output;
  std::ofstream(folder / "plan.json") << "{}";
  EXPECT_EQ(run(""), 1);
  EXPECT_NE(output.find("plan.json: is no plan"), std::string::npos) << output;
  fs::remove(folder / "plan.json");
  EXPECT_EQ(run(""), 1);
  EXPECT_NE(output.find("plan.json: cannot be read: No such file"), std::string::npos) << output;
}
