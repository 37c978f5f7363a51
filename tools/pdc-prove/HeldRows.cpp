#include "tools/pdc-prove/HeldRows.h"

#include "compiler/Error.h"
#include "compiler/schedule/Text.h"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace pdc {

void HeldRows::refuse(const std::string &expected) const {
  throw Error(file + ":" + std::to_string(line) + ": expected " + expected +
              ", as stage programs print with --check or --record");
}

void HeldRows::read(std::istream &text, const std::string &name) {
  file = name;
  line = 0;
  rank = nullptr;
  part = nullptr;
  for (std::string one; std::getline(text, one);) {
    ++line;
    readLine(one);
  }
}

void HeldRows::readLine(const std::string &text) {
  std::istringstream words(text);
  std::string first;
  words >> first;
  if (first == "rank")
    return readRank(words);
  if (!rank)
    return; // pdc-run says first what it builds
  if (first == "stage")
    return readStage(words);
  if (first == "move")
    return readMove(words);
  if (first == "step" || first == "warm-up")
    part = &rank->warmUp;
  else if (first == "repeat" || first == "drain")
    part = first == "repeat" ? &rank->repeat : &rank->drain;
  else if (first == "evaluate")
    part = nullptr;
  else if (part) {
    std::istringstream step(text);
    readStep(step, *part);
  }
}

/// "rank 0 of 2, ..." begins the rows of a program, "rank 0 step 3 ..." is an operation.
void HeldRows::readRank(std::istream &words) {
  int64_t number = this->number(words);
  std::string next;
  words >> next;
  if (next == "of") {
    rank = &rowsOf(held, number);
    part = nullptr;
  } else if (next == "step") {
    readOperation(words, number, partOf(this->number(words)));
  } else {
    refuse("'rank N of M' or 'rank N step S'");
  }
}

/// "stage 0: slots 0 1 of 2, versions 2"; without a ring no weight is read that changes.
void HeldRows::readStage(std::istream &words) {
  int64_t stage = number(words);
  if (stage >= planned.stages())
    refuse("a stage of the plan");
  std::string word;
  words >> word >> word;
  StageRings rings;
  while (words >> word && word != "of")
    rings.slotTable.push_back(static_cast<int>(numberIn(word)));
  rings.slots = static_cast<int>(number(words));
  rings.versions = planned.versions[stage];
  if (words >> word)
    rings.versions = static_cast<int>(number(words, "versions"));
  if (ringsOf.try_emplace(stage, rings).first->second != rings)
    refuse("the slots and versions that another replica of stage " + std::to_string(stage) +
           " holds");
  planned.slotTable[stage] = rings.slotTable;
  planned.slots[stage] = rings.slots;
  planned.versions[stage] = rings.versions;
}

/// "move 0F 'x' to stage 1"
void HeldRows::readMove(std::istream &words) {
  Task from = readTask(words);
  Edge edge;
  edge.tensor = tensor(words);
  edge.fromStage = from.stage;
  edge.producer = from.phase;
  edge.consumer = from.phase == Phase::forward ? Phase::forward : Phase::backward;
  std::string word;
  words >> word;
  edge.toStage = static_cast<int>(number(words, "stage"));
  if (from.phase != Phase::evaluate)
    moved.push_back(edge);
}

/// A row that was issued, or a call.
void HeldRows::readOperation(std::istream &words, int64_t number, int64_t step) {
  std::vector<Step> &rows = rowsOf(steps[step], number).warmUp;
  const auto begin = words.tellg();
  std::string kind;
  words >> kind;
  if (kind == "call")
    return readCall(words, number, step);
  words.seekg(begin);
  const size_t before = rows.size();
  readStep(words, rows);
  if (kind != "group" && rows.size() > before)
    calls.addRow(step, number, rows.back());
}

