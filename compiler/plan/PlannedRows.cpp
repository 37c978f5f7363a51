#include "compiler/plan/PlannedRows.h"

#include "compiler/Error.h"
#include "compiler/plan/Files.h"
#include "compiler/schedule/Rhythm.h"
#include "compiler/schedule/RunCounts.h"
#include "compiler/schedule/Text.h"
#include "compiler/schedule/Transfers.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace pdc {

bool isFileOfRows(const std::string &schedule) {
  std::error_code error;
  return std::filesystem::is_regular_file(schedule, error);
}

/// The runs and sums of a file; nothing where the schedule is a name. Which edges there are only
/// the cut says, so that sends and receives are placed anew.
static std::optional<Schedule> readRows(const PlanRequest &request) {
  if (!isFileOfRows(request.schedule))
    return std::nullopt;
  Schedule rows = parseSchedule(readTextFile(request.schedule), request.schedule);
  const int ranks = static_cast<int>(rows.ranks.size());
  if (ranks != request.workers)
    throw Error(request.schedule + ": has rows of " + std::to_string(ranks) +
                " ranks, expected one for each of " + std::to_string(request.workers) + " workers");
  removeTransfers(rows);
  checkRowsOfFile(rows, chainEdges(rows.stages()));
  return rows;
}

static const ScheduleKind &kindOf(const PlanRequest &request) {
  if (request.schedule != "auto")
    return findSchedule(request.schedule);
  return findSchedule(request.chunks > 1 ? "interleaved" : "1f1b");
}

/// Stages per rank, of a schedule with a name.
static int countChunks(const PlanRequest &request) {
  const ScheduleKind &kind = kindOf(request);
  int wanted = request.chunks ? request.chunks : kind.placement == StagePlacement::straight ? 1 : 2;
  std::string name(kind.name), found = ", found " + std::to_string(wanted) + " chunks";
  if (kind.placement == StagePlacement::straight && wanted != 1)
    throw Error("schedule " + name + " places one stage on each rank" + found +
                "; use interleaved or zb-v, or leave --chunks out");
  if (kind.placement == StagePlacement::fold && wanted != 2)
    throw Error("schedule " + name + " places two stages on each rank" + found +
                "; leave --chunks out");
  if (kind.placement == StagePlacement::loop && wanted < 2)
    throw Error("schedule " + name + " needs at least 2 chunks per rank" + found +
                "; one chunk per rank is 1f1b");
  if (kind.placement == StagePlacement::loop && wanted > kMostStages / request.workers)
    throw Error("schedule " + name + " on " + std::to_string(request.workers) + " workers" + found +
                " per rank, expected at most " + std::to_string(kMostStages) +
                " stages in all; use fewer --chunks");
  return wanted;
}

static void checkReplicas(const PlanRequest &request) {
  for (int count : request.replicas)
    if (count < 1)
      throw Error("expected at least 1 replica of each stage, found " + std::to_string(count));
  int ranks = std::accumulate(request.replicas.begin(), request.replicas.end(), 0);
  if (ranks > request.workers)
    throw Error("the stages have " + std::to_string(ranks) + " replicas, but there are " +
                std::to_string(request.workers) + " workers");
}

int plannedStages(const PlanRequest &request) {
  if (std::optional<Schedule> rows = readRows(request); rows)
    return rows->stages();
  checkReplicas(request);
  int chunks = countChunks(request), most = request.workers * chunks;
  if (!request.replicas.empty())
    return static_cast<int>(request.replicas.size()) * chunks;
  int stages = request.stages ? request.stages : most;
  if (chunks > 1 && stages != most)
    throw Error("schedule " + request.schedule + " places " + std::to_string(chunks) +
                " stages on each of " + std::to_string(request.workers) + " workers, expected " +
                std::to_string(most) + " stages, found " + std::to_string(stages));
  if (stages < 1 || stages > most)
    throw Error("expected 1 to " + std::to_string(most) + " stages, found " +
                std::to_string(stages));
  return stages;
}

/// Stages have one replica each unless the request says otherwise.
static Pipeline pipelineOf(const PlanRequest &request, int stages) {
  const ScheduleKind &kind = kindOf(request);
  bool straight = kind.placement == StagePlacement::straight;
  int chunks = straight ? 1 : countChunks(request);
  std::vector<int> replicas(stages / chunks, 1);
  if (request.replicas.size() == replicas.size())
    replicas = request.replicas;
  int64_t microbatches = request.microbatches * replicas[0];
  if (!straight)
    return placedPipeline(kind.placement, replicas, chunks, microbatches);
  Pipeline pipeline = replicatedPipeline(replicas, microbatches);
  pipeline.verticalSync = request.verticalSync;
  return pipeline;
}

Schedule plannedRows(const PlanRequest &request, int stages, int64_t mostRuns) {
  std::optional<Schedule> rows = readRows(request);
  if (!rows) {
    Pipeline pipeline = pipelineOf(request, stages);
    std::optional<Schedule> unwritten;
    if (runsToWrite(kindOf(request).name, pipeline) > mostRuns)
      unwritten = makeUnwritten(kindOf(request).name, pipeline);
    return unwritten ? *unwritten : kindOf(request).make(pipeline);
  }
  if (rows->stages() != stages)
    throw Error(request.schedule + ": has " + std::to_string(rows->stages()) +
                " stages, expected " + std::to_string(stages));
  int64_t microbatches = request.microbatches * rows->replicas(0);
  if (rows->sumsMicrobatches() && rows->microbatches != microbatches)
    throw Error(request.schedule + ": has " + std::to_string(rows->microbatches) +
                " microbatches, expected " + std::to_string(microbatches));
  return *rows;
}

} // namespace pdc
