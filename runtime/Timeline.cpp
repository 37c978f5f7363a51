#include "runtime/Timeline.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace pdc::runtime {

char letter(Phase phase) { return "FBIWUPE"[int(phase)]; }

static std::string taskText(int stage, Phase phase, int64_t microbatch) {
  return std::to_string(stage) + letter(phase) + std::to_string(microbatch);
}

static std::string traceName(int rank, int stream, const char *kind, const std::string &name) {
  return nlohmann::ordered_json{
      {"name", kind}, {"ph", "M"}, {"pid", rank}, {"tid", stream}, {"args", {{"name", name}}}}
      .dump();
}

std::span<const Timeline::Event> Timeline::eventsOf(size_t part) const {
  return std::span(events).subspan(part * kPart, std::min(kPart, events.size() - part * kPart));
}

std::string Timeline::chromeEvents(const Program &program, Seconds zero, size_t part) const {
  std::string text;
  if (part == 0)
    text = traceName(program.rank, 0, "process_name",
                     "rank " + std::to_string(program.rank) + " (measured)") +
           ",\n" + traceName(program.rank, 0, "thread_name", "compute") + ",\n" +
           traceName(program.rank, 1, "thread_name", "transfers");
  for (const Event &event : eventsOf(part)) {
    if (event.kind >= Kind::sendPosted && event.kind <= Kind::receiveCalled)
      continue;
    static constexpr const char *kCategories[] = {"forward",         "backward", "backward_input",
                                                  "backward_weight", "update",   "prepare",
                                                  "evaluate"};
    bool transfer = event.transfer >= 0;
    const char *sum = event.kind == Kind::allReduce         ? "all_reduce"
                      : event.kind == Kind::reduceGradients ? "reduce_gradients"
                                                            : nullptr;
    std::string number = std::to_string(event.microbatch);
    nlohmann::ordered_json json = {
        {"name", transfer ? program.transfers[event.transfer].tensor
                 : sum    ? std::string(sum)
                          : letter(event.phase) + number},
        {"cat", transfer ? event.kind == Kind::send ? "send" : "receive"
                : sum    ? sum
                         : kCategories[int(event.phase)]},
        {"ph", "X"},
        {"ts", std::round((event.begin - zero) * 1e9) / 1e3},
        {"dur", std::round((event.end - event.begin) * 1e9) / 1e3},
        {"pid", program.rank},
        {"tid", transfer ? 1 : 0},
        {"args", {{"stage", event.stage}, {"microbatch", event.microbatch}, {"step", event.step}}}};
    if (transfer)
      json["args"]["peer"] = peerOf(program.transfers[event.transfer], event.microbatch);
    text += (text.empty() ? "" : ",\n") +
            json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  return text;
}

static void appendTransfer(std::string &text, const Program &program, bool send, int stage,
                           int64_t microbatch, int transfer) {
  const Transfer &edge = program.transfers[transfer];
  text += std::string(send ? "send " : "receive ") + taskText(stage, edge.phase, microbatch) +
          " '" + edge.tensor + "' " + (send ? "to " : "from ") +
          std::to_string(peerOf(edge, microbatch)) + " tag " + std::to_string(edge.tag);
}

/// "call 7 on 0-1 send 2F0 'x' to 1 tag 5", where an edge has a communicator of its own "call 7 on
/// 0>1 ...", "call 8 on sums:0-1 receive sum from 1 tag 1048576"
static void appendCall(std::string &text, const Program &program, const Timeline::Event &event) {
  const bool send = event.kind == Timeline::Kind::sendCalled;
  text += "call " + std::to_string(event.group) + " on " + (event.beside ? "sums:" : "") +
          std::to_string(event.first) + (event.directed ? ">" : "-") +
          std::to_string(event.second) + " ";
  if (event.transfer >= 0)
    return appendTransfer(text, program, send, event.stage, event.microbatch, event.transfer);
  text += std::string(send ? "send sum to " : "receive sum from ") + std::to_string(event.stage) +
          " tag " + std::to_string(event.microbatch);
}

std::string Timeline::issuedLines(const Program &program, size_t part) const {
  std::string text;
  for (const Event &event : eventsOf(part)) {
    std::string start =
        "rank " + std::to_string(program.rank) + " step " + std::to_string(event.step) + " ";
    if (event.kind == Kind::run)
      text += start + "run " + taskText(event.stage, event.phase, event.microbatch) + "\n";
    if (event.kind == Kind::allReduce)
      text += start + "all_reduce\n";
    if (event.kind == Kind::reduceGradients)
      text +=
          start + "reduce_gradients " + taskText(event.stage, event.phase, event.microbatch) + "\n";
    if (event.kind == Kind::sendCalled || event.kind == Kind::receiveCalled) {
      appendCall(text += start, program, event);
      text += "\n";
    }
    if (event.kind != Kind::sendPosted && event.kind != Kind::receivePosted)
      continue;
    text += start + "group " + std::to_string(event.group) + " ";
    appendTransfer(text, program, event.kind == Kind::sendPosted, event.stage, event.microbatch,
                   event.transfer);
    text += "\n";
  }
  return text;
}

static void appendRows(std::string &text, const Program &program, const char *title,
                       std::span<const Step> rows) {
  if (rows.empty())
    return;
  text += std::string("  ") + title + "\n";
  for (const Step &row : rows) {
    text += "    ";
    if (row.kind == StepKind::run)
      text += "run " + taskText(row.stage, row.phase, row.microbatch);
    else if (row.kind == StepKind::allReduce)
      text += "all_reduce";
    else if (row.kind == StepKind::reduceGradients)
      text += "reduce_gradients " + taskText(row.stage, row.phase, row.microbatch);
    else
      appendTransfer(text, program, row.kind == StepKind::send, row.stage, row.microbatch,
                     row.transfer);
    text += "\n";
  }
}

/// Where microbatches and weight versions lie; a stage without a ring reads no weight that changes.
static void appendStage(std::string &text, const Program &program, const StageInfo &stage) {
  text += "  stage " + std::to_string(stage.id) + ": slots";
  for (int slot : stage.slotTable)
    text += " " + std::to_string(slot);
  text += " of " + std::to_string(program.regions[stage.slotRegion].copies);
  if (stage.versionRegion >= 0)
    text += ", versions " + std::to_string(program.regions[stage.versionRegion].copies);
  text += "\n";
}

std::string rowsText(const Program &program) {
  std::string text = "rank " + std::to_string(program.rank) + " of " +
                     std::to_string(program.ranks) + ", " + program.model + ", " +
                     program.schedule + ", " + std::to_string(program.microbatches) +
                     " microbatches of " + std::to_string(program.microbatchSize) + ", arena " +
                     std::to_string(program.arenaBytes) + " bytes\n";
  for (const StageInfo &stage : program.stages)
    appendStage(text, program, stage);
  for (const Move &move : program.moves)
    text += "  move " + std::to_string(move.fromStage) + letter(move.phase) + " '" + move.tensor +
            "' to stage " + std::to_string(move.toStage) + "\n";
  appendRows(text, program, "step", program.training.step);
  appendRows(text, program, "warm-up", program.training.warmUp);
  appendRows(text, program, "repeat", program.training.repeat);
  appendRows(text, program, "drain", program.training.drain);
  appendRows(text, program, "evaluate", program.evaluation.repeat);
  return text;
}

} // namespace pdc::runtime
