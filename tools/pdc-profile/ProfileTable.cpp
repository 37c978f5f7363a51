#include "tools/pdc-profile/ProfileTable.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <utility>

namespace pdc {

static constexpr size_t kNameColumns = 36;

static double total(const PlanUnit &unit) {
  return unit.forwardSeconds + unit.backwardInputSeconds + unit.backwardWeightSeconds +
         unit.updateSeconds;
}

/// Names may hold anything, line ends and escape codes too.
static std::string shown(const std::string &name) {
  std::string text;
  for (char c : name.substr(0, kNameColumns))
    text += c >= 0x20 && c < 0x7f ? c : '?';
  if (name.size() > kNameColumns)
    text.replace(kNameColumns - 3, 3, "...");
  return text;
}

static std::string row(const std::string &name, const PlanUnit &measured, double estimate,
                       double spread) {
  double seconds = total(measured);
  char text[200], error[32] = "-";
  if (seconds > 0)
    std::snprintf(error, sizeof error, "%+.0f%%", 100 * (estimate - seconds) / seconds);
  std::snprintf(text, sizeof text, "%-*s %9.4f %9.4f %9.4f %9.4f %9.4f %6.1f%% %9.4f %8s\n",
                int(kNameColumns), name.c_str(), 1e3 * measured.forwardSeconds,
                1e3 * measured.backwardInputSeconds, 1e3 * measured.backwardWeightSeconds,
                1e3 * measured.updateSeconds, 1e3 * seconds,
                seconds > 0 ? 100 * spread / seconds : 0, 1e3 * estimate, error);
  return text;
}

std::string profileTable(const PlanGraph &measured, const PlanGraph &estimated,
                         const std::vector<double> &spreads) {
  char head[200];
  std::snprintf(head, sizeof head, "%-*s %9s %9s %9s %9s %9s %7s %9s %8s\n", int(kNameColumns),
                "milliseconds", "forward", "input", "weight", "update", "total", "spread",
                "estimate", "error");
  std::string text = head;
  PlanUnit sum;
  double estimates = 0, spread = 0;
  for (size_t i = 0; i < measured.units.size(); ++i) {
    const PlanUnit &unit = measured.units[i];
    double estimate = total(estimated.units[i]);
    text += row(shown(unit.name), unit, estimate, spreads[i]);
    sum.forwardSeconds += unit.forwardSeconds;
    sum.backwardInputSeconds += unit.backwardInputSeconds;
    sum.backwardWeightSeconds += unit.backwardWeightSeconds;
    sum.updateSeconds += unit.updateSeconds;
    estimates += estimate;
    spread += spreads[i];
  }
  return text + row("all units", sum, estimates, spread);
}

namespace {

struct KernelSum {
  int units = 0;
  double measured = 0, estimated = 0, flops = 0, bytes = 0;
};

} // namespace

std::string kernelTable(const std::vector<KernelTimes> &units) {
  std::map<std::string, KernelSum> kernels;
  for (const KernelTimes &unit : units) {
    KernelSum &sum = kernels[unit.kernel];
    ++sum.units;
    sum.measured += unit.measured;
    sum.estimated += unit.estimated;
    sum.flops += unit.flops;
    sum.bytes += unit.bytes;
  }
  std::vector<std::pair<std::string, KernelSum>> sorted(kernels.begin(), kernels.end());
  std::ranges::stable_sort(sorted, std::greater<>(),
                           [](const auto &entry) { return entry.second.measured; });
  char line[200];
  std::snprintf(line, sizeof line, "%-*s %9s %9s %9s %8s %9s %9s\n", int(kNameColumns), "kernels",
                "units", "total", "estimate", "error", "Gflop/s", "GB/s");
  std::string text = line;
  for (const auto &[name, times] : sorted) {
    if (times.measured <= 0)
      continue;
    std::snprintf(line, sizeof line, "%-*s %9d %9.4f %9.4f %+7.0f%% %9.1f %9.1f\n",
                  int(kNameColumns), name.c_str(), times.units, 1e3 * times.measured,
                  1e3 * times.estimated, 100 * (times.estimated / times.measured - 1),
                  1e-9 * times.flops / times.measured, 1e-9 * times.bytes / times.measured);
    text += line;
  }
  return text;
}

/// A field of comma-separated values: quoted, so that it may hold anything.
static std::string quoted(const std::string &name) {
  std::string text = "\"";
  for (char c : name)
    text += c == '"' ? "\"\"" : std::string(1, c);
  return text + "\"";
}

std::string kernelLines(const std::vector<KernelTimes> &units) {
  std::string text = "unit,kernel,seconds,estimated_seconds,flops,bytes\n";
  for (const KernelTimes &unit : units) {
    char line[120];
    std::snprintf(line, sizeof line, ",%.9g,%.9g,%.9g,%.9g\n", unit.measured, unit.estimated,
                  unit.flops, unit.bytes);
    text += quoted(unit.unit) + "," + unit.kernel + line;
  }
  return text;
}

} // namespace pdc
