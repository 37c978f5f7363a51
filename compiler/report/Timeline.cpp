#include "compiler/report/Drawings.h"
#include "compiler/report/Html.h"
#include "compiler/schedule/Text.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace pdc {

namespace {

constexpr size_t kMostRows = 48, kMostBars = 3000;
/// What a transfer must take to be seen.
constexpr double kLeastWidth = 0.8;
constexpr double kRowHeight = 26, kBarHeight = 18, kAxisHeight = 26;

bool isSum(const Event &event) {
  return event.kind == StepKind::allReduce || event.kind == StepKind::reduceGradients;
}

std::string_view taskName(const Event &event) {
  return isSum(event) ? "waits for a sum over ranks" : phaseName(event.task.phase);
}

/// 1, 2 or 5 times a power of ten: some ten of them in `seconds`.
double tickSeconds(double seconds) {
  double power = std::pow(10, std::floor(std::log10(seconds / 10)));
  for (double factor : {1, 2, 5, 10})
    if (seconds / (factor * power) <= 12)
      return factor * power;
  return 10 * power;
}

class TimelineDrawing {
public:
  TimelineDrawing(const Plan &plan, const PlanSimulation &simulation)
      : plan(plan), simulation(simulation), ranks(ranksToDraw(plan, kMostRows)),
        rows(simulation.busySeconds.size(), -1) {
    for (size_t row = 0; row < ranks.size(); ++row)
      rows[ranks[row]] = static_cast<int>(row);
    chooseWindow();
  }
  std::string draw() const;

private:
  void chooseWindow();
  double x(double time) const { return time / seconds * width; }
  std::string bar(const Event &event) const;
  std::string transfer(const Event &event) const;
  std::string axis() const;
  std::string labels() const;

