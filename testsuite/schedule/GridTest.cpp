#include "compiler/schedule/Grid.h"
#include "compiler/Error.h"
#include "compiler/schedule/Schedules.h"

#include <gtest/gtest.h>
#include <regex>

namespace pdc {
namespace {

std::string gridOf(const char *name, int stages, int64_t microbatches, int64_t iterations = 1) {
  Schedule schedule = findSchedule(name).make(straightPipeline(stages, microbatches));
  return drawGrid(schedule, chainEdges(stages), iterations);
}

TEST(Grid, OneFOneB) {
  EXPECT_EQ(gridOf("1f1b", 3, 5), "stage 0  F0 F1 F2 .  .  B0 F3 B1 F4 B2 .  B3 .  B4\n"
                                  "stage 1  .  F0 F1 .  B0 F2 B1 F3 B2 F4 B3 .  B4 .\n"
                                  "stage 2  .  .  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 .  .\n");
}

TEST(Grid, GPipe) {
  EXPECT_EQ(gridOf("gpipe", 3, 4), "stage 0  F0 F1 F2 F3 .  .  .  .  B0 B1 B2 B3\n"
                                   "stage 1  .  F0 F1 F2 F3 .  .  B0 B1 B2 B3 .\n"
                                   "stage 2  .  .  F0 F1 F2 F3 B0 B1 B2 B3 .  .\n");
}

TEST(Grid, ZeroBubbleH1) {
  EXPECT_EQ(gridOf("zb-h1", 3, 5), "stage 0  F0 F1 F2 .  .  I0 W0 F3 I1 W1 F4 I2 W2 I3 W3 I4 W4\n"
                                   "stage 1  .  F0 F1 .  I0 F2 I1 W0 F3 I2 W1 F4 I3 W2 I4 W3 W4\n"
                                   "stage 2  .  .  F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 F4 I4 W2 W3 W4\n");
}

TEST(Grid, ZeroBubbleH2) {
  EXPECT_EQ(gridOf("zb-h2", 3, 6),
            "stage 0  F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5 .  .\n"
            "stage 1  .  F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 W1 I4 W2 I5 W3 W4 W5 .\n"
            "stage 2  .  .  F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 F5 I5 W1 W2 W3 W4 W5\n");
}

TEST(Grid, Interleaved) {
  Schedule schedule = interleaved(placedPipeline(StagePlacement::loop, 2, 2, 4));
  EXPECT_EQ(drawGrid(schedule, chainEdges(4)),
            "rank 0  0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 .   2B2 .   2B3 0B2 0B3\n"
            "rank 1  .   1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3 .\n");
}

TEST(Grid, ZeroBubbleV) {
  Schedule schedule = zeroBubbleV(placedPipeline(StagePlacement::fold, 2, 2, 4));
  EXPECT_EQ(drawGrid(schedule, chainEdges(4)),
            "rank 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0F3 0I0 0W0 3F2 3I2 3W2 0I1 0W1 3F3 3I3 "
            "3W3 0I2 0W2 0I3 0W3 .\n"
            "rank 1  .   1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1F3 1I1 1W1 2F3 2I2 2W2 "
            "1I2 2I3 1I3 1W2 2W3 1W3\n");
}

TEST(Grid, PipeDream) {
  EXPECT_EQ(gridOf("pipedream", 3, 1, 3), "stage 0  F0 F1 F2 .  .  B0 F3 B1 F4 B2 .  B3 .  B4\n"
                                          "stage 1  .  F0 F1 .  B0 F2 B1 F3 B2 F4 B3 .  B4 .\n"
                                          "stage 2  .  .  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 .  .\n");
}

std::string withoutWidths(const std::string &grid) {
  return std::regex_replace(grid, std::regex(" +"), " ");
}

/// Of replicas whose turns repeat late one iteration fills the drawing, which says what more say.
TEST(Grid, OfLongPeriods) {
  for (std::vector<int> replicas : {std::vector<int>{5, 7, 9}, {1, 2, 1}, {3, 1}, {1}}) {
    const Schedule schedule = pipedream(replicatedPipeline(replicas, 1));
    const std::vector<Edge> edges = chainEdges(schedule.stages());
    const int64_t rhythm = schedule.stages() + 2, drawn = iterationsToDraw(schedule);
    EXPECT_LE(drawn, schedule.period == 315 ? 2 : rhythm);
    EXPECT_EQ(withoutWidths(drawGrid(schedule, edges, drawn)),
              withoutWidths(drawGrid(schedule, edges, rhythm)));
  }
}

TEST(Grid, TwoVersions) {
  EXPECT_EQ(gridOf("2bw", 3, 4, 0), "stage 0  F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3\n"
                                    "stage 1  .  F0 F1 .  B0 F2 B1 F3 B2 .  B3 .\n"
                                    "stage 2  .  .  F0 B0 F1 B1 F2 B2 F3 B3 .  .\n");
}

TEST(Grid, OneStage) { EXPECT_EQ(gridOf("1f1b", 1, 2), "stage 0  F0 B0 F1 B1\n"); }

TEST(Grid, Evaluation) {
  Edge edge{0, "x", 0, 1, Phase::evaluate, Phase::evaluate, 0};
  EXPECT_EQ(drawGrid(evaluation(straightPipeline(2, 1)), std::span(&edge, 1), 3),
            "stage 0  E0 E1 E2 .\n"
            "stage 1  .  E0 E1 E2\n");
}

TEST(Grid, SeveralStagesOnARank) {
  Schedule schedule = oneFOneB({4, {{0}, {1}, {0}, {1}}, 2});
  EXPECT_EQ(drawGrid(schedule, chainEdges(4)),
            "rank 0  0F0 0F1 2F0 2F1 .   2B0 .   0B0 2B1 .   0B1\n"
            "rank 1  .   1F0 1F1 3F0 3B0 3F1 1B0 3B1 .   1B1 .\n");
}

TEST(Grid, MarksAStep) {
  Schedule schedule = gpipe(straightPipeline(2, 2));
  EXPECT_EQ(drawGrid(schedule, chainEdges(2), 1, Mark{1, {1, Phase::backward, 1}}),
            "stage 0  F0  F1  .   .   B0  B1\n"
            "stage 1  .   F0  F1  B0  !B1 .\n");
}

TEST(Grid, ShowsWhereRanksStandStill) {
  Schedule schedule = gpipe(straightPipeline(2, 2));
  std::swap(schedule.ranks[1].warmUp[0], schedule.ranks[1].warmUp[2]);
  EXPECT_EQ(drawGrid(schedule, chainEdges(2), 1, Mark{1, {1, Phase::backward, 0}}),
            "stage 0  F0  F1  ?B0\n"
            "stage 1  !B0 .   .\n");
}

TEST(Grid, CutsLongLines) {
  std::string grid = gridOf("1f1b", 2, 200);
  EXPECT_LT(grid.find('\n'), 300u);
}

} // namespace
} // namespace pdc
