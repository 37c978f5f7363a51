#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

/// What the programs of pdc-profile measure: the seconds of each run of each of their units. Other
/// programs do not include this.
namespace pdc::runtime {

/// Writes the seconds of each run of each unit as `{"units": [[seconds, ...], ...]}` to the file
/// that the environment variable PDC_UNIT_TIMES names; nothing where no unit has run.
inline void writeUnitTimes(const std::vector<std::vector<double>> &units) {
  const char *path = units.empty() ? nullptr : std::getenv("PDC_UNIT_TIMES");
  std::FILE *file = path ? std::fopen(path, "w") : nullptr;
  if (!file)
    return;
  std::fputs("{\"units\": [", file);
  for (size_t unit = 0; unit < units.size(); ++unit) {
    std::fputs(unit ? ",\n[" : "\n[", file);
    for (size_t run = 0; run < units[unit].size(); ++run)
      std::fprintf(file, "%s%.9g", run ? ", " : "", units[unit][run]);
    std::fputs("]", file);
  }
  std::fputs("\n]}\n", file);
  std::fclose(file);
}

/// Of tasks that run one after the other in one thread, written at the program's end.
class UnitTimes {
public:
  UnitTimes() = default;
  UnitTimes(const UnitTimes &) = delete;
  UnitTimes &operator=(const UnitTimes &) = delete;

  ~UnitTimes() { writeUnitTimes(units); }

  /// A task begins.
  void begin() { last = Clock::now(); }

  /// Unit `number` ends. What recording costs is nobody's time.
  void end(size_t number) {
    Clock::time_point now = Clock::now();
    if (number >= units.size())
      units.resize(number + 1);
    units[number].push_back(std::chrono::duration<double>(now - last).count());
    last = Clock::now();
  }

private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point last;
  std::vector<std::vector<double>> units;
};

inline UnitTimes unitTimes;

} // namespace pdc::runtime
