#include "compiler/Error.h"
#include "compiler/schedule/Grid.h"
#include "compiler/schedule/Proof.h"
#include "compiler/schedule/Text.h"

#include <map>

namespace pdc {

/// Rows of an asynchronous schedule are held to it by checkData.
void checkOrder(const Schedule &schedule, std::span<const Edge> edges) {
  for (int rank = 0; rank < static_cast<int>(schedule.ranks.size()); ++rank) {
    std::map<std::pair<int, Phase>, int64_t> last;
    for (const Step &step : schedule.ranks[rank].warmUp) {
      if (step.kind != StepKind::run)
        continue;
      if (step.task.phase == Phase::update)
        std::erase_if(last, [&](const auto &one) { return one.first.first == step.task.stage; });
      auto [before, isFirst] =
          last.try_emplace({step.task.stage, step.task.phase}, step.task.microbatch);
      if (!isFirst && step.task.microbatch < before->second)
        throw Error("schedule " + schedule.name + ": rank " + std::to_string(rank) + " at " +
                    toString(step) + ": microbatch " + std::to_string(before->second) +
                    " came before, and --exact sums in ascending order of microbatches; order the "
                    "rows so, or leave --exact out\n" +
                    drawGrid(schedule, edges, 1, Mark{rank, step.task}));
      before->second = step.task.microbatch;
    }
  }
}

} // namespace pdc
