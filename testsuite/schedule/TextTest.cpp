#include "compiler/schedule/Text.h"
#include "compiler/Error.h"
#include "compiler/schedule/Rows.h"
#include "compiler/schedule/Schedules.h"
#include "testsuite/schedule/AnyPipeline.h"

#include <gtest/gtest.h>

namespace pdc {
namespace {

TEST(Text, RoundTrip) {
  for (const ScheduleKind &kind : schedules()) {
    Pipeline pipeline = anyPipeline(kind, 3, 4);
    std::vector<Edge> edges = chainEdges(pipeline.stages);
    Schedule schedule = completeSchedule(kind.make(pipeline), edges);
    std::string text = printSchedule(schedule);
    Schedule read = parseSchedule(text, "x");
    EXPECT_EQ(printSchedule(read), text);
    EXPECT_NO_THROW(completeSchedule(read, edges));
  }
}

TEST(Text, WeightRule) {
  Pipeline pipeline = straightPipeline(2, 1);
  pipeline.verticalSync = true;
  std::string text = printSchedule(pipedream(pipeline));
  EXPECT_NE(text.find("\nweights at-entry\n"), std::string::npos);
  EXPECT_EQ(parseSchedule(text, "x").weightRule, WeightRule::atEntry);
}

TEST(Text, PhaseOfEachCategory) {
  for (int number = 0; number < 7; ++number) {
    const Phase phase{static_cast<uint8_t>(number)};
    EXPECT_EQ(phaseOfCategory(phaseCategory(phase)), phase);
  }
  EXPECT_EQ(phaseCategory(Phase::backwardWeight), "backward_weight");
  EXPECT_EQ(phaseName(Phase::backwardWeight), "weight gradients");
  EXPECT_EQ(phaseOfCategory("send"), std::nullopt);
}

TEST(Text, ComputeRowsAreEnough) {
  Schedule read = parseSchedule("# by hand\nschedule mine\nmicrobatches 1\nstages 0 1\n"
                                "rank 0: 0F0 0B0 allreduce 0U0\nrank 1: 1F0 1B0 allreduce 1U0\n",
                                "mine.txt");
  Schedule complete = completeSchedule(read, chainEdges(2));
  EXPECT_EQ(complete.ranks[0].warmUp.size(), 6u);
}

void expectRefusal(const char *text, const char *message) {
  try {
    parseSchedule(text, "f");
    ADD_FAILURE() << "accepted: " << text;
  } catch (const Error &error) {
    EXPECT_STREQ(error.what(), message);
  }
}

TEST(Text, Refusals) {
  expectRefusal("", "f:0: expected a line 'stages' with the rank of each stage");
  expectRefusal("stages 0 x", "f:1: expected a number from 0 to 65536, found 'x'");
  expectRefusal("stages 0\nrank 1: 0F0",
                "f:2: rank 1 has no stage; 'stages' comes before the rows");
  expectRefusal("stages 0\nrank 0: 0Q0",
                "f:2: expected a phase letter of F, B, I, W, U, P, E, found 'Q0'");
  expectRefusal("stages 0\nrank 0: F0", "f:2: expected a stage number, found 'F0'");
  expectRefusal("stages 0\nrank 0: 0F", "f:2: expected a microbatch number, found ''");
  expectRefusal("stages 0\nrank 0: 0F0>1", "f:2: expected '#' and an edge number in '0F0>1'");
  expectRefusal("stages 0\nrank 0: 0F0>1#2x",
                "f:2: expected nothing behind the edge number in '0F0>1#2x'");
  expectRefusal("stages 0\nrank 0: 0F99999999999",
                "f:2: expected a microbatch number, found '99999999999'");
  expectRefusal("stages 0\nrank 0 again: 0F0",
                "f:2: expected 'rank N:', 'rank N repeat:' or 'rank N drain:'");
  expectRefusal("microbatches 0", "f:1: expected a number from 1 to 2147483647, found '0'");
  expectRefusal("stage 0", "f:1: expected schedule, asynchronous, weights, microbatches, period, "
                           "stages or rank, found 'stage'");
  expectRefusal("weights mine", "f:1: expected 'weights at-entry' or 'weights previous', found "
                                "'weights mine'");
}

} // namespace
} // namespace pdc
