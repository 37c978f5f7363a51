#include "compiler/schedule/Text.h"

#include "compiler/Error.h"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace pdc {

namespace {

constexpr struct {
  Phase phase;
  std::string_view name, category;
} phaseWords[] = {{Phase::forward, "forward", "forward"},
                  {Phase::backward, "backward", "backward"},
                  {Phase::backwardInput, "input gradients", "backward_input"},
                  {Phase::backwardWeight, "weight gradients", "backward_weight"},
                  {Phase::update, "update", "update"},
                  {Phase::prepare, "prepare", "prepare"},
                  {Phase::evaluate, "evaluate", "evaluate"}};

} // namespace

std::string_view phaseName(Phase phase) { return phaseWords[static_cast<int>(phase)].name; }

std::string_view phaseCategory(Phase phase) { return phaseWords[static_cast<int>(phase)].category; }

std::optional<Phase> phaseOfCategory(std::string_view category) {
  for (const auto &words : phaseWords)
    if (words.category == category)
      return words.phase;
  return std::nullopt;
}

std::string toString(const Step &step) {
  if (step.kind == StepKind::allReduce)
    return "allreduce";
  if (step.kind == StepKind::reduceGradients)
    return "allreduce:" + toString(step.task);
  std::string text = toString(step.task);
  if (step.kind == StepKind::run)
    return text;
  return text + (step.kind == StepKind::send ? ">" : "<") + std::to_string(step.peer) + "#" +
         std::to_string(step.edge);
}

/// Stashing goes without saying.
static constexpr std::pair<WeightRule, std::string_view> ruleWords[] = {
    {WeightRule::atEntry, "at-entry"}, {WeightRule::previous, "previous"}};

static void printPart(std::ostream &out, size_t rank, const char *part,
                      const std::vector<Step> &rows) {
  if (rows.empty())
    return;
  out << "rank " << rank << part << ":";
  for (const Step &step : rows)
    out << " " << toString(step);
  out << "\n";
}

std::string printSchedule(const Schedule &schedule) {
  std::ostringstream out;
  out << "schedule " << schedule.name << "\n";
  if (schedule.asynchronous)
    out << "asynchronous\nperiod " << schedule.period << "\n";
  for (auto [rule, word] : ruleWords)
    if (schedule.weightRule == rule)
      out << "weights " << word << "\n";
  out << "microbatches " << schedule.microbatches << "\nstages";
  for (const std::vector<int> &ranks : schedule.ranksOfStage)
    for (size_t i = 0; i < ranks.size(); ++i)
      out << (i ? "," : " ") << ranks[i];
  out << "\n";
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    printPart(out, rank, "", schedule.ranks[rank].warmUp);
    printPart(out, rank, " repeat", schedule.ranks[rank].repeat);
    printPart(out, rank, " drain", schedule.ranks[rank].drain);
  }
  return out.str();
}

namespace {

constexpr int kMostRanks = 65536;

class Parser {
public:
  explicit Parser(std::string_view file) : file(file) {}
  Schedule parse(std::string_view text);

private:
  [[noreturn]] void refuse(const std::string &text) const {
    throw Error(file + ":" + std::to_string(line) + ": " + text);
  }
  void parseLine(const std::string &text);
  void parseRank(std::istringstream &words);
  std::vector<int> parseRanks(const std::string &word);
  int64_t number(const std::string &word, int64_t least, int64_t most) const;
  WeightRule parseRule(const std::string &word) const;
  Step step(std::string_view word) const;
  Task task(std::string_view &word) const;
  int64_t leading(std::string_view &word, const std::string &what) const;

  std::string file;
  int line = 0;
  Schedule schedule;
};

int64_t Parser::number(const std::string &word, int64_t least, int64_t most) const {
  int64_t value = 0;
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < least || value > most)
    refuse("expected a number from " + std::to_string(least) + " to " + std::to_string(most) +
           ", found '" + word + "'");
  return value;
}

int64_t Parser::leading(std::string_view &word, const std::string &what) const {
  int32_t value = 0;
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || value < 0)
    refuse("expected " + what + ", found '" + std::string(word) + "'");
  word.remove_prefix(end - word.data());
  return value;
}

Task Parser::task(std::string_view &word) const {
  Task task;
  task.stage = static_cast<int>(leading(word, "a stage number"));
  auto words = std::ranges::find_if(
      phaseWords, [&](const auto &one) { return word.starts_with(letter(one.phase)); });
  if (words == std::end(phaseWords))
    refuse("expected a phase letter of F, B, I, W, U, P, E, found '" + std::string(word) + "'");
  task.phase = words->phase;
  word.remove_prefix(1);
  task.microbatch = leading(word, "a microbatch number");
  return task;
}

