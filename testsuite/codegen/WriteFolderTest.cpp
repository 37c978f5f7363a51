#include "codegen/WriteFolder.h"
#include "compiler/Error.h"

#include <fstream>
#include <gtest/gtest.h>

namespace fs = std::filesystem;
using namespace pdc;

namespace {

class WriteFolder : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "pdc-write-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    top = pattern;
  }
  void TearDown() override { fs::remove_all(top); }

  void write(const std::map<std::string, std::string> &files) {
    writeFolder(top / "out", [&](const fs::path &folder) {
      for (const auto &[name, text] : files)
        writeFile(folder / name, text);
    });
  }
  std::string read(const std::string &name) {
    std::ifstream file(top / "out" / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t entries() { return std::distance(fs::directory_iterator(top), fs::directory_iterator()); }

  fs::path top;
};

TEST_F(WriteFolder, MakesANewFolderAndLeavesNothingBeside) {
  write({{"plan.json", "{}"}, {"stage_0.cpp", "a"}});
  EXPECT_EQ(read("stage_0.cpp"), "a");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(WriteFolder, ReplacesOnlyWhatChanged) {
  write({{"plan.json", "{}"}, {"same", "a"}, {"changed", "a"}});
  auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
  fs::last_write_time(top / "out/same", long_ago);
  fs::last_write_time(top / "out/changed", long_ago);
  write({{"plan.json", "{}"}, {"same", "a"}, {"changed", "b"}});
  EXPECT_EQ(fs::last_write_time(top / "out/same"), long_ago);
  EXPECT_EQ(read("changed"), "b");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(WriteFolder, OldStagesGoAndTheRestStays) {
  write(
      {{"plan.json", "{}"}, {"stage_0.cpp", "a"}, {"stage_1.cpp", "a"}, {"stage_1_main.cpp", "a"}});
  fs::create_directory(top / "out/build");
  std::ofstream(top / "out/notes.txt") << "mine";
  write({{"plan.json", "{}"}, {"stage_0.cpp", "a"}});
  EXPECT_FALSE(fs::exists(top / "out/stage_1.cpp"));
  EXPECT_FALSE(fs::exists(top / "out/stage_1_main.cpp"));
  EXPECT_TRUE(fs::exists(top / "out/build"));
  EXPECT_EQ(read("notes.txt"), "mine");
}

TEST_F(WriteFolder, RefusesWhatItHasNotWritten) {
  fs::create_directory(top / "out");
  std::ofstream(top / "out/thesis.txt") << "mine";
  EXPECT_THROW(write({{"plan.json", "{}"}}), Error);
  EXPECT_EQ(read("thesis.txt"), "mine");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(WriteFolder, AFailureLeavesNothing) {
  EXPECT_THROW(writeFolder(top / "out", [](const fs::path &) { throw Error("no"); }), Error);
  EXPECT_EQ(entries(), 0u);
}

} // namespace
