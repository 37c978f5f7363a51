#include "runtime/RankPlace.h"

#include "runtime/Control.h"
#include "runtime/Error.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace pdc::runtime {
namespace {

using Environment = std::map<std::string, std::string>;

/// In an environment of these variables alone, of all that a launcher sets.
class RankPlaceTest : public testing::Test {
protected:
  void SetUp() override { take({}); }
  void TearDown() override { take({}); }

  static void take(const Environment &environment) {
    for (const char *name :
         {"RANK", "WORLD_SIZE", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
          "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_JOB_ID", "SLURM_PROCID",
          "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS"})
      unsetenv(name);
    for (const auto &[name, value] : environment)
      setenv(name.c_str(), value.c_str(), 1);
  }

  static Launcher launcherOf(const Environment &environment) {
    take(environment);
    return launcherOfThis();
  }
};

// What sbatch gives the script of a job of 16 tasks, and srun each of them (man pages of Slurm
// 23.11, "OUTPUT ENVIRONMENT VARIABLES").
const Environment kBatch = {
    {"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "16"}};
Environment taskOf(const std::string &tasks, const std::string &step) {
  Environment environment = kBatch;
  environment["SLURM_PROCID"] = "9";
  environment["SLURM_LOCALID"] = "1";
  environment["SLURM_STEP_ID"] = step;
  environment["SLURM_STEP_NUM_TASKS"] = tasks;
  return environment;
}

TEST_F(RankPlaceTest, ShellsOfAJobAreNoRanks) {
  EXPECT_EQ(launcherOf({}), Launcher::none);
  EXPECT_EQ(launcherOf(kBatch), Launcher::none);
  EXPECT_FALSE(placeFromEnvironment());
  EXPECT_FALSE(isOneOfSeveral());
  EXPECT_FALSE(startedByMpi());
  // The interactive step of salloc, and a shell of srun --pty under PMI.
  EXPECT_EQ(launcherOf(taskOf("16", "4294967290")), Launcher::none);
  Environment shell = taskOf("1", "0");
  shell["PMIX_RANK"] = "0";
  EXPECT_EQ(launcherOf(shell), Launcher::none);
}

TEST_F(RankPlaceTest, TasksOfAStepAreRanks) {
  EXPECT_EQ(launcherOf(taskOf("12", "3")), Launcher::slurm);
  std::optional<RankPlace> place = placeFromEnvironment();
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 9);
  EXPECT_EQ(place->ranks, 12);
  EXPECT_EQ(place->local, 1);
  EXPECT_TRUE(isOneOfSeveral());
  EXPECT_TRUE(startedByMpi());
  EXPECT_EQ(commandFor(16, false), "srun -n 16");
  EXPECT_EQ(commandFor(16, true), "srun --mpi=pmix -n 16");
}

TEST_F(RankPlaceTest, WhoStartsInsideAStepIsAskedFirst) {
  Environment inside = taskOf("2", "0");
  inside["OMPI_COMM_WORLD_RANK"] = "5";
  inside["OMPI_COMM_WORLD_SIZE"] = "8";
  EXPECT_EQ(launcherOf(inside), Launcher::mpirun);
  EXPECT_EQ(placeFromEnvironment()->rank, 5);
  EXPECT_EQ(commandFor(8, false), "mpirun -n 8");
  inside["RANK"] = "3";
  inside["WORLD_SIZE"] = "4";
  EXPECT_EQ(launcherOf(inside), Launcher::torchrun);
  EXPECT_EQ(placeFromEnvironment()->rank, 3);
  EXPECT_EQ(placeFromEnvironment()->ranks, 4);
  EXPECT_EQ(placeFromEnvironment()->local, 3);
  EXPECT_FALSE(startedByMpi());
}

/// A batch script may say WORLD_SIZE for programs that take their rank from elsewhere.
TEST_F(RankPlaceTest, HalfOfAPlaceIsNone) {
  Environment half = kBatch;
  half["WORLD_SIZE"] = "16";
  EXPECT_EQ(launcherOf(half), Launcher::none);
  EXPECT_EQ(launcherOf({{"PMIX_RANK", "0"}}), Launcher::pmi);
  take({{"RANK", "first"}, {"WORLD_SIZE", "2"}});
  try {
    placeFromEnvironment();
    FAIL() << "accepted";
  } catch (const Error &error) {
    EXPECT_STREQ(error.what(), "RANK is 'first', expected a number");
  }
}

TEST_F(RankPlaceTest, OneOfOneIsNotOneOfSeveral) {
  take({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  EXPECT_FALSE(isOneOfSeveral());
  take({{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  EXPECT_TRUE(isOneOfSeveral());
}

/// What each launcher lacks: only srun and mpirun leave MASTER_ADDR to others.
TEST_F(RankPlaceTest, AdviceIsOfTheLauncher) {
  auto refusal = [](const Environment &environment) -> std::string {
    unsetenv("MASTER_ADDR");
    take(environment);
    try {
      connectRanks(1, 2, false, 1);
      return "accepted";
    } catch (const Error &error) {
      return error.what();
    }
  };
  const std::string begin =
      "rank 1 of 2 does not know where rank 0 listens; set MASTER_ADDR to the "
      "host of rank 0 and MASTER_PORT to a port that is free there, for all "
      "ranks";
  EXPECT_EQ(refusal({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}),
            begin + ": mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29500");
  EXPECT_EQ(refusal(taskOf("2", "0")),
            begin + ": export MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head "
                    "-n 1) MASTER_PORT=29500 before srun");
  EXPECT_EQ(refusal({{"RANK", "1"}, {"WORLD_SIZE", "2"}}), begin + ", as torchrun does");
}

} // namespace
} // namespace pdc::runtime
