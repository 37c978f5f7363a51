#include "testsuite/runtime/Toy.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
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
    std::ofstream(folder / "start") << "#!/bin/sh\nexec " PDC_TOY_MAIN " '2 4 0 0 -1 -1' \"$@\"\n";
    fs::permissions(folder / "start", fs::perms::owner_all);
    std::ofstream(folder / "CMakeLists.txt") << R"(cmake_minimum_required(VERSION 3.20)
project(toy NONE)
foreach(name all_stages stage_0 stage_1)
  add_custom_command(OUTPUT ${name} COMMAND ${CMAKE_COMMAND} -E copy
    ${CMAKE_SOURCE_DIR}/start ${name} DEPENDS ${CMAKE_SOURCE_DIR}/start)
  list(APPEND all ${name})
endforeach()
add_custom_target(stages ALL DEPENDS ${all})
)";
  }
  void TearDown() override { fs::remove_all(folder); }

  int run(const std::string &options) {
    std::string line = PDC_RUN " " + folder.string() + " --data x=" + folder.string() +
                       "/x.npy --data y=" + folder.string() + "/y.npy " + options + " > " +
                       (folder / "output").string() + " 2>&1";
    int status = std::system(line.c_str());
    std::ifstream file(folder / "output");
    output.assign(std::istreambuf_iterator<char>(file), {});
    return WEXITSTATUS(status);
  }

  fs::path folder;
  std::string output;
};

TEST_F(PdcRun, BuildsAndTrainsOnBothTransports) {
  for (const char *transport : {"local", "mpi"}) {
    std::string save = folder / transport;
    EXPECT_EQ(run(std::string("--steps 3 --transport ") + transport + " --save " + save), 0)
        << output;
    EXPECT_NE(output.find("trained to step 3"), std::string::npos) << output;
    EXPECT_TRUE(fs::exists(fs::path(save) / "step-000003" / "state.json"));
  }
}

TEST_F(PdcRun, PassesErrorsAndExitCodesOn) {
  EXPECT_EQ(run("--steps 3 --lr-schedule never"), 1);
  EXPECT_NE(output.find("error: --lr-schedule never"), std::string::npos) << output;
  EXPECT_EQ(run("--steps many"), 2);
  std::ofstream(folder / "plan.json") << "{}";
  EXPECT_EQ(run(""), 1);
  EXPECT_NE(output.find("plan.json: is missing or no plan"), std::string::npos) << output;
}
