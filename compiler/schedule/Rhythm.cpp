#include "compiler/schedule/Rhythm.h"

#include "compiler/Error.h"
#include "compiler/schedule/Replicas.h"

#include <algorithm>
#include <array>
#include <map>

namespace pdc {

/// The runs of one replica of a stage, of microbatches that it takes in this order.
static std::vector<Step> rowsInRhythm(const Rhythm &rhythm, int stage,
                                      const std::vector<int64_t> &own) {
  std::vector<Step> rows;
  auto count = static_cast<int64_t>(own.size());
  int64_t ahead = std::min(rhythm.ahead, count);
  auto run = [&](Phase phase, int64_t turn) {
    if (turn >= 0 && turn < count)
      rows.push_back(runStep(stage, phase, own[turn]));
  };
  for (int64_t turn = -ahead; turn < count + rhythm.deferred; ++turn) {
    run(Phase::forward, turn + ahead);
    run(rhythm.split ? Phase::backwardInput : Phase::backward, turn);
    if (rhythm.split)
      run(Phase::backwardWeight, turn - rhythm.deferred);
  }
  return rows;
}

Schedule makeRows(std::string_view name, const Pipeline &pipeline) {
  return makeRowsLike(name, name, pipeline);
}

Schedule makeRowsLike(std::string_view like, std::string_view name, const Pipeline &pipeline) {
  Schedule apart = emptySchedule(name, apartPipeline(pipeline));
  std::vector<Rhythm> rhythms = findSchedule(like).rhythms(pipeline);
  for (int stage = 0; stage < pipeline.stages; ++stage)
    for (int64_t replica = 0; replica < apart.replicas(stage); ++replica)
      apart.ranks[apart.ranksOfStage[stage][replica]].warmUp =
          rowsInRhythm(rhythms[stage], stage,
                       microbatchesOf(replica, apart.replicas(stage), pipeline.microbatches));
  return mergeOntoRanks(apart, pipeline);
}

int64_t runsToWrite(std::string_view name, const Pipeline &pipeline) {
  if (findSchedule(name).synchronous)
    return runsOf(pipeline.stages, pipeline.microbatches);
  auto stages = static_cast<int64_t>(pipeline.stages);
  return 2 * stages * stages * stages;
}

/// Of stages that have a replica each: as many versions as microbatches in flight, or two where
/// updates sum at least as many.
static std::optional<Schedule> makeUnwrittenAsynchronous(const ScheduleKind &kind,
                                                         const Pipeline &pipeline) {
  bool sums = kind.sumsMicrobatches;
  if (pipeline.verticalSync || pipeline.ranks() != pipeline.stages ||
      (sums && pipeline.microbatches < pipeline.stages))
    return std::nullopt;
  Schedule schedule = emptyAsynchronousSchedule(kind.name, pipeline);
  schedule.ranks.clear();
  if (sums)
    schedule.weightRule = WeightRule::previous;
  schedule.microbatches = schedule.period = sums ? pipeline.microbatches : 1;
  // Behind the last backward pass of an update the next inputs have come before its slot is free.
  for (const Rhythm &rhythm : kind.rhythms(pipeline))
    schedule.slots.push_back(
        static_cast<int>(rhythm.ahead + 1 + (sums && !schedule.slots.empty())));
  schedule.versions = sums ? std::vector<int>(pipeline.stages, 2) : schedule.slots;
  return schedule;
}

std::optional<Schedule> makeUnwritten(std::string_view name, const Pipeline &pipeline) {
  const ScheduleKind &kind = findSchedule(name);
  if (!kind.rhythms || sharesRanks(pipeline))
    return std::nullopt;
  if (!kind.synchronous)
    return makeUnwrittenAsynchronous(kind, pipeline);
  Schedule schedule = emptySchedule(name, pipeline);
  schedule.ranks.clear();
  schedule.versions.assign(pipeline.stages, 1);
  std::vector<Rhythm> rhythms = kind.rhythms(pipeline);
  for (int stage = 0; stage < pipeline.stages; ++stage) {
    int64_t replicas = schedule.replicas(stage);
    int64_t most = (pipeline.microbatches + replicas - 1) / replicas;
    schedule.slots.push_back(static_cast<int>(rhythms[stage].inFlight(most)));
  }
  return schedule;
}

namespace {

/// Ranks at work, each at the next run of its rhythm.
class RhythmPlayer {
public:
  RhythmPlayer(const Schedule &schedule, std::span<const Edge> edges, const PlayCosts &costs,
               int64_t microbatches);
  double play();

private:
  /// What a stage sends to another in a phase: its tensors go one behind the other, and the reader
  /// waits for the last.
  struct Line {
    int from, to;
    double seconds = 0;
    size_t arrivals = 0, links = 0; ///< its first in `arrived`, in `linkFree`
  };
  struct Rank {
    int stage = 0;
    int64_t replica = 0, count = 0, turn = 0;
    int part = 0; ///< of the turn: forward, backward or input gradient, weight gradient
    double clock = 0;
    bool waits = true; ///< not among those to look at
  };
  struct Stage {
    Rhythm rhythm;
    std::array<double, 3> seconds{};         ///< by part
    std::array<std::vector<int>, 3> in, out; ///< lines by part
    double update = 0; ///< behind backward passes, of an asynchronous schedule
    int64_t turnsPerUpdate = 1;
    int firstRank = 0;
    int64_t replicas = 1;
  };

