#pragma once

#include "runtime/Error.h"
#include "runtime/Tuning.h"
#include "runtime/cuda/Launch.h"

#include <string>
#include <utility>

namespace pdc::runtime::cuda {

/// Which runs: two kernels, or one of a library's that does the work of both where that is measured
/// to be faster. Without a tuning the two.
class ApartOrTogether {
public:
  enum Way : size_t { kApart, kTogether };

  ApartOrTogether(Tuning *tuning, std::string problem)
      : tuning(tuning), problem(std::move(problem)) {}

  /// Whether the one kernel is to be made: it will be measured, or is known to be the faster.
  bool mayBeTogether() const {
    return tuning && tuning->known(problem).value_or(kTogether) == kTogether;
  }

  /// Measures once, in a run that is not recorded. start(way) puts a way's kernels into the queue,
  /// as often as it is called, and throws Error where none of them runs.
  template <class Start> void choose(const Run &run, bool hasTogether, Start start) {
    if (!tuning || isRecorded(run))
      return;
    auto starts = [&](size_t way) {
      try {
        start(Way(way));
        return true;
      } catch (const Error &) {
        return false;
      }
    };
    Tuning &by = *std::exchange(tuning, nullptr);
    chosen = Way(by.choose(problem, hasTogether ? 2 : 1, starts).value_or(kApart));
  }

  Way taken() const { return chosen; }

private:
  Tuning *tuning; ///< null once it has measured, or none
  std::string problem;
  Way chosen = kApart;
};

} // namespace pdc::runtime::cuda
