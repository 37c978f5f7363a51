#pragma once

#include "tools/pdc-profile/Measurement.h"
#include "tools/pdc/Lowering.h"

#include <filesystem>
#include <string>
#include <vector>

namespace pdc {

/// The program of a whole model on one device that records the times of its units.
class MeasuringProgram {
public:
  /// Writes its sources into `project`, or nowhere where that is empty.
  MeasuringProgram(const Options &options, const std::filesystem::path &project,
                   std::ostream &progress);

  /// The graph at level 1, with estimated seconds.
  mlir::ModuleOp units() const { return *graph; }
  int64_t minibatch() const { return batch.minibatch(); }
  int64_t microbatchSize() const { return batch.microbatchSize; }
  const Plan &planned() const { return *plan; }
  const Model &model() const { return lowering.model; }

  /// What it has written elsewhere.
  UnitTimes read(const std::filesystem::path &times) const {
    return readUnitTimes(times, measured);
  }

  /// Builds it where that is still to be done, and runs so many updates on the data.
  UnitTimes measure(const std::vector<std::string> &data, int64_t steps,
                    const Beside &beside = {}) const {
    return measureUnits(project, measured, data, steps, beside);
  }

private:
  std::filesystem::path project;
  Lowering lowering;
  mlir::OwningOpRef<mlir::ModuleOp> graph;
  std::shared_ptr<const Plan> plan;
  Batch batch;
  TimedUnits measured;
};

/// What was measured within a short time: machines have slower and faster minutes.
struct Round {
  UnitTimes alone;
  UnitTimes beside;    ///< copies on the other cores
  UnitTimes versioned; ///< by a program whose weights have two versions
};

/// What is measured in turns.
struct Rounds {
  const MeasuringProgram &program;
  const MeasuringProgram *versioned; ///< null: there is none
  std::vector<std::string> data;
  int64_t steps = 0; ///< all rounds together, of each of the three
  int copies = 0;
};

std::vector<Round> measureRounds(const Rounds &request);

/// The times alone, the means over the rounds.
UnitTimes meanTimes(const std::vector<Round> &rounds);

/// Gives weight gradients the seconds of an update's first microbatch where later ones, which add
/// to them, take longer, and by how much.
void addAccumulation(PlanGraph &graph, mlir::ModuleOp module, const UnitTimes &times);

/// Puts into the graph, which is that of the program, by how much its units are slower beside
/// copies and, where there is a program of several versions, in that: the middle of what the rounds
/// say.
void addSlowdowns(PlanGraph &graph, const MeasuringProgram &program,
                  const MeasuringProgram *versioned, const std::vector<Round> &rounds);

} // namespace pdc