  void addLines(std::span<const Edge> edges);
  void advance(Rank &rank);
  bool run(Rank &rank, int64_t turn);
  void send(const Line &line, int64_t microbatch, double now);
  void look(int rank);
  double close() const;

  const Schedule &schedule;
  const PlayCosts &costs;
  int64_t microbatches;
  std::vector<Stage> stages;
  std::vector<Line> lines;
  std::vector<Rank> ranks; ///< by stage and replica
  std::vector<double> arrived, linkFree;
  std::vector<int> ready;
};

RhythmPlayer::RhythmPlayer(const Schedule &schedule, std::span<const Edge> edges,
                           const PlayCosts &costs, int64_t microbatches)
    : schedule(schedule), costs(costs), microbatches(microbatches), stages(schedule.stages()) {
  std::vector<Rhythm> rhythms =
      findSchedule(schedule.name).rhythms({schedule.stages(), schedule.ranksOfStage, microbatches});
  for (int number = 0; number < schedule.stages(); ++number) {
    Stage &stage = stages[number];
    const StageSeconds &own = costs.stages[number];
    stage.rhythm = rhythms[number];
    stage.replicas = schedule.replicas(number);
    stage.firstRank = static_cast<int>(ranks.size());
    stage.seconds = {own.forward,
                     own.of(stage.rhythm.split ? Phase::backwardInput : Phase::backward),
                     own.backwardWeight};
    stage.update = schedule.asynchronous ? own.update : 0;
    stage.turnsPerUpdate =
        std::max<int64_t>(1, microbatchesPerUpdate(schedule, number) / stage.replicas);
    for (int64_t replica = 0; replica < stage.replicas; ++replica) {
      int64_t count = (microbatches - replica + stage.replicas - 1) / stage.replicas;
      int64_t ahead = std::min(stage.rhythm.ahead, count);
      ranks.push_back({number, replica, count, -ahead});
    }
  }
  addLines(edges);
}

void RhythmPlayer::addLines(std::span<const Edge> edges) {
  std::map<std::pair<int, int>, double> seconds;
  for (const Edge &edge : edges)
    seconds[{edge.fromStage, edge.toStage}] += costs.edges.empty() ? 0 : costs.edges[edge.id];
  size_t links = 0, messages = 0;
  for (auto [ends, sum] : seconds) {
    auto [from, to] = ends;
    // Activations go to later stages, gradients to earlier ones.
    int part = from < to ? 0 : 1, number = static_cast<int>(lines.size());
    stages[from].out[part].push_back(number);
    stages[to].in[part].push_back(number);
    lines.push_back({from, to, sum, messages, links});
    messages += static_cast<size_t>(microbatches);
    links += static_cast<size_t>(stages[from].replicas * stages[to].replicas);
  }
  arrived.assign(messages, -1);
  linkFree.assign(links, 0);
}

void RhythmPlayer::look(int number) {
  if (!ranks[number].waits)
    return;
  ranks[number].waits = false;
  ready.push_back(number);
}

void RhythmPlayer::send(const Line &line, int64_t microbatch, double now) {
  int64_t readers = stages[line.to].replicas, reader = microbatch % readers;
  int64_t link = microbatch % stages[line.from].replicas * readers + reader;
  double &free = linkFree[line.links + static_cast<size_t>(link)];
  free = std::max(free, now) + line.seconds;
  arrived[line.arrivals + static_cast<size_t>(microbatch)] = free;
  look(stages[line.to].firstRank + static_cast<int>(reader));
}

/// False where an input has not come.
bool RhythmPlayer::run(Rank &rank, int64_t turn) {
  const Stage &stage = stages[rank.stage];
  int64_t microbatch = rank.replica + turn * stage.replicas;
  double start = rank.clock;
  for (int line : stage.in[rank.part]) {
    double time = arrived[lines[line].arrivals + static_cast<size_t>(microbatch)];
    if (time < 0)
      return false;
    start = std::max(start, time);
  }
  rank.clock = start + stage.seconds[rank.part];
  for (int line : stage.out[rank.part])
    send(lines[line], microbatch, rank.clock);
  if (rank.part == 1 && (turn + 1) % stage.turnsPerUpdate == 0)
    rank.clock += stage.update;
  return true;
}

/// Up to the run that has to wait.
void RhythmPlayer::advance(Rank &rank) {
  const Rhythm &rhythm = stages[rank.stage].rhythm;
  int parts = rhythm.split ? 3 : 2;
  int64_t offsets[] = {std::min(rhythm.ahead, rank.count), 0, -rhythm.deferred};
  while (rank.turn < rank.count + rhythm.deferred) {
    int64_t turn = rank.turn + offsets[rank.part];
    if (turn >= 0 && turn < rank.count && !run(rank, turn))
      return;
    if (++rank.part == parts) {
      rank.part = 0;
      ++rank.turn;
    }
  }
}

/// The sums over replicas and over all ranks, and the updates.
double RhythmPlayer::close() const {
  std::vector<double> ends(stages.size());
  for (const Rank &rank : ranks) {
    if (rank.turn < rank.count + stages[rank.stage].rhythm.deferred)
      throw Error("schedule " + schedule.name +
                  " cannot run: a task comes before one that makes its inputs");
    ends[rank.stage] = std::max(ends[rank.stage], rank.clock);
  }
  double all = 0, update = 0;
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    bool sums = stages[stage].replicas > 1 && !costs.reductions.empty();
    all = std::max(all, ends[stage] + (sums ? costs.reductions[stage] : 0));
    update = std::max(update, costs.stages[stage].update);
  }
  return all + costs.allReduce + update;
}

double RhythmPlayer::play() {
  for (size_t rank = ranks.size(); rank-- > 0;)
    look(static_cast<int>(rank));
  while (!ready.empty()) {
    Rank &rank = ranks[ready.back()];
    ready.pop_back();
    rank.waits = true;
    advance(rank);
  }
  return close();
}

} // namespace

double playUnwritten(const Schedule &schedule, std::span<const Edge> edges,
                     const PlayCosts &costs) {
  auto play = [&](int64_t microbatches) {
    return RhythmPlayer(schedule, edges, costs, microbatches).play();
  };
  if (!schedule.asynchronous)
    return play(schedule.microbatches);
  // The difference of two runs of equal warm-up and drain is steady state alone.
  int64_t settle = iterationsToSettle(schedule) * schedule.period;
  return (play(2 * settle) - play(settle)) / static_cast<double>(settle) *
         static_cast<double>(schedule.microbatches);
}

} // namespace pdc
