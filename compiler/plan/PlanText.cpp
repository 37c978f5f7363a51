#include "compiler/cost/ClosedForm.h"
#include "compiler/plan/Cut.h"
#include "compiler/plan/Files.h"
#include "compiler/plan/Verdict.h"
#include "compiler/schedule/Grid.h"
#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Rhythm.h"
#include "runtime/QuantityText.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

namespace pdc {

namespace {

using runtime::bytesText;
using runtime::secondsText;

template <class... Values> std::string format(const char *pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

/// Seconds of one microbatch; its replicas share the microbatches.
double work(const PlanStage &stage) { return stage.forwardSeconds + stage.backwardSeconds; }
double share(const PlanStage &stage) { return work(stage) / stage.replicas; }

double totalWork(const Plan &plan) {
  return std::accumulate(plan.stages.begin(), plan.stages.end(), 0.0,
                         [](double sum, const PlanStage &stage) { return sum + work(stage); });
}

/// Mean work of a rank over that of the heaviest: what balance alone leaves of the devices.
double balance(const Plan &plan) {
  double most = 0;
  std::map<int, double> ranks;
  for (const PlanStage &stage : plan.stages)
    for (int rank : stage.ranks)
      most = std::max(most, ranks[rank] += share(stage));
  return most > 0 ? totalWork(plan) / (most * plan.topology.workers()) : 1;
}

/// "0-6", or "0, 3 x" for three of them, the first rank 0, that do not follow each other.
std::string ranks(const PlanStage &stage) {
  const std::vector<int> &list = stage.ranks;
  if (list.size() == 1)
    return std::to_string(list[0]);
  bool together = list.back() - list.front() + 1 == static_cast<int>(list.size());
  return together ? format("%d-%d", list.front(), list.back())
                  : format("%d, %zu x", list.front(), list.size());
}

} // namespace

double idleShare(const Plan &plan) {
  double busy = 0;
  double count = static_cast<double>(plan.schedule.microbatches);
  for (const PlanStage &stage : plan.stages)
    busy += count *
            (work(stage) + stage.replicas * stage.updateSeconds /
                               static_cast<double>(microbatchesPerUpdate(plan.schedule, stage.id)));
  double devices = plan.topology.workersAtOnce(plan.threads);
  double all = devices * plan.secondsPerMinibatch;
  // Closed forms count some of the work as done beside the rest.
  return all > busy ? 1 - busy / all : 0;
}

namespace {

/// A name, which may have any bytes, for a line.
std::string shown(std::string name) {
  const auto isControl = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; };
  std::ranges::replace_if(name, isControl, '?');
  return name;
}

/// By their names what fits into view; a sequence that is cut in time sends hundreds.
void describeSends(const PlanStage &stage, std::ostream &out) {
  constexpr size_t kMostNamed = 8;
  struct Rest {
    int count = 0;
    int64_t bytes = 0;
  };
  std::map<int, Rest> rest; // by the stage it goes to
  for (size_t i = 0; i < stage.sends.size(); ++i) {
    const PlanSend &send = stage.sends[i];
    if (i < kMostNamed) {
      out << "  sends " << shown(send.tensor) << " to stage " << send.to << ", "
          << bytesText(send.bytes) << " per microbatch\n";
      continue;
    }
    ++rest[send.to].count;
    rest[send.to].bytes += send.bytes;
  }
  for (const auto &[stageTo, others] : rest)
    out << "  sends " << others.count << " more to stage " << stageTo << ", " << bytesText(others.bytes)
        << " per microbatch (plan.json names them)\n";
}

void describeStages(const Plan &plan, std::ostream &out) {
  double total = totalWork(plan);
  out << "stage    ranks  nodes   forward  backward  share  parameters    memory  in flight  "
         "versions\n";
  for (const PlanStage &stage : plan.stages)
    out << format("%5d %8s  %5zu  %8s  %8s   %3.0f%%  %10s  %8s  %9d  %8d\n", stage.id,
                  ranks(stage).c_str(), stage.nodes.size(), secondsText(stage.forwardSeconds).c_str(),
                  secondsText(stage.backwardSeconds).c_str(), total > 0 ? 100 * work(stage) / total : 0,
                  bytesText(stage.parameterBytes).c_str(), bytesText(stage.memoryBytes).c_str(),
                  stage.inFlight, stage.weightVersions);
  out << "\n";
  std::vector<bool> split = findSplitStages(plan.schedule);
  for (const PlanStage &stage : plan.stages) {
    out << "stage " << stage.id << ": ";
    if (!stage.nodes.empty())
      out << shown(stage.nodes.front())
          << (stage.nodes.size() > 1 ? " ... " + shown(stage.nodes.back()) : std::string());
    out << "\n";
    if (split[stage.id])
      out << "  of the backward pass " << secondsText(stage.backwardWeightSeconds)
          << " are weight gradients that no other stage waits for\n";
    if (stage.recompute)
      out << "  keeps its inputs alone and runs the forward pass again: "
          << secondsText(stage.forwardSeconds) << " of the backward pass\n";
    describeSends(stage, out);
  }
}

void printLine(std::ostream &out, const std::string &name, const std::string &value,
               const std::string &note) {
  out << format("%-28s %9s  ", name.c_str(), value.c_str()) << note << "\n";
}

/// Each bound leaves less to the reasons behind it.
void describeBounds(const Plan &plan, std::ostream &out) {
  struct Row {
    const char *name;
    double seconds;
    const char *reason;
  };
  const PlanBounds &bounds = plan.bounds;
  for (const Row &row : {Row{"work, spread evenly", bounds.work, "over all devices"},
                         Row{"heaviest rank's work", bounds.balance, "without a pause"},
                         Row{"these rows on free links", bounds.bubble, "transfers take no time"},
                         Row{"busiest link's transfers", bounds.links, "without a pause"}}) {
    if (row.seconds <= 0)
      continue;
    // Closed forms leave out what happens beside the work.
    double above = std::max(0.0, plan.secondsPerMinibatch / row.seconds - 1);
    // What is far below holds nothing back.
    printLine(out, std::string("  ") + row.name, secondsText(row.seconds),
              row.reason + (above < 10 ? format("; the plan takes %.1f%% more", 100 * above)
                                       : std::string()));
  }
}

/// How the printed plan calls the baselines of plan.json, and what there is to say of each.
struct BaselineWords {
  const char *name, *printed, *note;
};
constexpr BaselineWords kBaselines[] = {
    {"single_device", "one device", ""},
    {"data_parallel", "data parallelism", ""},
    {"model_parallel", "no pipelining", ", one at a time through the same stages"},
    {"gpipe", "gpipe", ", on the same stages"}};

void describeBaseline(const Plan &plan, const Baseline &baseline, std::ostream &out) {
  std::string note, name = baseline.name;
  if (plan.secondsPerMinibatch > 0)
    note = format("the plan is %.2f times as fast",
                  baseline.secondsPerMinibatch / plan.secondsPerMinibatch);
  for (const BaselineWords &words : kBaselines)
    if (baseline.name == words.name) {
      name = words.printed;
      note += words.note;
    }
  note += "; " + bytesText(baseline.memoryBytes) + " a device";
  note += baseline.recompute ? ", with recomputation" : "";
  note += baseline.fits ? "" : ", which does not fit";
  printLine(out, name, secondsText(baseline.secondsPerMinibatch), note);
}

std::string describeBound(const Plan &plan) {
  std::string stages = std::to_string(plan.stages.size());
  if (isClosedForm(plan.costModel))
    return std::to_string(plan.topology.workers()) + " workers without idling or transfers";
  return "no cut into " + stages + " stages " +
         (plan.schedule.asynchronous ? "is faster" : "that empty at each update is faster");
}

/// "; 2 of 4 have no stage": of stages by hand, or fewer than devices.
std::string unusedDevices(const Plan &plan) {
  std::set<int> used;
  for (const PlanStage &stage : plan.stages)
    used.insert(stage.ranks.begin(), stage.ranks.end());
  const int all = plan.topology.workers(), unused = all - static_cast<int>(used.size());
  return unused > 0 ? "; " + std::to_string(unused) + " of " + std::to_string(all) +
                          (unused > 1 ? " have no stage" : " has no stage")
                    : "";
}

/// "1f1b 30 ms, zb-h1 26 ms, zb-h2 does not fit"
std::string describeCandidates(const Plan &plan) {
  std::string text;
  for (const PlanCandidate &candidate : plan.candidates)
    text += (text.empty() ? "" : ", ") + candidate.name + " " +
            (candidate.refusal.empty() ? secondsText(candidate.secondsPerMinibatch) : "refused");
  return text;
}

void describeTimes(const Plan &plan, std::ostream &out) {
  bool steady = plan.schedule.asynchronous;
  printLine(out,
            plan.schedule.sumsMicrobatches() ? "seconds per minibatch" : "seconds per microbatch",
            secondsText(plan.secondsPerMinibatch),
            steady ? "in steady state, predicted" : "bubble included, predicted");
  printLine(out, "bound", secondsText(plan.boundSecondsPerMinibatch), describeBound(plan));
  describeBounds(plan, out);
  if (plan.candidates.size() > 1)
    printLine(out, "tried", std::to_string(plan.candidates.size()) + " ways",
              describeCandidates(plan));
  if (!plan.untried.empty())
    printLine(out, "left out", "", plan.untried);
  for (const Baseline &baseline : plan.baselines)
    describeBaseline(plan, baseline, out);
  if (plan.topology.sharesCores(plan.threads))
    printLine(out, "cores", std::to_string(plan.topology.cores),
              "of one machine, which " + std::to_string(plan.topology.workers()) +
                  (plan.threads > 1 ? " ranks of " + std::to_string(plan.threads) + " threads"
                                    : " ranks") +
                  " share; ranks on machines of their own: --topology FILE without cores");
  out << format("%-28s %8.0f%%  work of the mean rank against the heaviest\n", "balance",
                100 * balance(plan));
  out << format("%-28s %8.0f%%  of the devices' time: bubble, imbalance and transfers", "idle",
                100 * idleShare(plan))
      << unusedDevices(plan) << "\n";
}

/// "communicators": of NCCL, and why they are arranged as they are.
void describeCommunicators(const Plan &plan, std::ostream &out) {
  const PlanCommunicators &communicators = plan.communicators;
  if (!communicators.count)
    return;
  const std::string slower = communicators.stallOfPairs
                                 ? format("%.1f%% slower", 100 * *communicators.stallOfPairs)
                                 : "without proof";
  const std::string why =
      communicators.arrangement == Arrangement::pairs
          ? "one per pair of ranks, messages in the order of the rows: " + slower +
                " than one per directed edge"
          : "one per directed edge, each in its own queue; one per pair: " + slower;
  printLine(out, "communicators", std::to_string(communicators.count),
            why + "; about " + std::to_string(communicators.bytes >> 20) +
                " MiB of the rank that receives from most");
}

/// "staleness": by how many updates the weights that make a gradient are older than the newest.
void describeStaleness(const Plan &plan, std::ostream &out) {
  if (!plan.schedule.asynchronous)
    return;
  int first = plan.stages.front().weightVersions - 1, last = plan.stages.back().weightVersions - 1;
  out << format("%-28s %9d  ", "staleness", first) << (first == 1 ? "update" : "updates")
      << " that the weights of a gradient lag behind, "
      << (first == last ? "at every stage" : "at stage 0; " + std::to_string(last) + " at the last")
      << "\n";
}

/// The rule of PipeDream's released optimizer counts nothing for the last stage, nor for the only
/// one.
void describeExcess(const Plan &plan, std::ostream &out) {
  if (!isClosedForm(plan.costModel))
    return;
  for (const PlanStage &stage : plan.stages) {
    int64_t limit = plan.topology.memoryOf(stage.ranks);
    if (limit > 0 && stage.memoryBytes > limit)
      out << "does not fit: stage " << stage.id << " takes " << bytesText(stage.memoryBytes)
          << ", a device has " << bytesText(limit) << ", " << bytesText(stage.memoryBytes - limit)
          << " too few; " << plan.costModel
          << " goes by the released optimizer's rule, --cost-model overlap by what stages hold\n";
  }
}

void describeHints(const Plan &plan, std::ostream &out) {
  if (!plan.hints.bottleneck.empty())
    out << "bottleneck: " << plan.hints.bottleneck << "\n";
  const char *name = "would help: ";
  for (const PlanHelp &help : plan.hints.helps) {
    out << name << help.change << format(": %.0f%% faster\n", 100 * help.gain);
    name = "            ";
  }
}

} // namespace

std::string replicasText(const Plan &plan) {
  const int64_t replicas = plan.stages[0].replicas;
  return replicas == 1 ? ""
                       : " and replica of stage 0 (" +
                             std::to_string(plan.microbatches * replicas) + " in all)";
}

std::string describePlan(const Plan &plan) {
  std::ostringstream out;
  out << "plan of " << plan.model << " for " << plan.topology.workers() << " x "
      << (plan.device.empty() ? "worker" : plan.device) << ", schedule " << plan.scheduleName
      << (plan.schedule.weightRule == WeightRule::atEntry ? " with vertical sync" : "") << ", "
      << plan.microbatches << (plan.microbatches == 1 ? " microbatch" : " microbatches")
      << " per update" << replicasText(plan);
  if (plan.microbatchSize)
    out << " of " << plan.microbatchSize << " samples each";
  if (plan.precision != Precision::fp32)
    out << ", " << toString(plan.precision);
  if (plan.exact)
    out << ", exact";
  // Behind another number of stages gradients are of weights of another age.
  if (plan.exact && plan.scheduleName == "pipedream")
    out << " for this number of stages";
  if (!plan.topology.assumption.empty())
    out << "\nassumed: " << shown(plan.topology.assumption) << "; --topology FILE says otherwise";
  out << "\n\n";
  describeStages(plan, out);
  if (!plan.schedule.ranks.empty())
    out << "\n" << drawGrid(plan.schedule, plan.edges, iterationsToDraw(plan.schedule));
  else if (!plan.schedule.asynchronous)
    out << "\nrows: too many to be drawn, "
        << runsOf(plan.schedule.stages(), plan.schedule.microbatches)
        << " runs per update; the time is that of these runs with messages one behind the other\n";
  else if (!isClosedForm(plan.costModel))
    out << "\nrows: too many to be drawn; the time is that of their runs in steady state with "
           "messages "
           "one behind the other\n";
  out << "\n";
  describeTimes(plan, out);
  describeStaleness(plan, out);
  describeCommunicators(plan, out);
  out << verdictOf(plan);
  describeExcess(plan, out);
  describeHints(plan, out);
  return out.str();
}

} // namespace pdc
