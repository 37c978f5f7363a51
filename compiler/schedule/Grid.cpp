#include "compiler/schedule/Grid.h"

#include "compiler/schedule/Play.h"
#include "compiler/schedule/Schedules.h"
#include "compiler/schedule/Text.h"

#include <algorithm>
#include <cmath>

namespace pdc {

namespace {

using Line = std::vector<std::string>; ///< cells, "" where idle

constexpr size_t kColumns = 48;

std::string cellOf(const Task &task, bool withStage) {
  std::string text = toString(task);
  return withStage ? text : text.substr(std::to_string(task.stage).size());
}

void put(Line &line, size_t column, const std::string &text) {
  if (line.size() <= column)
    line.resize(column + 1);
  line[column] = text;
}

/// Lines that cannot fit are cut to a window that holds the marked column.
std::pair<size_t, size_t> window(const std::vector<Line> &lines, std::optional<size_t> marked) {
  size_t columns = 0;
  for (const Line &line : lines)
    columns = std::max(columns, line.size());
  if (columns <= kColumns)
    return {0, columns};
  size_t first = marked && *marked > 3 * kColumns / 4 ? *marked - 3 * kColumns / 4 : 0;
  return {first, std::min(columns, first + kColumns)};
}

std::string print(const std::vector<Line> &lines, const std::string &title,
                  std::optional<size_t> marked) {
  auto [first, last] = window(lines, marked);
  size_t width = 1;
  for (const Line &line : lines)
    for (const std::string &cell : line)
      width = std::max(width, cell.size());
  size_t digits = std::to_string(lines.size() - 1).size();
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string number = std::to_string(i);
    std::string row = title + " " + std::string(digits - number.size(), ' ') + number + " ";
    row += first ? "..." : "";
    for (size_t column = first; column < last; ++column) {
      std::string cell = column < lines[i].size() ? lines[i][column] : "";
      cell = cell.empty() ? "." : cell;
      row += " " + cell + std::string(width - cell.size(), ' ');
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  return text;
}

bool isDrawn(const Step &step) {
  return step.kind == StepKind::run && step.task.phase != Phase::update;
}

/// What a rank would still run, from where it stands still.
std::optional<Task> nextRun(const Stall &stall, int rank) {
  const std::optional<Step> &step = stall.next[rank];
  return step && isDrawn(*step) ? std::optional(step->task) : std::nullopt;
}

} // namespace

int64_t iterationsToDraw(const Schedule &schedule) {
  if (!schedule.asynchronous)
    return 1;
  // A replica runs a pass of each of its microbatches at least: enough to fill what is printed.
  int64_t most = 1;
  for (int stage = 0; stage < schedule.stages(); ++stage)
    most = std::max(most, schedule.replicas(stage));
  const int64_t columns = std::max<int64_t>(1, schedule.period / most);
  return std::min<int64_t>(schedule.stages() + 2, kColumns / columns + 1);
}

std::string drawGrid(const Schedule &schedule, std::span<const Edge> edges, int64_t iterations,
                     std::optional<Mark> mark) {
  size_t ranks = schedule.ranks.size();
  bool onePerRank =
      schedule.ranksOfStage == straightPipeline(static_cast<int>(ranks), 1).ranksOfStage;
  Timeline timeline =
      play(schedule, edges, unitCosts(schedule), TransferModel::overlapped, iterations);
  std::vector<Line> lines(ranks);
  std::optional<size_t> marked;
  auto draw = [&](int rank, const Task &task, size_t column, const char *prefix) {
    bool isMarked = mark && mark->rank == rank && mark->task == task && !marked;
    marked = isMarked ? std::optional(column) : marked;
    put(lines[rank], column, (isMarked ? "!" : prefix) + cellOf(task, !onePerRank));
  };
  for (const Event &event : timeline.events)
    if (event.kind == StepKind::run && event.task.phase != Phase::update)
      draw(event.rank, event.task, static_cast<size_t>(std::lround(event.start)), "");
  for (size_t rank = 0; timeline.stall && rank < ranks; ++rank)
    if (std::optional<Task> task = nextRun(*timeline.stall, static_cast<int>(rank)))
      draw(static_cast<int>(rank), *task, lines[rank].size(), "?");
  return print(lines, onePerRank ? "stage" : "rank", marked);
}

std::string drawRow(const Schedule &schedule, int rank, const Step &marked) {
  Line line;
  std::optional<size_t> column;
  const RankRows &rows = schedule.ranks[rank];
  for (const std::vector<Step> *part : {&rows.warmUp, &rows.repeat, &rows.drain})
    for (const Step &step : *part) {
      const bool isMarked = !column && step == marked;
      column = isMarked ? std::optional(line.size()) : column;
      line.push_back((isMarked ? "!" : "") + toString(step));
    }
  const std::vector<Line> lines = {std::move(line)};
  auto [first, last] = window(lines, column);
  std::string text = "rank " + std::to_string(rank) + " " + (first ? "..." : "");
  for (size_t i = first; i < last; ++i)
    text += " " + lines[0][i];
  return text + "\n";
}

} // namespace pdc
