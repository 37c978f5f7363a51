#include "compiler/report/Report.h"

#include "compiler/plan/Files.h"
#include "compiler/plan/PlanMemory.h"
#include "compiler/report/Drawings.h"
#include "compiler/report/Html.h"

#include <algorithm>
#include <span>

namespace pdc {

namespace {

constexpr size_t kMostSends = 40, kMostStageRows = 24;

/// Seconds of one microbatch on one replica.
double workOf(const PlanStage &stage) { return stage.forwardSeconds + stage.backwardSeconds; }

class Page {
public:
  Page(const Plan &plan, const PlanGraph &graph)
      : plan(plan), graph(graph), simulation(simulate(plan, iterationsToDraw())) {}
  std::string print();

private:
  int64_t iterationsToDraw() const {
    return plan.schedule.asynchronous ? iterationsToShow(plan) : 1;
  }
  void head();
  void cards();
  void card(const char *name, const std::string &value, const std::string &note);
  void stageSection();
  void stageTable(std::span<const PlanStage> stages, double heaviest, int64_t most);
  void stageRow(const PlanStage &stage, double heaviest, int64_t most);
  void sendTable();
  void timeline();
  void memory();
  void units();
  void legend();

  const Plan &plan;
  const PlanGraph &graph;
  PlanSimulation simulation;
  std::string text;
};

std::string plural(int64_t count, const std::string &word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

void Page::head() {
  std::string title = htmlText(plan.model.substr(plan.model.find_last_of('/') + 1), 80);
  text += "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
          "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
          "'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width, "
          "initial-scale=1\">\n<title>Plan of " +
          title + "</title>\n<style>\n" + reportStyle() +
          "</style>\n</head>\n<body>\n<main>\n<header><h1>" + title + "</h1>\n<p class=\"lead\">" +
          plural(static_cast<int64_t>(plan.stages.size()), "stage") + " on " +
          std::to_string(plan.topology.workers()) + " × " +
          (plan.device.empty() ? "worker" : htmlText(plan.device)) + ", schedule " +
          htmlText(plan.scheduleName) + ", " + std::to_string(plan.microbatches) +
          (plan.microbatches == 1 ? " microbatch" : " microbatches");
  text += " per update" + replicasText(plan);
  if (plan.microbatchSize)
    text += " of " + plural(plan.microbatchSize, "sample") + " each";
  text += ", cost model " + htmlText(plan.costModel) + ", " +
          std::string(toString(plan.precision)) + (plan.exact ? ", exact" : "");
  if (!plan.topology.assumption.empty())
    text += "<br>Assumed: " + htmlText(plan.topology.assumption);
  text += "</p></header>\n";
}

void Page::card(const char *name, const std::string &value, const std::string &note) {
  text += std::string("<div class=\"card\"><dt>") + name + "</dt><dd>" + value + "<small>" + note +
          "</small></dd></div>\n";
}

/// "stage 1", or "rank 2: stages 1 and 3".
std::string stagesOfRank(const Plan &plan, int rank) {
  std::vector<int> stages;
  for (const PlanStage &stage : plan.stages)
    if (std::ranges::find(stage.ranks, rank) != stage.ranks.end())
      stages.push_back(stage.id);
  if (stages.size() == 1)
    return "stage " + std::to_string(stages[0]);
  std::string text = "rank " + std::to_string(rank) + ": stages ";
  for (size_t i = 0; i < stages.size(); ++i)
    text += (i == 0 ? "" : i + 1 < stages.size() ? ", " : " and ") + std::to_string(stages[i]);
  return text;
}

void Page::cards() {
  text += "<dl class=\"cards\">\n";
  double seconds = plan.secondsPerMinibatch;
  bool samples = plan.microbatchSize > 0 && seconds > 0;
  card(plan.schedule.sumsMicrobatches() ? "per minibatch" : "per microbatch", secondsText(seconds),
       samples ? "predicted: " + coordinate(static_cast<double>(plan.minibatch) / seconds) +
                     " samples per second"
               : "predicted");
  card("idle", percentText(idleShare(plan)), "of the devices' time: bubble, imbalance, links");
  std::vector<int64_t> memory = memoryByRank(plan);
  auto rank = static_cast<int>(std::ranges::max_element(memory) - memory.begin());
  int64_t limit = plan.topology.memoryOf(std::span(&rank, 1));
  card("most memory", bytesText(memory[rank]),
       stagesOfRank(plan, rank) + (limit ? ", of " + bytesText(limit) : ""));
  double data = plan.dataParallelSecondsPerMinibatch;
  const char *note = data >= seconds ? "as fast" : "as fast: pipelining does not pay";
  if (plan.stages.size() == 1)
    note = "as fast as summing behind all work: the plan is data parallelism";
  if (data > 0 && seconds > 0 && plan.topology.workers() > 1)
    card("against data parallelism", ratioText(data / seconds) + " ×", note);
  text += "</dl>\n";
}

std::string rankText(const PlanStage &stage) {
  if (stage.ranks.size() == 1)
    return std::to_string(stage.ranks[0]);
  bool together =
      stage.ranks.back() - stage.ranks.front() + 1 == static_cast<int>(stage.ranks.size());
  return together
             ? std::to_string(stage.ranks.front()) + "–" + std::to_string(stage.ranks.back())
             : std::to_string(stage.ranks.front()) + ", " + std::to_string(stage.ranks[1]) + ", …";
}

void Page::stageRow(const PlanStage &stage, double heaviest, int64_t most) {
  auto number = [&](const std::string &value) { text += "<td class=\"n\">" + value + "</td>"; };
  text += "<tr><th scope=\"row\" class=\"id\"><i class=\"swatch\" style=\"" +
          stageColour(stage.id) + "\"></i>" + std::to_string(stage.id) + "</th>";
  number(rankText(stage));
  text += "<td class=\"names\">";
  if (!stage.nodes.empty())
    text += htmlText(stage.nodes.front(), 40) +
            (stage.nodes.size() > 1 ? " … " + htmlText(stage.nodes.back(), 40) : "");
  text += "<small>" + plural(static_cast<int64_t>(stage.nodes.size()), "node") + "</small></td>";
  number(secondsText(stage.forwardSeconds));
  number(secondsText(stage.backwardSeconds));
  double share = workOf(stage) / stage.replicas;
  text +=
      "<td>" +
      bar(heaviest > 0 ? share / heaviest : 0, stageColour(stage.id) + ";background:var(--stage)") +
      "<small>" + secondsText(share) + (stage.replicas > 1 ? " per replica" : "") + "</small></td>";
  number(bytesText(stage.parameterBytes));
  text += "<td>" +
          bar(most > 0 ? static_cast<double>(stage.memoryBytes) / static_cast<double>(most) : 0,
              stageColour(stage.id) + ";background:var(--stage)") +
          "<small>" + bytesText(stage.memoryBytes) + "</small></td>";
  number(std::to_string(stage.inFlight));
  number(std::to_string(stage.weightVersions));
  text += "</tr>\n";
}

void Page::stageTable(std::span<const PlanStage> stages, double heaviest, int64_t most) {
  text += "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
          "aria-label=\"stages\"><table><thead><tr><th scope=\"col\">stage</th><th scope=\"col\" "
          "class=\"n\">ranks</th><th scope=\"col\">from … to</th><th scope=\"col\" "
          "class=\"n\">forward</th><th scope=\"col\" class=\"n\">backward</th><th scope=\"col\" "
          "class=\"wide\">work per microbatch</th><th scope=\"col\" class=\"n\">parameters</th><th "
          "scope=\"col\" class=\"wide\">memory</th><th scope=\"col\" class=\"n\">in flight</th><th "
          "scope=\"col\" class=\"n\">versions</th></tr></thead><tbody>\n";
  for (const PlanStage &stage : stages)
    stageRow(stage, heaviest, most);
  text += "</tbody></table></div>\n";
}

void Page::stageSection() {
  double heaviest = 0;
  int64_t most = plan.topology.memoryBytes;
  for (const PlanStage &stage : plan.stages) {
    heaviest = std::max(heaviest, workOf(stage) / stage.replicas);
    most = std::max(most, stage.memoryBytes);
  }
  // A limit far above what is needed would leave bars too short to compare.
  int64_t needed = std::ranges::max_element(plan.stages, {}, &PlanStage::memoryBytes)->memoryBytes;
  most = most > 3 * needed ? needed : most;
  // Beyond some stages the reader asks for the rest.
  std::span<const PlanStage> all(plan.stages),
      first = all.first(std::min(all.size(), kMostStageRows));
  text += "<section><h2>Stages</h2>\n";
  stageTable(first, heaviest, most);
  if (all.size() > first.size()) {
    text += "<details><summary>" +
            plural(static_cast<int64_t>(all.size() - first.size()), "more stage") + "</summary>\n";
    stageTable(all.subspan(first.size()), heaviest, most);
    text += "</details>\n";
  }
  sendTable();
  text += "</section>\n";
}

void Page::sendTable() {
  size_t all = plan.edges.size();
  if (all == 0)
    return;
  std::vector<const Edge *> edges;
  for (const Edge &edge : plan.edges)
    edges.push_back(&edge);
  std::ranges::stable_sort(edges, std::greater<>(), [](const Edge *edge) { return edge->bytes; });
  edges.resize(std::min(all, kMostSends));
  text +=
      "<details><summary>What crosses between stages: " +
      plural(static_cast<int64_t>(all), "tensor") +
      "</summary><table><thead><tr><th scope=\"col\">from "
      "→ to</th><th scope=\"col\">tensor</th><th scope=\"col\" class=\"n\">per microbatch</th><th "
      "scope=\"col\" class=\"n\">on the link</th></tr></thead><tbody>\n";
  for (const Edge *edge : edges) {
    Link link = plan.topology.linkBetween(plan.stages[edge->fromStage].ranks[0],
                                          plan.stages[edge->toStage].ranks[0]);
    double seconds = link.latencySeconds;
    if (link.bytesPerSecond > 0)
      seconds += static_cast<double>(edge->bytes) / link.bytesPerSecond;
    text += "<tr><td>" + std::to_string(edge->fromStage) + " → " + std::to_string(edge->toStage) +
            "</td><td class=\"names\">" + htmlText(edge->tensor, 80) + "</td><td class=\"n\">" +
            bytesText(edge->bytes) + "</td><td class=\"n\">" + secondsText(seconds) +
            "</td></tr>\n";
  }
  text += "</tbody></table>";
  if (all > edges.size())
    text += "<p class=\"soft\">The largest " + std::to_string(edges.size()) +
            "; plan.json lists all.</p>";
  text += "</details>\n";
}

void Page::legend() {
  text += "<p class=\"legend\">";
  for (const PlanStage &stage : plan.stages) {
    if (stage.id == 24 && plan.stages.size() > 26) {
      text += "<span>…</span>";
      break;
    }
    text += "<span><i class=\"swatch\" style=\"" + stageColour(stage.id) + "\"></i>stage " +
            std::to_string(stage.id) + "</span>";
  }
  text += "</p>\n";
}

void Page::timeline() {
  bool split = false;
  for (const Event &event : simulation.events)
    split |= event.kind == StepKind::run && event.task.phase == Phase::backwardWeight;
  text += "<section><h2>Timeline</h2>\n<p class=\"soft\">As it is predicted to run, each transfer "
          "in its "
          "place; numbers are microbatches. <code>trace.json</code> opens in Perfetto.</p>\n<p "
          "class=\"legend\"><span><i class=\"key F\"></i>forward</span>";
  text += split ? "<span><i class=\"key I\"></i>input gradients</span><span><i class=\"key "
                  "W\"></i>weight "
                  "gradients</span>"
                : "<span><i class=\"key B\"></i>backward</span>";
  text += "<span><i class=\"key U\"></i>update</span><span><i class=\"key S\"></i>sum over "
          "ranks</span><span><i class=\"key send\"></i>on its way</span><span><i class=\"key "
          "idle\"></i>idle</span></p>\n";
  text += drawTimeline(plan, simulation);
  text += "</section>\n";
}

std::string communicatorText(const PlanCommunicators &communicators) {
  if (!communicators.count)
    return "";
  return "<p class=\"soft\">" + plural(communicators.count, "communicator") +
         (communicators.arrangement == Arrangement::pairs
              ? ", one per pair of ranks with its messages in the order of the rows"
              : ", one per directed edge, each with a queue of its own") +
         ": " + bytesText(communicators.bytes) + " of the rank that receives from most.</p>\n";
}

void Page::memory() {
  text +=
      "<section><h2>Memory over time</h2>\n<p class=\"soft\">Weights, gradients and workspaces, "
      "and "
      "what each microbatch keeps from its forward to the end of its backward pass. Dashed: what "
      "is set aside.</p>\n" +
      drawMemory(plan, simulation) + communicatorText(plan.communicators) + "</section>\n";
}

void Page::units() {
  text +=
      "<section><h2>Units by stage</h2>\n<p class=\"soft\">What the planner moves: a kernel with "
      "all that is "
      "derived from it in the backward pass. " +
      std::string(readGraph(graph)) + "; red lines are cut.</p>\n";
  legend();
  text += drawGraph(plan, graph) + "</section>\n";
}

std::string Page::print() {
  head();
  cards();
  text += compareWays(plan);
  text += compareBounds(plan);
  stageSection();
  timeline();
  memory();
  units();
  text += "</main>\n</body>\n</html>\n";
  return std::move(text);
}

} // namespace

std::string printReport(const Plan &plan, const PlanGraph &graph) {
  return Page(plan, graph).print();
}

} // namespace pdc
