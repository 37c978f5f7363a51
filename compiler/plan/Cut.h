#pragma once

#include "compiler/plan/StageMemory.h"
#include "compiler/schedule/Play.h"

#include <string_view>

namespace pdc {

/// What crosses once each unit has a stage: a value to each stage that reads it, and from each of
/// its readers there a term of its gradient back.
std::vector<Edge> findEdges(const PlanGraph &graph, const std::vector<int> &stageOfUnit);

/// The stages with their nodes, seconds, bytes and sends; memory and depths come with the schedule.
std::vector<PlanStage> makeStages(const PlanGraph &graph, const std::vector<int> &stageOfUnit,
                                  std::span<const Edge> edges);

/// Adds to the stages' seconds what their schedule asks for: updates take longer where weights have
/// several versions, and all but the first microbatch of an update add their gradients.
void addUpdateRule(std::vector<PlanStage> &stages, const PlanGraph &graph,
                   const std::vector<int> &stageOfUnit, const Schedule &schedule);

/// Stages without names and sends, for a search that makes many.
std::vector<PlanStage> sumStages(const PlanGraph &graph, const std::vector<int> &stageOfUnit);

/// The units that a gradient sent to another stage goes through: what they hand back cannot wait
/// for the weight gradients, and is kept for them where both run apart.
std::vector<bool> findSenders(const PlanGraph &graph, const std::vector<int> &stageOfUnit);

/// Lets a stage recompute: the second forward pass is part of its backward pass, of the half that
/// what it sends waits for, if it sends gradients.
void addRecomputation(PlanStage &stage, bool sendsGradients);

/// What a replica of one stage gets of the way to another stage: replicas that share ports share
/// their bandwidth.
Link linkBetweenStages(const Topology &topology, const std::vector<int> &from,
                       const std::vector<int> &to);

/// The link with the least bandwidth between neighbours of a ring.
Link slowestOfRing(const Topology &topology, const std::vector<int> &ranks);

/// Seconds that replicas on these ranks take to sum so many bytes: each float crosses twice between
/// every two shares, over the slowest link among them, and is handed over and taken as often.
double reductionSeconds(const Topology &topology, const std::vector<int> &ranks, int64_t bytes);

/// The same, of a ring whose slowest link is known.
double ringSeconds(const Link &slowest, double replicas, int64_t bytes);

/// What each of a stage's replicas spends on handing over and taking the messages of such a sum.
double sumHandlingSeconds(const Topology &topology, const PlanStage &stage);

/// Bytes that a replica of a stage keeps for these sums and the means of running statistics:
/// buckets and what comes in for them.
int64_t reductionBytes(std::string_view device, const PlanStage &stage);

/// Bytes of gradients that the runtime of a device ("cpu", "cuda") sums at a time.
int64_t bucketBytes(std::string_view device);

/// Buckets in which replicas sum so many bytes of gradients.
int countBuckets(std::string_view device, int64_t gradientBytes);

/// What the runs of a stage take, apart from its messages.
StageSeconds runSeconds(const PlanStage &stage);

/// Up to here a message leaves its sender at once, as runtime/MpiTransport.cpp asks of MPI; a
/// larger one waits until its receive is posted.
inline constexpr int64_t kEagerBytes = 1 << 20;

/// The way of an edge's messages.
Link linkOf(const Plan &plan, const Edge &edge);

/// What the player needs to know of a plan: runs with what their ranks spend on their messages.
PlayCosts playCosts(const Plan &plan);

} // namespace pdc
