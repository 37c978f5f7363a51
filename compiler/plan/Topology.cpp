#include "compiler/plan/Fields.h"
#include "compiler/plan/Files.h"

#include "compiler/Error.h"

namespace pdc {

int Topology::workers() const {
  int64_t product = 1;
  for (const Level &level : levels)
    product *= level.workers;
  return static_cast<int>(product);
}

Link Topology::linkBetween(int rank, int other) const {
  for (const Level &level : levels) {
    rank /= level.workers;
    other /= level.workers;
    if (rank == other)
      return level.link;
  }
  return levels.empty() ? Link{} : levels.back().link;
}

Topology parseTopology(std::string_view text, const std::string &file) {
  return toTopology(parseFields(text, file));
}

Topology toTopology(const Fields &top) {
  constexpr int64_t kMostWorkers = 65536;
  Topology topology;
  int64_t product = 1;
  for (Fields level : top.list("levels")) {
    Level read;
    read.workers = static_cast<int>(level.integer("workers", 1, kMostWorkers));
    read.link.bytesPerSecond = level.number("bandwidth");
    read.link.latencySeconds = level.number("latency", 0);
    product *= read.workers;
    if (read.link.bytesPerSecond <= 0)
      level.refuse("bandwidth", "expected bytes per second above 0");
    if (product > kMostWorkers)
      level.refuse("workers", "expected at most " + std::to_string(kMostWorkers) + " in all");
    topology.levels.push_back(read);
  }
  if (topology.levels.empty())
    top.refuse("levels", "expected at least one level");
  topology.memoryBytes = top.integer("memory", 0, INT64_MAX, 0);
  topology.device = top.string("device", "");
  return topology;
}

} // namespace pdc