/// "call 7 on 0-1 send 2F0 'x' to 1 tag 5", "call 7 on 0>1 ...", "call 8 on 0-1 receive sum from 1
/// tag 1048576"
void HeldRows::readCall(std::istream &words, int64_t rank, int64_t step) {
  const int64_t call = number(words);
  std::string word, communicator, kind, name;
  words >> word >> communicator >> kind;
  if (word != "on" || (kind != "send" && kind != "receive"))
    refuse("'call N on A-B send' or '... receive'");
  Step message{.kind = kind == "send" ? StepKind::send : StepKind::receive};
  const auto begin = words.tellg();
  words >> word;
  if (word == "sum") {
    message.task.phase = Phase::update;
  } else {
    words.seekg(begin);
    message.task = readTask(words);
    name = tensor(words);
  }
  message.peer = static_cast<int>(number(words, message.kind == StepKind::send ? "to" : "from"));
  message.edge = static_cast<int>(number(words, "tag"));
  if (message.task.phase == Phase::evaluate)
    return;
  // Shares of sums run beside: the row where a rank waits for their end stands for them.
  if (communicator.starts_with("sums:"))
    return calls.addBeside(rank, communicator, message);
  if (!name.empty())
    edgeOf(message.edge, name, message.kind == StepKind::send, message.task);
  calls.addMessage(step, rank, call, communicator, message);
}

/// "run 2F0", "all_reduce", "reduce_gradients 0U3", "group 4 send 2F0 'x' to 3 tag 5"
void HeldRows::readStep(std::istream &words, std::vector<Step> &rows) {
  std::string kind;
  words >> kind;
  if (kind == "group") {
    number(words);
    words >> kind;
  }
  if (kind == "all_reduce")
    return rows.push_back({.kind = StepKind::allReduce});
  Task task = readTask(words);
  if (task.phase == Phase::evaluate || task.phase == Phase::prepare)
    return;
  if (kind == "run")
    rows.push_back({StepKind::run, task});
  else if (kind == "reduce_gradients")
    rows.push_back({StepKind::reduceGradients, {task.stage, Phase::update, task.microbatch}});
  else if (kind == "send" || kind == "receive")
    readTransfer(kind == "send" ? StepKind::send : StepKind::receive, words, task, rows);
  else
    refuse("a row");
}

void HeldRows::readTransfer(StepKind kind, std::istream &words, const Task &task,
                            std::vector<Step> &rows) {
  std::string name = tensor(words), word;
  words >> word;
  int64_t peer = number(words), tag = number(words, "tag");
  edgeOf(tag, name, kind == StepKind::send, task);
  rows.push_back({kind, task, static_cast<int>(tag), static_cast<int>(peer)});
}

Task HeldRows::readTask(std::istream &words) const {
  Task task;
  std::string word;
  words >> word;
  size_t letters = word.find_first_not_of("0123456789");
  constexpr Phase phases[] = {Phase::forward,        Phase::backward, Phase::backwardInput,
                              Phase::backwardWeight, Phase::update,   Phase::prepare,
                              Phase::evaluate};
  auto phase = std::ranges::find_if(phases, [&](Phase one) {
    return letters != std::string::npos && letter(one) == word[letters];
  });
  if (letters == 0 || phase == std::end(phases))
    refuse("a task such as 2F0, found '" + word + "'");
  task.stage = static_cast<int>(numberIn(word.substr(0, letters)));
  task.phase = *phase;
  if (letters + 1 < word.size())
    task.microbatch = numberIn(word.substr(letters + 1));
  if (task.stage >= planned.stages())
    refuse("a stage of the plan, found '" + word + "'");
  return task;
}

int64_t HeldRows::numberIn(const std::string &word) const {
  int64_t value = -1;
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < 0 || value > INT32_MAX)
    refuse("a number, found '" + word + "'");
  return value;
}

int64_t HeldRows::number(std::istream &words, const std::string &before) const {
  std::string word;
  int64_t value = -1;
  if (!before.empty() && !(words >> word && word == before))
    refuse("'" + before + "'");
  if (!(words >> value) || value < 0 || value > INT32_MAX)
    refuse(before.empty() ? "a number" : "a number behind '" + before + "'");
  return value;
}

/// Between quotes; names may hold spaces.
std::string HeldRows::tensor(std::istream &words) const {
  // Names may have quotes themselves, what follows has none.
  const auto begin = words.tellg();
  std::string rest;
  std::getline(words, rest);
  const size_t first = rest.find('\''), last = rest.rfind('\'');
  if (first == last)
    refuse("a tensor in quotes");
  words.clear();
  words.seekg(begin + static_cast<std::streamoff>(last + 1));
  return rest.substr(first + 1, last - first - 1);
}

