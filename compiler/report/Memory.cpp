#include "compiler/report/Drawings.h"
#include "compiler/report/Html.h"

#include <algorithm>

namespace pdc {

namespace {

constexpr size_t kMostCharts = 24, kMostPoints = 300;
constexpr double kWidth = 244, kHeight = 70;

/// Bytes that were planned for a rank, and its stages in words.
struct RankMemory {
  int64_t planned = 0;
  std::string stages;
};

std::vector<RankMemory> plannedMemory(const Plan &plan, size_t ranks) {
  std::vector<RankMemory> result(ranks);
  for (const PlanStage &stage : plan.stages)
    for (int rank : stage.ranks) {
      result[rank].planned += stage.memoryBytes;
      result[rank].stages +=
          (result[rank].stages.empty() ? "stage " : ", ") + std::to_string(stage.id);
    }
  return result;
}

/// A staircase from the bottom left and back to the bottom; of very many points the highest of
/// neighbours.
std::string staircase(const std::vector<MemoryPoint> &points, double seconds, double bytes) {
  size_t group = (points.size() + kMostPoints - 1) / kMostPoints;
  std::string path = "M0 " + coordinate(kHeight);
  for (size_t i = 0; i < points.size(); i += group) {
    auto last = points.begin() + static_cast<std::ptrdiff_t>(std::min(points.size(), i + group));
    auto highest = std::max_element(points.begin() + static_cast<std::ptrdiff_t>(i), last,
                                    [](auto &a, auto &b) { return a.bytes < b.bytes; });
    path += "H" + coordinate(points[i].seconds / seconds * kWidth) + "V" +
            coordinate(kHeight * (1 - static_cast<double>(highest->bytes) / bytes));
  }
  return path + "H" + coordinate(kWidth) + "V" + coordinate(kHeight) + "Z";
}

std::string line(const char *kind, double bytes, double most) {
  return std::string("<path class=\"") + kind + "\" d=\"M0 " +
         coordinate(kHeight * (1 - bytes / most)) + "H" + coordinate(kWidth) + "\"/>";
}

} // namespace

std::string drawMemory(const Plan &plan, const PlanSimulation &simulation) {
  std::vector<std::vector<MemoryPoint>> points = memoryOverTime(plan, simulation);
  std::vector<RankMemory> planned = plannedMemory(plan, points.size());
  std::vector<int> ranks = ranksToDraw(plan, kMostCharts);
  int64_t most = 1, limit = plan.topology.memoryBytes;
  for (int rank : ranks) {
    most = std::max(most, planned[rank].planned);
    for (const MemoryPoint &point : points[rank])
      most = std::max(most, point.bytes);
  }
  if (limit > most && limit < 3 * most)
    most = limit;
  double scale = 1.04 * static_cast<double>(most);
  std::string text = "<div class=\"charts\">\n";
  for (int rank : ranks) {
    int stage = 0;
    for (const PlanStage &candidate : plan.stages)
      if (std::ranges::find(candidate.ranks, rank) != candidate.ranks.end())
        stage = candidate.id;
    int64_t peak = std::ranges::max_element(points[rank], {}, &MemoryPoint::bytes)->bytes;
    text += "<figure><figcaption>rank " + std::to_string(rank) + " <span class=\"soft\">" +
            planned[rank].stages + "</span><b>" + bytesText(peak) +
            "</b></figcaption><svg role=\"img\" aria-label=\"at most " + bytesText(peak) +
            " in use, " + bytesText(planned[rank].planned) + " planned\" viewBox=\"0 0 " +
            coordinate(kWidth) + " " + coordinate(kHeight) + "\"><path class=\"area\" style=\"" +
            stageColour(stage) + "\" d=\"" +
            staircase(points[rank], std::max(simulation.seconds, 1e-12), scale) + "\"/>" +
            line("planned", static_cast<double>(planned[rank].planned), scale);
    if (limit > 0 && limit <= most)
      text += line("limit", static_cast<double>(limit), scale);
    text += "</svg></figure>\n";
  }
  return text + "</div>\n";
}

} // namespace pdc
