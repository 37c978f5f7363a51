#include "codegen/PrintTables.h"

#include "codegen/CppText.h"
#include "compiler/Error.h"
#include "compiler/schedule/Schedule.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>

using namespace mlir;
using llvm::formatv;

namespace pdc {

ir::ScheduleOp scheduleOf(ir::ProgramOp program, bool evaluation, std::optional<int64_t> rank) {
  for (auto schedule : program.getBody().getOps<ir::ScheduleOp>())
    if (schedule.getEvaluation() == evaluation &&
        (!rank || *rank == static_cast<int64_t>(schedule.getRank().value_or(*rank))))
      return schedule;
  throw Error(formatv("program {0} has no rows for {1}; run build-schedule first",
                      commentText(program.getSymName()), evaluation ? "evaluation" : "training"));
}

std::vector<RowsPart> rowsParts(ir::ScheduleOp schedule) {
  const std::string name = schedule.getEvaluation() ? "kEvaluation" : "kTraining";
  const std::string rank = schedule.getRank() ? "OfRank" + std::to_string(*schedule.getRank()) : "";
  std::vector<RowsPart> parts;
  auto add = [&](StringRef field, StringRef part, Region &rows) {
    if (!rows.empty() && !rows.front().empty())
      parts.push_back({field, name + part.str() + rank, &rows});
  };
  // Rows without a rhythm are a whole step, and no warm-up.
  if (schedule.getAsynchronous())
    add("warmUp", "WarmUp", schedule.getWarmUp());
  else
    add("step", "Step", schedule.getWarmUp());
  add("repeat", "Repeat", schedule.getRepeat());
  add("drain", "Drain", schedule.getDrain());
  return parts;
}

static char phaseLetter(ir::Phase phase) {
  static constexpr char letters[] = {'F', 'B', 'I', 'W', 'U', 'P', 'E'};
  return letters[static_cast<unsigned>(phase)];
}

static StringRef phaseMember(char letter) {
  static const std::map<char, StringRef> members = {
      {'F', "forward"}, {'B', "backward"}, {'I', "backwardInput"}, {'W', "backwardWeight"},
      {'U', "update"},  {'P', "prepare"},  {'E', "evaluate"}};
  return members.at(letter);
}

namespace {

/// Prints rows: a task and the group of transfers behind it on one line.
class RowPrinter {
public:
  RowPrinter(llvm::raw_ostream &os, ir::ProgramOp program, ArrayRef<TransferRow> transfers)
      : os(os), program(program), transfers(transfers) {
    for (const TransferRow &transfer : transfers)
      names[{transfer.tag, transfer.sends}] = transfer.name;
    isSingleStage = llvm::range_size(program.getBody().getOps<ir::StageOp>()) == 1;
  }

  void print() {
    os << "// Rows: F, B, I, W, U, E run a task for a microbatch. The transfers behind a task are "
          "one group.\n";
    printFunctions();
    for (bool evaluation : {false, true})
      for (int64_t rank : program.getRanks())
        for (const RowsPart &part : rowsParts(scheduleOf(program, evaluation, rank)))
          printTable(part.table, *part.rows);
  }

private:
  void printFunctions() {
    std::string letters;
    bool reduces = false, reducesGradients = false;
    program.walk([&](Operation *op) {
      if (auto run = dyn_cast<ir::RunOp>(op))
        letters += phaseLetter(run.getPhase());
      if (auto sum = dyn_cast<ir::AllReduceOp>(op))
        (sum.getStage() ? reducesGradients : reduces) = true;
    });
    for (char letter : StringRef("FBIWUPE"))
      if (letters.find(letter) != std::string::npos)
        printRunFunction(letter);
    printTransferFunction("send", true);
    printTransferFunction("receive", false);
    if (reduces)
      os << "constexpr Step allReduce{StepKind::allReduce, Phase::update, 0, 0, -1};\n";
    if (reducesGradients)
      os << "constexpr Step reduceGradients(int stage, int64_t microbatch) {\n"
         << "  return {StepKind::reduceGradients, Phase::update, stage, microbatch, -1};\n}\n";
    os << '\n';
  }

  void printRunFunction(char letter) {
    auto stages = program.getBody().getOps<ir::StageOp>();
    os << "constexpr Step " << letter << (isSingleStage ? "(" : "(int stage, ")
       << "int64_t microbatch) {\n  return {StepKind::run, Phase::" << phaseMember(letter) << ", "
       << (isSingleStage ? std::to_string((*stages.begin()).getId()) : "stage")
       << ", microbatch, -1};\n}\n";
  }

  void printTransferFunction(StringRef kind, bool sends) {
    if (!llvm::any_of(transfers, [&](const TransferRow &t) { return t.sends == sends; }))
      return;
    os << "constexpr Step " << kind << "(TransferIndex transfer, int64_t microbatch) {\n"
       << "  const Transfer &edge = kTransfers[transfer];\n  return {StepKind::" << kind
       << ", edge.phase, edge.stage, microbatch, transfer};\n}\n";
  }

  void printTable(StringRef name, Region &rows) {
    os << "constexpr Step " << name << "[] = {";
    bool startsLine = true;
    size_t column = 0;
    for (Operation &row : rows.front()) {
      startsLine |= isa<ir::RunOp, ir::AllReduceOp>(row);
      std::string text = rowText(&row) + ",";
      bool breaks = !startsLine && column + 1 + text.size() > kColumns;
      StringRef lead = startsLine ? "\n    " : breaks ? "\n        " : " ";
      column = (startsLine || breaks ? lead.size() - 1 : column + 1) + text.size();
      os << lead << text;
      startsLine = isa<ir::AllReduceOp>(row);
    }
    os << "\n};\n";
  }

  std::string rowText(Operation *row) {
    if (auto run = dyn_cast<ir::RunOp>(row))
      return isSingleStage ? formatv("{0}({1})", phaseLetter(run.getPhase()), microbatch(run)).str()
                           : formatv("{0}({1}, {2})", phaseLetter(run.getPhase()), run.getStage(),
                                     microbatch(run))
                                 .str();
    if (auto send = dyn_cast<ir::SendOp>(row))
      return formatv("send({0}, {1})", transferName(send.getTag(), true), microbatch(send));
    if (auto receive = dyn_cast<ir::RecvOp>(row))
      return formatv("receive({0}, {1})", transferName(receive.getTag(), false),
                     microbatch(receive));
    if (auto sum = dyn_cast<ir::AllReduceOp>(row); sum && sum.getStage())
      return formatv("reduceGradients({0}, {1})", *sum.getStage(), *sum.getMicrobatch());
    if (isa<ir::AllReduceOp>(row))
      return "allReduce";
    throw Error(formatv("'{0}' is no row", row->getName().getStringRef()));
  }

  template <class Row> static int64_t microbatch(Row row) {
    return static_cast<int64_t>(row.getMicrobatch());
  }

  StringRef transferName(uint64_t tag, bool sends) {
    return names.at({static_cast<int64_t>(tag), sends});
  }

  llvm::raw_ostream &os;
  ir::ProgramOp program;
  ArrayRef<TransferRow> transfers;
  std::map<std::pair<int64_t, bool>, StringRef> names; ///< by tag and whether it sends
  bool isSingleStage = true;
};

} // namespace

void printRows(llvm::raw_ostream &os, ir::ProgramOp program, ArrayRef<TransferRow> transfers) {
  RowPrinter(os, program, transfers).print();
  os << '\n';
}

} // namespace pdc