Step Parser::step(std::string_view word) const {
  if (word == "allreduce")
    return {.kind = StepKind::allReduce};
  std::string_view rest = word, sum = "allreduce:";
  if (word.starts_with(sum)) {
    rest.remove_prefix(sum.size());
    Step step{StepKind::reduceGradients, task(rest)};
    if (!rest.empty() || step.task.phase != Phase::update)
      refuse("expected an update behind 'allreduce:', as in allreduce:2U3, found '" +
             std::string(word) + "'");
    return step;
  }
  Step step{StepKind::run, task(rest)};
  if (rest.empty())
    return step;
  if (rest[0] != '>' && rest[0] != '<')
    refuse("expected a step such as 2F0, 2F0>3#5 or 3F0<2#5, found '" + std::string(word) + "'");
  step.kind = rest[0] == '>' ? StepKind::send : StepKind::receive;
  rest.remove_prefix(1);
  step.peer = static_cast<int>(leading(rest, "the rank of the other side"));
  if (rest.empty() || rest[0] != '#')
    refuse("expected '#' and an edge number in '" + std::string(word) + "'");
  rest.remove_prefix(1);
  step.edge = static_cast<int>(leading(rest, "an edge number"));
  if (!rest.empty())
    refuse("expected nothing behind the edge number in '" + std::string(word) + "'");
  return step;
}

void Parser::parseRank(std::istringstream &words) {
  std::string word, part;
  words >> word;
  bool named = !word.empty() && word.back() != ':';
  size_t rank =
      number(named ? word : word.substr(0, word.empty() ? 0 : word.size() - 1), 0, kMostRanks);
  if (named)
    words >> part;
  if (named && part != "repeat:" && part != "drain:")
    refuse("expected 'rank N:', 'rank N repeat:' or 'rank N drain:'");
  if (rank >= schedule.ranks.size())
    refuse("rank " + std::to_string(rank) + " has no stage; 'stages' comes before the rows");
  RankRows &rows = schedule.ranks[rank];
  std::vector<Step> &steps = !named ? rows.warmUp : part == "repeat:" ? rows.repeat : rows.drain;
  while (words >> word) {
    if (word[0] == '#')
      return;
    steps.push_back(step(word));
  }
}

/// "2" or, of a stage with replicas, "0,1,2".
std::vector<int> Parser::parseRanks(const std::string &word) {
  std::vector<int> ranks;
  std::istringstream parts(word);
  for (std::string part; std::getline(parts, part, ',');) {
    ranks.push_back(static_cast<int>(number(part, 0, kMostRanks)));
    schedule.ranks.resize(std::max<size_t>(schedule.ranks.size(), ranks.back() + 1));
  }
  return ranks;
}

WeightRule Parser::parseRule(const std::string &word) const {
  auto known = std::ranges::find(ruleWords, word, &std::pair<WeightRule, std::string_view>::second);
  if (known == std::end(ruleWords))
    refuse("expected 'weights at-entry' or 'weights previous', found 'weights " + word + "'");
  return known->first;
}

void Parser::parseLine(const std::string &text) {
  std::istringstream words(text);
  std::string word;
  if (!(words >> word) || word[0] == '#')
    return;
  if (word == "rank")
    return parseRank(words);
  if (word == "schedule")
    words >> schedule.name;
  else if (word == "asynchronous")
    schedule.asynchronous = true;
  else if (word == "weights" && words >> word)
    schedule.weightRule = parseRule(word);
  else if (word == "microbatches" && words >> word)
    schedule.microbatches = number(word, 1, INT32_MAX);
  else if (word == "period" && words >> word)
    schedule.period = number(word, 1, INT32_MAX);
  else if (word == "stages") {
    while (words >> word)
      schedule.ranksOfStage.push_back(parseRanks(word));
  } else
    refuse(
        "expected schedule, asynchronous, weights, microbatches, period, stages or rank, found '" +
        word + "'");
}

Schedule Parser::parse(std::string_view text) {
  std::istringstream lines{std::string(text)};
  for (std::string one; std::getline(lines, one);) {
    ++line;
    parseLine(one);
  }
  if (schedule.ranksOfStage.empty())
    refuse("expected a line 'stages' with the rank of each stage");
  if (schedule.name.empty())
    schedule.name = "rows";
  return std::move(schedule);
}

} // namespace

Schedule parseSchedule(std::string_view text, std::string_view file) {
  return Parser(file).parse(text);
}

} // namespace pdc
