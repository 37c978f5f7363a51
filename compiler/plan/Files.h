#pragma once

#include "compiler/plan/Plan.h"

#include <string>
#include <string_view>

namespace pdc {

/// The most stages that a plan or an assignment file may name.
inline constexpr int kMostStages = 65536;

/// A small text file. Throws pdc::Error with the path where it cannot be read or is above 256 MB.
std::string readTextFile(const std::filesystem::path &path);
void writeTextFile(const std::filesystem::path &path, const std::string &text);

/// So many workers of a cluster, alike in so many servers; without a number of servers those of one
/// server, or of whole ones. No workers: all of it.
struct ClusterPart {
  int servers = 0, workers = 0;
};

/// A topology file, or one of the known clusters where no such file is: "cluster-a", "dgx-h100:4"
/// with that many servers; `part` of a cluster where it has one. Throws pdc::Error with the known
/// names.
Topology readTopology(const std::filesystem::path &path, const ClusterPart &part = {});

/// What is planned for where nobody says how devices are linked: so many servers of so many each,
/// with the links and the network of the device's data sheets (README.md). `cores`: of this
/// machine, where all devices are its processes.
Topology assumedTopology(std::string_view device, int servers, int devices, int cores = 0);

/// The parsers throw pdc::Error that names `file` and the field.
Topology parseTopology(std::string_view text, const std::string &file);

/// plan.json. Beside the fields every plan file has it keeps the schedule: `rows` per rank as text
/// ("2F0", see compiler/schedule/Text.h), `slot_table`, `versions`, and the `edges` that rows name.
std::string printPlan(const Plan &plan);
Plan parsePlan(std::string_view text, const std::string &file);

/// `--stages FILE`: `{"node": stage, ...}`, or a plan.json, whose stages list their nodes.
std::map<std::string, int> parseAssignment(std::string_view text, const std::string &file);

/// Whether that is a plan.json of another device or precision than the request's, for which pdc
/// makes other nodes of its own.
bool isPlannedForOther(std::string_view text, const std::string &file, const PlanRequest &request);
/// Replicas of the stages of a plan.json, of each place once where several share their ranks; none
/// where all have one.
std::vector<int> parseReplicas(std::string_view text, const std::string &file);

/// " and replica of stage 0 (16 in all)", behind a number of microbatches per update; empty where
/// it has none.
std::string replicasText(const Plan &plan);

/// plan.txt: what was decided and why, for people.
std::string describePlan(const Plan &plan);

/// Part of the devices' time that is neither forward, backward nor update.
double idleShare(const Plan &plan);

/// Events up to which a viewer opens a trace at once: some 35 MB.
constexpr int64_t kMostTracedEvents = 250'000;

struct PredictedTrace {
  std::string text;
  std::string leftOut; ///< so that the trace stays small, as the text says; empty: nothing
};

/// Chrome trace of `iterations` minibatches (or microbatches of an asynchronous schedule) as they
/// are predicted to run; pid is the rank, tid 0 computes and tid 1 sends and receives. Of many
/// events the earliest.
PredictedTrace predictTrace(const Plan &plan, int64_t iterations,
                            int64_t mostEvents = kMostTracedEvents);

inline Plan readPlan(const std::filesystem::path &path) {
  return parsePlan(readTextFile(path), path.string());
}

} // namespace pdc
