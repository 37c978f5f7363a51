#include "runtime/RankPlace.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace pdc::runtime {

/// As torchrun says it, or a job's shell, whose size is that of one task.
TEST(RankPlace, KnowsSeveralProcessesFromOne) {
  for (const char *variable : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"}) {
    unsetenv(variable);
    EXPECT_FALSE(isOneOfSeveral());
  }
  setenv("SLURM_NTASKS", "1", 1);
  EXPECT_FALSE(isOneOfSeveral());
  setenv("WORLD_SIZE", "2", 1);
  EXPECT_TRUE(isOneOfSeveral());
  unsetenv("WORLD_SIZE");
  setenv("SLURM_NTASKS", "8", 1);
  EXPECT_TRUE(isOneOfSeveral());
  unsetenv("SLURM_NTASKS");
}

} // namespace pdc::runtime