  const Plan &plan;
  const PlanSimulation &simulation;
  std::vector<int> ranks;
  std::vector<int> rows; ///< by rank; -1: not drawn
  double seconds = 0, width = 1000;
};

/// From the start until so many bars are drawn; wide enough that most can be told apart.
void TimelineDrawing::chooseWindow() {
  seconds = simulation.seconds;
  size_t bars = 0;
  std::map<int, size_t> ofRank;
  for (const Event &event : simulation.events) {
    if (rows[event.rank] < 0 || event.kind != StepKind::run)
      continue;
    ++ofRank[event.rank];
    if (++bars == kMostBars)
      seconds = event.start;
  }
  size_t longest = 0;
  for (auto [rank, count] : ofRank)
    longest = std::max(longest, std::min(count, kMostBars / ofRank.size()));
  width = std::clamp(static_cast<double>(longest) * 22, 930.0, 4000.0);
  seconds = std::max(seconds, 1e-12);
}

std::string TimelineDrawing::bar(const Event &event) const {
  double left = x(event.start), wide = std::max(x(event.end) - left, 0.6);
  double top = rows[event.rank] * kRowHeight + 3;
  bool sums = isSum(event);
  char kind = sums ? 'S' : letter(event.task.phase);
  std::string number = std::to_string(event.task.microbatch);
  std::string text = "<rect class=\"" + std::string(1, kind) + "\"";
  if (!sums)
    text += " style=\"" + stageColour(event.task.stage) + "\"";
  text += " x=\"" + coordinate(left) + "\" y=\"" + coordinate(top) + "\" width=\"" +
          coordinate(wide) + "\" height=\"" + coordinate(kBarHeight) + "\"><title>" +
          (sums ? std::string() : kind + number + ": ") + std::string(taskName(event)) +
          ", stage " + std::to_string(event.task.stage) + ", " + secondsText(event.start) + " to " +
          secondsText(event.end) + "</title></rect>";
  if (!sums && kind != 'U' && wide > 5.5 * static_cast<double>(number.size()) + 4)
    text += std::string("<text class=\"") + (kind == 'B' || kind == 'I' ? "on" : "in") + "\" x=\"" +
            coordinate(left + wide / 2) + "\" y=\"" + coordinate(top + 13) + "\">" + number +
            "</text>";
  return text + "\n";
}

std::string TimelineDrawing::transfer(const Event &event) const {
  double left = x(event.start), wide = std::max(x(event.end) - left, 1.0);
  return "<rect class=\"send\" x=\"" + coordinate(left) + "\" y=\"" +
         coordinate(rows[event.rank] * kRowHeight + kBarHeight + 4) + "\" width=\"" +
         coordinate(wide) + "\" height=\"2.5\"><title>sends " +
         htmlText(plan.edges[event.edge].tensor, 60) + " of " +
         std::to_string(event.task.microbatch) + " to rank " + std::to_string(event.peer) +
         "</title></rect>\n";
}

std::string TimelineDrawing::axis() const {
  double bottom = static_cast<double>(ranks.size()) * kRowHeight, step = tickSeconds(seconds);
  std::string text;
  for (int tick = 0; tick * step <= seconds; ++tick) {
    std::string at = coordinate(x(tick * step));
    text += "<path class=\"tick\" d=\"M" + at + " 0V" + coordinate(bottom + 5) +
            "\"/><text class=\"axis\" x=\"" + at + "\" y=\"" + coordinate(bottom + 19) + "\">" +
            secondsText(tick * step) + "</text>\n";
  }
  return text;
}

std::string TimelineDrawing::labels() const {
  std::map<int, std::string> stages;
  for (const PlanStage &stage : plan.stages)
    for (int rank : stage.ranks)
      stages[rank] += (stages[rank].empty() ? "stage " : ", ") + std::to_string(stage.id);
  std::string text;
  for (size_t row = 0; row < ranks.size(); ++row)
    text += "<text class=\"row\" x=\"0\" y=\"" +
            coordinate(static_cast<double>(row) * kRowHeight + 16) + "\">rank " +
            std::to_string(ranks[row]) + "<tspan class=\"soft\" dx=\"6\">" + stages[ranks[row]] +
            "</tspan></text>\n";
  return text;
}

std::string TimelineDrawing::draw() const {
  std::string height = coordinate(static_cast<double>(ranks.size()) * kRowHeight + kAxisHeight);
  std::string text =
      "<div class=\"timeline\"><svg aria-hidden=\"true\" width=\"132\" height=\"" + height + "\">" +
      labels() +
      "</svg>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
      "aria-label=\"timeline, scrolls sideways\"><svg role=\"img\" aria-label=\"What "
      "each rank does over time; the stage table says the same in numbers\" width=\"" +
      coordinate(width + 26) + "\" height=\"" + height + "\">\n" + axis();
  for (size_t row = 0; row < ranks.size(); ++row)
    text += "<rect class=\"idle\" x=\"0\" y=\"" +
            coordinate(static_cast<double>(row) * kRowHeight + 3) + "\" width=\"" +
            coordinate(width) + "\" height=\"" + coordinate(kBarHeight) + "\"/>\n";
  for (const Event &event : simulation.events) {
    if (rows[event.rank] < 0 || event.end > seconds * (1 + 1e-9))
      continue;
    if (event.kind == StepKind::run || (isSum(event) && event.end > event.start))
      text += bar(event);
    else if (event.kind == StepKind::send && x(event.end) - x(event.start) > kLeastWidth)
      text += transfer(event);
  }
  text += "</svg></div></div>\n";
  if (ranks.size() < simulation.busySeconds.size() || seconds < simulation.seconds)
    text += "<p class=\"soft\">Drawn are " + std::to_string(ranks.size()) + " of " +
            std::to_string(simulation.busySeconds.size()) + " ranks and the first " +
            secondsText(seconds) + " of " + secondsText(simulation.seconds) +
            " played; the trace has more.</p>\n";
  return text;
}

} // namespace

std::vector<int> ranksToDraw(const Plan &plan, size_t most) {
  size_t workers = 0;
  for (const PlanStage &stage : plan.stages)
    workers += stage.ranks.size();
  // As many replicas of each stage as there is room for; of too many stages the first and the last.
  size_t each = std::max<size_t>(1, workers <= most ? workers : most / plan.stages.size());
  std::vector<int> ranks;
  for (const PlanStage &stage : plan.stages) {
    size_t behind = plan.stages.size() - static_cast<size_t>(stage.id);
    if (plan.stages.size() > most && static_cast<size_t>(stage.id) >= most / 2 && behind > most / 2)
      continue;
    for (size_t i = 0; i < std::min(each, stage.ranks.size()); ++i)
      if (std::ranges::find(ranks, stage.ranks[i]) == ranks.end())
        ranks.push_back(stage.ranks[i]);
  }
  return ranks;
}

std::string drawTimeline(const Plan &plan, const PlanSimulation &simulation) {
  return TimelineDrawing(plan, simulation).draw();
}

} // namespace pdc
