#include "compiler/plan/PlanMemory.h"
#include "compiler/report/Drawings.h"
#include "compiler/report/Html.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace pdc {

namespace {

struct Row {
  std::string name, note;
  double seconds;
  std::string memory;
};

std::string againstText(double other, double own) {
  if (own <= 0)
    return "";
  if (std::abs(other / own - 1) < 0.005)
    return "as fast";
  return other >= own ? ratioText(other / own) + " × as fast"
                      : percentText(own / other - 1) + " slower";
}

int64_t mostMemory(const Plan &plan) { return std::ranges::max(memoryByRank(plan)); }

std::vector<Row> waysOf(const Plan &plan) {
  struct Words {
    const char *key, *name, *note;
  };
  constexpr Words known[] = {
      {"single_device", "one device", "the whole model on it"},
      {"data_parallel", "data parallelism", "a copy of the model per device"},
      {"model_parallel", "no pipelining", "one at a time through the same stages"},
      {"gpipe", "GPipe", "on the same stages, emptied at each update"}};
  std::vector<Row> rows = {
      {"this plan", "", plan.secondsPerMinibatch, bytesText(mostMemory(plan))}};
  for (const Baseline &baseline : plan.baselines) {
    Row row{htmlText(baseline.name), "", baseline.secondsPerMinibatch,
            bytesText(baseline.memoryBytes)};
    for (const Words &words : known)
      if (baseline.name == words.key)
        row.name = words.name, row.note = words.note;
    row.note += baseline.recompute ? ", recomputing activations" : "";
    row.memory += baseline.fits ? "" : "<small>does not fit</small>";
    rows.push_back(row);
  }
  return rows;
}

std::vector<Row> boundsOf(const Plan &plan) {
  const PlanBounds &bounds = plan.bounds;
  return {
      {"this plan", "", plan.secondsPerMinibatch, ""},
      {"any such plan", "no cut into as many stages is faster", plan.boundSecondsPerMinibatch, ""},
      {"work", "spread evenly over all devices", bounds.work, ""},
      {"balance", "its heaviest rank never waits", bounds.balance, ""},
      {"bubble", "its rows on links that take no time", bounds.bubble, ""},
      {"links", "its busiest link never waits", bounds.links, ""}};
}

const char *perWhat(const Plan &plan) {
  return plan.schedule.sumsMicrobatches() ? "per minibatch" : "per microbatch";
}

struct Column {
  std::string name;
  const char *kind = ""; ///< "n": numbers, "wide": bars
};

std::string headerCells(std::span<const Column> columns) {
  std::string text = "<thead><tr>";
  for (const Column &column : columns)
    text += "<th scope=\"col\" class=\"" + std::string(column.kind) + "\">" + column.name + "</th>";
  return text + "</tr></thead><tbody>\n";
}

std::string rowCells(const Row &row, bool own, double most) {
  return std::string(own ? "<tr class=\"own\">" : "<tr>") + "<th scope=\"row\">" + row.name +
         "<small>" + row.note + "</small></th><td class=\"n\">" + secondsText(row.seconds) +
         "</td><td>" + bar(row.seconds / most, own ? "background:var(--accent)" : "") + "</td>";
}

double mostSeconds(const std::vector<Row> &rows) {
  return std::ranges::max_element(rows, {}, &Row::seconds)->seconds;
}

std::string hints(const Plan &plan) {
  if (plan.hints.bottleneck.empty())
    return "";
  std::string text = "<p><b>Bottleneck:</b> " + htmlText(plan.hints.bottleneck, 400) + "</p>\n";
  if (plan.hints.helps.empty())
    return text;
  text += "<p>What would help, each planned:</p>\n<ul>\n";
  for (const PlanHelp &help : plan.hints.helps)
    text += "<li><code>" + htmlText(help.change) + "</code>: " + percentText(help.gain) +
            " faster</li>\n";
  return text + "</ul>\n";
}

/// What the plan was chosen among.
std::string triedWays(const Plan &plan) {
  if (plan.candidates.size() < 2)
    return "";
  std::string text = "<details><summary>What was tried: " + std::to_string(plan.candidates.size()) +
                     " ways</summary>\n<ul>\n";
  for (const PlanCandidate &candidate : plan.candidates)
    text += "<li>" + htmlText(candidate.name) + ": " +
            (candidate.refusal.empty() ? secondsText(candidate.secondsPerMinibatch)
                                       : htmlText(candidate.refusal, 400)) +
            "</li>\n";
  if (!plan.untried.empty())
    text += "<li>left out: " + htmlText(plan.untried, 400) + "</li>\n";
  return text + "</ul></details>\n";
}

} // namespace

std::string compareWays(const Plan &plan) {
  std::vector<Row> rows = waysOf(plan);
  const Column columns[] = {
      {"way"}, {perWhat(plan), "n"}, {"", "wide"}, {"memory a device", "n"}, {"the plan is"}};
  std::string text = "<section><h2>Against other ways</h2>\n<table>" + headerCells(columns);
  for (const Row &row : rows) {
    bool own = &row == rows.data();
    text += rowCells(row, own, mostSeconds(rows)) + "<td class=\"n\">" + row.memory + "</td><td>" +
            (own ? std::string() : againstText(row.seconds, plan.secondsPerMinibatch)) +
            "</td></tr>\n";
  }
  return text + "</tbody></table>\n" + triedWays(plan) + "</section>\n";
}

/// What is shown as nothing.
static constexpr double kLeastShare = 0.005;

/// Closed forms leave out what the bounds count, such as ports that replicas share.
static std::string boundsText(const Plan &plan, const std::vector<Row> &rows) {
  if (plan.secondsPerMinibatch >= mostSeconds(rows) * (1 - kLeastShare))
    return "No plan with these stages goes below any of them.";
  return "No run of these stages goes below any of them. The plan's own seconds are those of cost "
         "model " +
         htmlText(plan.costModel) + ", which leaves out what is above them here.";
}

std::string compareBounds(const Plan &plan) {
  std::vector<Row> rows = boundsOf(plan);
  const Column columns[] = {{"bound"}, {perWhat(plan), "n"}, {"", "wide"}, {"the plan takes"}};
  std::string text = "<section><h2>What holds it back</h2>\n<p class=\"soft\">" +
                     boundsText(plan, rows) + "</p>\n<table>" + headerCells(columns);
  for (const Row &row : rows) {
    if (row.seconds <= 0)
      continue;
    bool own = &row == rows.data();
    double above = plan.secondsPerMinibatch / row.seconds - 1;
    // What is far below holds nothing back.
    text += rowCells(row, own, mostSeconds(rows)) + "<td>" +
            (own || above >= 1      ? std::string()
             : above < -kLeastShare ? percentText(-above) + " less"
                                    : percentText(std::abs(above)) + " more") +
            "</td></tr>\n";
  }
  return text + "</tbody></table>\n" + hints(plan) + "</section>\n";
}

} // namespace pdc
