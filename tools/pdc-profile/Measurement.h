#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace pdc {

/// The time of one unit: the median of its runs after warm-up, as much above it as the median of
/// all units' rounds is above the sum of their medians; and the middle half of its runs.
struct UnitTime {
  double seconds = 0;
  double lowerQuartile = 0;
  double upperQuartile = 0;
  /// Of the first microbatch of an update, and of the others, which add their gradients to its;
  /// both of all runs where an update has one microbatch, or is what is timed.
  double first = 0, later = 0;
};

/// By the name of the unit; units of the forward and backward pass, the update and what prepares
/// weights after it.
using UnitTimes = std::map<std::string, UnitTime>;

/// What a program measures: the unit that each number belongs to, and how often one that is no
/// part of the update runs for each.
struct TimedUnits {
  std::vector<std::string> numbers;
  int64_t microbatches = 1;
};

/// Numbers the units of a level-4 module so that the printer has their times recorded. Returns the
/// unit that each number belongs to: a unit and the sums of its results may have several.
std::vector<std::string> numberUnits(mlir::ModuleOp module);

/// Copies of the measured program that run beside it, for so long at most.
struct Beside {
  int copies = 0;
  std::chrono::seconds most = {};
};

/// Builds the project in `folder` and runs `steps` updates of it on the data, beside copies of it
/// only if it was built before. Throws Error with the output of what failed.
UnitTimes measureUnits(const std::filesystem::path &folder, const TimedUnits &units,
                       const std::vector<std::string> &data, int64_t steps,
                       const Beside &beside = {});

/// What a measuring program has written. Throws Error where it is of another program.
UnitTimes readUnitTimes(const std::filesystem::path &path, const TimedUnits &units);

/// Puts measured seconds where the units of a level-1 module have estimates.
void applyTimes(mlir::ModuleOp module, const UnitTimes &times);

} // namespace pdc
