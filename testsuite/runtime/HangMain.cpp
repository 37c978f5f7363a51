#include "runtime/Error.h"
#include "testsuite/runtime/DrawnPipeline.h"
#include "testsuite/runtime/ScheduledToy.h"

#include <cstdio>

namespace pdc {
namespace {

constexpr int kPerSchedule = 6, kDraws = 400;

/// This process's part of one drawn run; whether its stages end with the weights of the rule.
bool endsRight(const Schedule &schedule, const std::vector<Edge> &edges,
               const std::vector<int64_t> &rounds, runtime::Transport &transport,
               runtime::Control &control) {
  const ::toy::ScheduledToy toy(schedule, edges);
  auto expected = toy.expected(rounds), found = expected;
  int rank = transport.rank();
  for (std::vector<uint32_t> &replicas : found)
    std::ranges::fill(replicas, 0);
  toy.runRank(rank, transport, control, rounds, 0, found);
  for (int stage = 0; stage < schedule.stages(); ++stage)
    for (size_t replica = 0; replica < found[stage].size(); ++replica)
      if (schedule.ranksOfStage[stage][replica] == rank &&
          found[stage][replica] != expected[stage][replica])
        return false;
  return true;
}

/// Every process draws the same.
int runAll(runtime::Transport &transport, runtime::Control &control) {
  int wrong = 0;
  for (const ScheduleKind &kind : schedules()) {
    DrawnPipeline drawn(std::mt19937(11));
    int runs = 0;
    for (int draw = 0; draw < kDraws && runs < kPerSchedule; ++draw) {
      Pipeline pipeline = drawn.pipeline(kind);
      std::vector<Edge> edges = drawn.edges(pipeline.stages);
      if (pipeline.ranks() != transport.ranks())
        continue;
      Schedule schedule = completeSchedule(kind.make(pipeline), edges);
      if (++runs; !endsRight(schedule, edges, drawn.rounds(schedule), transport, control)) {
        ++wrong;
        std::fprintf(stderr, "rank %d: %s, draw %d: other weights than the rule's\n",
                     transport.rank(), schedule.name.c_str(), draw);
      }
    }
    if (transport.rank() == 0)
      std::printf("%d ranks, %s: %d runs\n", transport.ranks(), std::string(kind.name).c_str(),
                  runs);
  }
  return wrong;
}

} // namespace
} // namespace pdc

/// mpirun -n RANKS HangMain: drawn pipelines of every schedule that have so many ranks, over MPI.
int main() {
  std::unique_ptr<pdc::runtime::Transport> transport = pdc::runtime::makeMpiTransport(1);
  try {
    auto control = pdc::runtime::connectRanks(transport->rank(), transport->ranks(), true, 60);
    int wrong = pdc::runAll(*transport, *control);
    control->finish();
    return wrong ? 1 : 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    std::_Exit(1);
  }
}