Edge &HeldRows::edgeOf(int64_t tag, const std::string &tensor, bool sends, const Task &task) {
  auto [entry, isNew] = tagged.try_emplace(tag);
  Edge &edge = entry->second;
  if (isNew)
    edge.fromStage = edge.toStage = -1;
  edge.tensor = sends || isNew ? tensor : edge.tensor;
  int &stage = sends ? edge.fromStage : edge.toStage;
  Phase &phase = sends ? edge.producer : edge.consumer;
  if (stage >= 0 && (stage != task.stage || phase != task.phase))
    refuse("tag " + std::to_string(tag) + " at " + std::to_string(stage) + letter(phase));
  stage = task.stage;
  phase = task.phase;
  return edge;
}

RankRows &HeldRows::rowsOf(Ranks &ranks, int64_t number) const {
  ranks.resize(planned.ranks.size());
  if (number >= static_cast<int64_t>(ranks.size()))
    refuse("one of the plan's " + std::to_string(ranks.size()) + " ranks");
  return ranks[number];
}

std::vector<Edge> HeldRows::edges() const {
  std::vector<Edge> all;
  for (const auto &[tag, edge] : tagged)
    all.push_back(edge);
  all.insert(all.end(), moved.begin(), moved.end());
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].id = static_cast<int>(i);
    if (all[i].fromStage < 0 || all[i].toStage < 0)
      throw Error("'" + all[i].tensor + "' is " +
                  (all[i].fromStage < 0 ? "received but never sent" : "sent but never received"));
  }
  return all;
}

/// Rows name edges by their tags until all are known.
Schedule HeldRows::scheduleOf(const Ranks &ranks) const {
  Schedule schedule = planned;
  schedule.ranks = ranks;
  for (RankRows &rows : schedule.ranks)
    for (std::vector<Step> *part : {&rows.warmUp, &rows.repeat, &rows.drain})
      for (Step &step : *part)
        if (step.edge >= 0)
          step.edge = static_cast<int>(std::distance(tagged.begin(), tagged.find(step.edge)));
  return schedule;
}

/// A minibatch that ends the data may have fewer microbatches than the plan's.
Schedule HeldRows::recordedOf(const Ranks &ranks) const {
  Schedule schedule = scheduleOf(ranks);
  int64_t count = 0;
  for (const RankRows &rows : ranks)
    for (const Step &step : rows.warmUp)
      if (step.kind == StepKind::run && step.task.phase != Phase::update)
        count = std::max(count, step.task.microbatch + 1);
  if (schedule.asynchronous || count >= schedule.microbatches)
    return schedule;
  schedule.microbatches = count;
  // Its update stands behind the last of them, whatever it is called.
  for (RankRows &rows : schedule.ranks)
    for (Step &step : rows.warmUp)
      if (step.task.phase == Phase::update)
        step.task.microbatch = count - 1;
  return schedule;
}

/// Messages of sums are no transfers of the schedule.
Held HeldRows::heldCalls(const Calls::Actions &actions) const {
  Ranks ranks(planned.ranks.size());
  UnrolledRows issued;
  issued.ranksOfStage = planned.ranksOfStage;
  issued.ranks = actions;
  issued.ranks.resize(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (const Action &action : issued.ranks[rank])
      for (const Step &step : action.steps)
        if (!action.transfers() || step.task.phase != Phase::update)
          ranks[rank].warmUp.push_back(step);
  return {recordedOf(ranks), issued};
}

std::map<std::string, Held> HeldRows::schedules() const {
  std::map<std::string, Held> all;
  if (!held.empty())
    all["rows"] = {scheduleOf(held), {}};
  auto name = [&](int64_t step) {
    return planned.asynchronous ? std::string("run") : "step " + std::to_string(step);
  };
  for (const auto &[step, ranks] : steps)
    all[name(step)] = {recordedOf(ranks), {}};
  if (!calls.empty())
    for (const auto &[step, actions] : calls.steps())
      all["calls of " + name(step)] = heldCalls(actions);
  return all;
}

} // namespace pdc
