#pragma once

#include "compiler/schedule/Schedule.h"
#include "tools/pdc-prove/Calls.h"

#include <istream>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pdc {

/// Rows to be proven.
struct Held {
  Schedule schedule;
  /// Of calls: one by one, where neighbours of the schedule's rows need not be one group.
  std::optional<UnrolledRows> calls;
};

/// Rows as programs print them: those that they hold (--check), and the operations that they have
/// issued (--record), by step. Rows of evaluations are left out.
class HeldRows {
public:
  /// Rows of this schedule, whose own are replaced.
  explicit HeldRows(const Schedule &planned) : planned(planned) {}

  /// Throws pdc::Error that names `file` and the line.
  void read(std::istream &text, const std::string &file);

  /// What was read as schedules to be proven, by what they are.
  std::map<std::string, Held> schedules() const;
  const Calls &recordedCalls() const { return calls; }
  /// What is sent in those rows, and what stages of a rank give each other.
  std::vector<Edge> edges() const;

private:
  using Ranks = std::vector<RankRows>;

  /// What a program holds of a stage's microbatches and weights.
  struct StageRings {
    std::vector<int> slotTable;
    int slots = 0, versions = 0;
    bool operator==(const StageRings &) const = default;
  };

  void readLine(const std::string &line);
  void readRank(std::istream &words);
  void readStage(std::istream &words);
  void readMove(std::istream &words);
  void readStep(std::istream &words, std::vector<Step> &rows);
  void readOperation(std::istream &words, int64_t rank, int64_t step);
  void readCall(std::istream &words, int64_t rank, int64_t step);
  void readTransfer(StepKind kind, std::istream &words, const Task &task, std::vector<Step> &rows);
  Task readTask(std::istream &words) const;
  int64_t numberIn(const std::string &word) const;
  int64_t number(std::istream &words, const std::string &before = "") const;
  std::string tensor(std::istream &words) const;
  Edge &edgeOf(int64_t tag, const std::string &tensor, bool sends, const Task &task);
  int64_t partOf(int64_t step) const { return planned.asynchronous ? 0 : step; }
  RankRows &rowsOf(Ranks &ranks, int64_t rank) const;
  Schedule scheduleOf(const Ranks &ranks) const;
  Schedule recordedOf(const Ranks &ranks) const;
  Held heldCalls(const Calls::Actions &ranks) const;
  [[noreturn]] void refuse(const std::string &expected) const;

  Schedule planned;
  std::string file;
  int line = 0;
  Ranks held;
  std::map<int64_t, Ranks> steps; ///< recorded
  Calls calls;                    ///< recorded
  std::map<int64_t, Edge> tagged; ///< an end that is not known yet is stage -1
  std::vector<Edge> moved;
  std::map<int64_t, StageRings> ringsOf; ///< of each stage, as the first of its replicas says
  RankRows *rank = nullptr;          ///< whose rows are being read
  std::vector<Step> *part = nullptr; ///< null: those of evaluation
};

} // namespace pdc
