#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

/// What the programs of pdc-profile measure: the seconds of each run of each of their units. Other
/// programs do not include this.
namespace pdc::runtime {

/// Tasks run one after the other in one thread. Written as `{"units": [[seconds, ...], ...]}` at
/// the program's end, to the file that the environment variable PDC_UNIT_TIMES names.
class UnitTimes {
public:
  UnitTimes() = default;
  UnitTimes(const UnitTimes &) = delete;
  UnitTimes &operator=(const UnitTimes &) = delete;

  ~UnitTimes() {
    const char *path = std::getenv("PDC_UNIT_TIMES");
    std::FILE *file = path ? std::fopen(path, "w") : nullptr;
    if (!file)
      return;
    std::string text = json();
    std::fwrite(text.data(), 1, text.size(), file);
    std::fclose(file);
  }

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

  std::string json() const {
    std::string text = "{\"units\": [";
    char number[32];
    for (size_t unit = 0; unit < units.size(); ++unit) {
      text += unit ? ",\n[" : "\n[";
      for (size_t run = 0; run < units[unit].size(); ++run) {
        std::snprintf(number, sizeof number, "%s%.9g", run ? ", " : "", units[unit][run]);
        text += number;
      }
      text += "]";
    }
    return text + "\n]}\n";
  }

  Clock::time_point last;
  std::vector<std::vector<double>> units;
};

inline UnitTimes unitTimes;

} // namespace pdc::runtime
