#include "runtime/Executor.h"

/// The tasks of generated sources, as the executor runs them.
namespace pdc::runtime {

static void callTask(Tasks &tasks, Phase phase, const Run &run) {
  switch (phase) {
  case Phase::forward:
    return tasks.forward(run);
  case Phase::backward:
    return tasks.backward(run);
  case Phase::backwardInput:
    return tasks.backwardInput(run);
  case Phase::backwardWeight:
    return tasks.backwardWeight(run);
  case Phase::update:
    return tasks.update(run);
  case Phase::prepare:
    return tasks.prepare(run);
  case Phase::evaluate:
    return tasks.evaluate(run);
  }
}

void Executor::runKernels(Stage &stage, Phase phase, const Run &run) {
  auto task = [&] { callTask(*stage.tasks, phase, run); };
  if (!options.graphs)
    return task();
  arena.run({stage.info->id,
             phase,
             run.startsSums,
             {run.slotBase, run.latestBase, run.stashedBase, run.nextBase},
             run.sums != nullptr},
            task);
}

} // namespace pdc::runtime
