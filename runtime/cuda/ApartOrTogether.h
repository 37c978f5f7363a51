#pragma once

#include "runtime/Error.h"
#include "runtime/Tuning.h"
#include "runtime/cuda/Launch.h"

#include <exception>
#include <optional>
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

  /// The plan of the one kernel, where it will be measured or is known to be the faster. Not all of
  /// a library's versions have one for all of these on all GPUs.
  template <class Plan, class... Arguments>
  void make(std::optional<Plan> &together, const Arguments &...arguments) const {
    if (!tuning || tuning->known(problem).value_or(kTogether) != kTogether)
      return;
    try {
      together.emplace(arguments...);
    } catch (const Error &) {
      together.reset();
    }
  }

  /// Measures once, in a run that is not recorded. start(way) puts a way's kernels into the queue,
  /// as often as it is called, and throws Error where none of them runs. Throws the first of these
  /// where neither way runs: it says what broke the device.
  template <class Start> void choose(const Run &run, bool hasTogether, Start start) {
    if (!tuning || isRecorded(run))
      return;
    std::exception_ptr first;
    auto starts = [&](size_t way) {
      try {
        start(Way(way));
        return true;
      } catch (const Error &) {
        first = first ? first : std::current_exception();
        return false;
      }
    };
    Tuning &by = *std::exchange(tuning, nullptr);
    const std::optional<size_t> way = by.choose(problem, hasTogether ? 2 : 1, starts);
    if (!way)
      std::rethrow_exception(first);
    chosen = Way(*way);
  }

  Way taken() const { return chosen; }

private:
  Tuning *tuning; ///< null once it has measured, or none
  std::string problem;
  Way chosen = kApart;
};

} // namespace pdc::runtime::cuda
