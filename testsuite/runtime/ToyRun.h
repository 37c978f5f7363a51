#pragma once

#include "runtime/FileBytes.h"
#include "runtime/Main.h"
#include "runtime/Safetensors.h"
#include "testsuite/runtime/Toy.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace toy {

namespace fs = std::filesystem;

/// Runs all ranks of a toy pipeline as threads of this process.
class ToyRun : public testing::Test {
protected:
  void SetUp() override {
    folder =
        fs::temp_directory_path() / ("pdc-run-" + std::to_string(getpid()) + "-" +
                                     testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder);
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  std::vector<std::string> command(std::vector<std::string> arguments) {
    std::vector<std::string> words = {"toy",
                                      "--data",
                                      "x=" + folder.string() + "/" + xFile,
                                      "--data",
                                      "y=" + folder.string() + "/" + yFile,
                                      "--order",
                                      "file",
                                      "--progress",
                                      progress};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
  }

  /// On threads, or with `mpi` as processes under mpirun. What went to stderr is in `errors`.
  int run(const Shape &shape, int64_t samples, std::vector<std::string> arguments) {
    writeData(folder, samples);
    std::vector<std::string> words = command(std::move(arguments));
    if (mpi)
      return runProcesses(shape, words);
    words.insert(words.end(), {"--transport", "local"});
    Pipeline pipeline(shape);
    testing::internal::CaptureStderr();
    std::vector<char *> argv;
    for (std::string &word : words)
      argv.push_back(word.data());
    const Programs sources[] = {pipeline.source()};
    int code = pdc::runtime::main(int(argv.size()), argv.data(), sources);
    errors = testing::internal::GetCapturedStderr();
    return code;
  }

#ifdef PDC_TOY_MAIN
  int runProcesses(const Shape &shape, const std::vector<std::string> &words) {
    std::string line = "timeout 60 mpirun --allow-run-as-root --oversubscribe --bind-to none -n " +
                       std::to_string(shape.stages) + " " + PDC_TOY_MAIN;
    for (size_t i = 0; i < words.size(); ++i)
      line += " '" + (i == 0 ? shapeText(shape) : words[i]) + "'";
    int status = std::system((line + " 2> " + (folder / "errors").string()).c_str());
    std::ifstream file(folder / "errors");
    errors.assign(std::istreambuf_iterator<char>(file), {});
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
#else
  int runProcesses(const Shape &, const std::vector<std::string> &) { return -1; }
#endif

  /// The weights of a checkpoint, by stage.
  std::vector<std::vector<float>> weights(const fs::path &checkpoint, int stages) {
    std::vector<std::vector<float>> result;
    nlohmann::json index =
        nlohmann::json::parse(std::ifstream(checkpoint / "model.safetensors.index.json"));
    for (int s = 0; s < stages; ++s) {
      std::string name = "w" + std::to_string(s);
      FileBytes file(checkpoint / std::string(index["weight_map"][name]));
      const float *data = reinterpret_cast<const float *>(readSafetensors(file).at(name).data);
      result.emplace_back(data, data + kWidth);
    }
    return result;
  }

  std::vector<double> losses(const fs::path &log) {
    std::vector<double> result;
    std::ifstream file(log);
    for (std::string line; std::getline(file, line);) {
      nlohmann::json json = nlohmann::json::parse(line);
      if (json.contains("seconds") && json.contains("lr"))
        result.push_back(json["loss"]);
    }
    return result;
  }

  void expectTruth(const Shape &shape, int64_t samples, int64_t steps,
                   std::vector<std::string> arguments = {}) {
    std::string save = folder / "saved", log = folder / "log";
    for (std::string word :
         {std::string("--steps"), std::to_string(steps), std::string("--save"), save,
          std::string("--log"), log, std::string("--lr"), std::string("0.125")})
      arguments.push_back(word);
    ASSERT_EQ(run(shape, samples, arguments), 0) << errors;
    std::vector<double> expectedLosses;
    auto expected = reference(shape, samples, steps, 0.125, &expectedLosses);
    char name[32];
    std::snprintf(name, sizeof name, "step-%06d", int(steps));
    EXPECT_EQ(weights(fs::path(save) / name, shape.stages), expected);
    EXPECT_EQ(losses(log), expectedLosses);
  }

  fs::path folder;
  std::string errors, progress = "none", xFile = "x.npy", yFile = "y.npy";
  bool mpi = false;
};

#ifdef PDC_TOY_MAIN

/// The same as processes under mpirun.
class ToyProcesses : public ToyRun {
protected:
  void SetUp() override {
    ToyRun::SetUp();
    mpi = true;
    if (std::system("mpirun --version > /dev/null 2>&1") != 0)
      GTEST_SKIP() << "mpirun is not installed";
  }
};

#endif

} // namespace toy

using namespace toy;
