#include "runtime/Tuning.h"

#include "runtime/Error.h"
#include "testsuite/DamagedText.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>
#include <unistd.h>
#include <vector>

/// Ways whose seconds the test says.
namespace pdc::runtime {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNone = 99;

class TuningTest : public ::testing::Test {
protected:
  TuningTest()
      : folder(fs::temp_directory_path() /
               ("tuning-" + std::to_string(getpid()) + "-" +
                ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(folder);
    fs::create_directories(folder);
  }
  ~TuningTest() override { fs::remove_all(folder); }

  Tuning of(int rank, const std::string &device = "a card") {
    auto clock = [this](const std::function<void()> &work) {
      work();
      ++timed;
      return seconds[last];
    };
    return Tuning(device, clock, folder.string(), rank);
  }
  /// Which way is taken, and that it has run last; kNone: none.
  size_t choose(Tuning &tuning, const std::string &problem = "a product") {
    auto start = [this](size_t way) {
      if (broken.contains(way))
        return false;
      last = way;
      return true;
    };
    last = kNone;
    const size_t taken = tuning.choose(problem, seconds.size(), start).value_or(kNone);
    EXPECT_EQ(taken, last);
    return taken;
  }
  void write(const std::string &name, const std::string &text) {
    std::ofstream(folder / name) << text;
  }
  std::string text(const std::string &name) const {
    std::ifstream file(folder / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static std::string told(Tuning &tuning) {
    ::testing::internal::CaptureStderr();
    tuning.keep();
    return ::testing::internal::GetCapturedStderr();
  }

  const fs::path folder;
  std::vector<double> seconds;
  std::set<size_t> broken;
  size_t last = kNone, timed = 0;
};

TEST_F(TuningTest, TakesTheFastest) {
  Tuning tuning = of(0);
  seconds = {5, 4, 3, 3.5};
  EXPECT_EQ(choose(tuning), 2u);
  EXPECT_EQ(timed, 4u);
}

TEST_F(TuningTest, StaysWithTheFirstWhereNoneIsClearlyFaster) {
  Tuning tuning = of(0);
  seconds = {1, 0.99, 0.985, 1};
  EXPECT_EQ(choose(tuning), 0u);
  seconds[2] = 0.97;
  EXPECT_EQ(choose(tuning, "another product"), 2u);
}

/// Events of GPUs do not tell less than a microsecond.
TEST_F(TuningTest, StaysWithTheFirstWhereSecondsAreOfNoUse) {
  Tuning tuning = of(0);
  seconds = {2.5e-6, 1.6e-6};
  EXPECT_EQ(choose(tuning), 0u);
  seconds[1] = 1.4e-6;
  EXPECT_EQ(choose(tuning, "another product"), 1u);
}

/// A kernel that breaks the device ends the run, and says what to do without it.
TEST_F(TuningTest, TellsWhichKernelHasFailed) {
  auto clock = [](const std::function<void()> &) -> double {
    throw Error("work of the GPU failed: illegal address");
  };
  Tuning tuning("a card", clock, folder.string(), 0);
  try {
    tuning.choose("a product", 2, [](size_t) { return true; });
    FAIL() << "it ran";
  } catch (const Error &error) {
    EXPECT_STREQ(error.what(), "--tune: kernel 0 for a product: work of the GPU failed: illegal "
                               "address; leave --tune out, which takes the library's first");
  }
}

TEST_F(TuningTest, LeavesOutWhatDoesNotRun) {
  Tuning tuning = of(0);
  seconds = {1, 0.1, 3, 2.99};
  broken = {0, 1};
  EXPECT_EQ(choose(tuning), 2u);
  broken = {0, 1, 2, 3};
  EXPECT_EQ(choose(tuning, "another product"), kNone);
  EXPECT_NE(told(tuning), "");
  EXPECT_EQ(text("rank-0.json").find("another product"), std::string::npos);
}

TEST_F(TuningTest, MeasuresNothingWhereThereIsOneWay) {
  Tuning tuning = of(0);
  seconds = {1};
  EXPECT_EQ(choose(tuning), 0u);
  EXPECT_EQ(timed, 0u);
  EXPECT_EQ(told(tuning), "");
  EXPECT_FALSE(fs::exists(folder / "rank-0.json"));
}

TEST_F(TuningTest, MeasuresEqualProblemsOnce) {
  Tuning tuning = of(0);
  seconds = {2, 1};
  EXPECT_EQ(choose(tuning), 1u);
  seconds = {1, 2};
  EXPECT_EQ(choose(tuning), 1u);
  EXPECT_EQ(choose(tuning, "another product"), 0u);
  EXPECT_EQ(timed, 4u);
}

TEST_F(TuningTest, IsReadAgain) {
  seconds = {2, 1};
  {
    Tuning tuning = of(0);
    EXPECT_EQ(choose(tuning), 1u);
    const std::string line = told(tuning);
    EXPECT_TRUE(line.starts_with("rank 0 measured 2 kernels in ")) << line;
    EXPECT_NE(line.find(" s: for 1 of 1 problems it takes another than the library's first; kept "
                        "in " +
                        (folder / "rank-0.json").string() + "\n"),
              std::string::npos)
        << line;
  }
  timed = 0;
  seconds = {1, 2};
  Tuning again = of(0);
  EXPECT_EQ(choose(again), 1u);
  EXPECT_EQ(timed, 0u);
  EXPECT_EQ(told(again), "");
}

/// What comes later, as an evaluation's problems, is written and told by itself.
TEST_F(TuningTest, KeepsWhatComesLater) {
  seconds = {2, 1};
  Tuning tuning = of(0);
  choose(tuning);
  EXPECT_NE(told(tuning), "");
  EXPECT_EQ(told(tuning), "");
  choose(tuning, "another product");
  EXPECT_NE(told(tuning).find("measured 2 kernels"), std::string::npos);
  EXPECT_NE(text("rank-0.json").find("another product"), std::string::npos);
  for (const fs::directory_entry &entry : fs::directory_iterator(folder))
    EXPECT_NE(entry.path().extension(), ".part") << entry.path();
}

/// What another run has kept meanwhile stays; what this one has measured is what it says.
TEST_F(TuningTest, KeepsWhatAnotherRunHasFound) {
  seconds = {2, 1};
  Tuning one = of(0), other = of(0);
  choose(one, "a product");
  choose(one, "another product");
  choose(other, "a third product");
  seconds = {1, 2};
  choose(other, "a product");
  told(one);
  told(other);
  Tuning again = of(0);
  EXPECT_EQ(again.known("a product"), 0u);
  EXPECT_EQ(again.known("another product"), 1u);
  EXPECT_EQ(again.known("a third product"), 1u);
}

/// A way may be several kernels that are chosen when it starts: their time is the way's.
TEST_F(TuningTest, CountsTimeOnce) {
  seconds = {2, 1};
  Tuning tuning = of(0);
  auto chooseWithin = [&](size_t) {
    return tuning
        .choose("a product", 2,
                [&](size_t) {
                  std::this_thread::sleep_for(std::chrono::milliseconds(150));
                  return true;
                })
        .has_value();
  };
  last = 0;
  const auto begin = std::chrono::steady_clock::now();
  tuning.choose("a product and what follows", 2, chooseWithin);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  const std::string line = told(tuning);
  const size_t at = line.find("measured 4 kernels in ");
  ASSERT_NE(at, std::string::npos) << line;
  EXPECT_LE(std::stod(line.substr(at + 22)), taken.count() + 0.05) << line;
}

TEST_F(TuningTest, ReadsItsOwnFileBeforeTheOthersByTheirNumbers) {
  auto file = [](const std::string &problem, int way) {
    return R"({"format": "pdc tuning 1", "choices": {"a card, )" + problem +
           "\": " + std::to_string(way) + "}}";
  };
  seconds = {1, 1, 1, 1};
  write("rank-3.json", file("a product", 3));
  write("rank-10.json", file("a product", 2));
  write("rank-1.json", file("a sum", 1));
  write("notes.json", "nothing of --tune");
  write("rank-01.json", "nor this");
  Tuning tenth = of(10), zeroth = of(0);
  EXPECT_EQ(choose(tenth), 2u);
  EXPECT_EQ(choose(zeroth), 3u);
  EXPECT_EQ(choose(zeroth, "a sum"), 1u);
  EXPECT_EQ(timed, 0u);
}

/// What one run's file says of other devices and problems stays in it.
TEST_F(TuningTest, IsOfOneKindOfDevice) {
  seconds = {2, 1};
  Tuning first = of(0);
  choose(first);
  first.keep();
  seconds = {1, 2};
  Tuning other = of(0, "another card");
  EXPECT_EQ(choose(other), 0u);
  EXPECT_EQ(timed, 4u);
  other.keep();
  Tuning again = of(0);
  EXPECT_EQ(choose(again), 1u);
}

TEST_F(TuningTest, MeasuresAgainWhereAChoiceDoesNotRunAnyMore) {
  seconds = {2, 1, 1.5};
  Tuning first = of(0);
  choose(first);
  first.keep();
  broken = {1};
  Tuning again = of(0);
  EXPECT_EQ(choose(again), 2u);
  again.keep();
  write("rank-0.json", R"({"format": "pdc tuning 1", "choices": {"a card, a product": 7}})");
  broken = {};
  Tuning damaged = of(0);
  EXPECT_EQ(choose(damaged), 1u);
}

TEST_F(TuningTest, SaysWhatIsDamaged) {
  auto refusal = [&](const std::string &text) -> std::string {
    write("rank-4.json", text);
    try {
      of(0);
    } catch (const Error &error) {
      return error.what();
    }
    return "accepted";
  };
  const std::string file = (folder / "rank-4.json").string();
  const std::string remedy =
      "; remove the file, which has its problems measured again, or give --tune another folder";
  for (const char *text : {"", "[1]", "{\"format\": \"pdc tuning 1\"}", "{\"choices\": {}}",
                           "{\"format\": \"pdc tuning 2\", \"choices\": {}}",
                           "{\"format\": \"pdc tuning 1\", \"choices\": []}"})
    EXPECT_EQ(refusal(text),
              file +
                  ": is damaged or not of this program, expected a JSON object whose "
                  "'format' is 'pdc tuning 1', with an object 'choices'" +
                  remedy)
        << text;
  EXPECT_EQ(refusal("{\"format\": \"pdc tuning 1\", \"choices\": {\"p\": -1}}"),
            file + ": the choice for 'p' is -1, expected a whole number" + remedy);
  EXPECT_EQ(refusal("{\"format\": \"pdc tuning 1\", \"choices\": {\"p\": 1}}"), "accepted");
}

TEST_F(TuningTest, TakesNoDamagedFileForAnythingElse) {
  seconds = {2, 1};
  Tuning tuning = of(0);
  choose(tuning);
  tuning.keep();
  const std::string good = text("rank-0.json");
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    write("rank-0.json", damaged(good, random));
    try {
      Tuning read = of(0);
      EXPECT_LT(choose(read), seconds.size());
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find("rank-0.json"), std::string::npos) << error.what();
    }
  }
}

/// A run does not end for it.
TEST_F(TuningTest, WarnsWhereItCannotWrite) {
  seconds = {2, 1};
  Tuning tuning = of(0);
  choose(tuning);
  fs::remove_all(folder);
  EXPECT_EQ(told(tuning), "warning: " + (folder / "rank-0.json").string() +
                              ": cannot be written; the next run will measure again\n");
}

TEST_F(TuningTest, SaysWhichFolderCannotBeRead) {
  fs::remove_all(folder);
  try {
    of(0);
    FAIL() << "it was read";
  } catch (const Error &error) {
    EXPECT_EQ(error.what(),
              "--tune " + folder.string() +
                  ": cannot be read: No such file or directory; give a folder that can");
  }
}

} // namespace
} // namespace pdc::runtime
