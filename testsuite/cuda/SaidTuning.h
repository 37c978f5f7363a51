#pragma once

#include "runtime/Tuning.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

namespace pdc::testing {

/// Of fixtures: a tuning in a folder of its own, whose clock runs what it times `turns` times and
/// says what the test has told it.
class SaidTuning {
protected:
  SaidTuning(const std::string &name, int turns)
      : turns(turns),
        folder(std::filesystem::temp_directory_path() / (name + "-" + std::to_string(getpid()))) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    tuning.emplace("a card", clock, folder.string(), 0);
  }
  ~SaidTuning() { std::filesystem::remove_all(folder); }

  const int turns;
  /// Of the runs that are timed, in their order; then all take one second.
  std::vector<double> seconds;
  size_t timed = 0;
  const runtime::Tuning::Clock clock = [this](const std::function<void()> &work) {
    for (int turn = 0; turn < turns; ++turn)
      work();
    return timed < seconds.size() ? seconds[timed++] : (++timed, 1.0);
  };
  const std::filesystem::path folder;
  std::optional<runtime::Tuning> tuning;
};

} // namespace pdc::testing
