#pragma once

#include "compiler/cost/Device.h"
#include "compiler/schedule/Arrangement.h"
#include "compiler/schedule/Schedule.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pdc {

/// What the partitioner knows of one unit of the forward pass, everything derived from it in the
/// backward pass and the update included.
struct PlanUnit {
  std::string name;
  std::vector<std::string> nodes; ///< ONNX node names
  double forwardSeconds = 0;
  double backwardInputSeconds = 0;
  double backwardWeightSeconds = 0;
  double updateSeconds = 0;
  int64_t parameterBytes = 0;
  int64_t gradientBytes = 0;
  int64_t optimizerBytes = 0;
  /// Bytes that it makes in the forward pass and the backward pass reads, per microbatch.
  int64_t stashBytes = 0;
  /// Bytes that the weight gradients read of the input gradients, per microbatch.
  int64_t halfwayBytes = 0;
  int64_t workspaceBytes = 0;
  /// Bytes of the model's inputs that it reads, per microbatch.
  int64_t inputBytes = 0;
  /// By which its seconds grow while all cores of the host compute: they share memory and caches.
  /// Of a microbatch, and of an update.
  double slowdown = 1, updateSlowdown = 1;
  /// By which an update takes longer that writes a version of the weights beside the one it reads.
  double versionSlowdown = 1;
  /// By which weight gradients take longer that are added to those of earlier microbatches.
  double accumulationSlowdown = 1;
  /// Of `parameterBytes`, the running statistics: replicas take their means.
  int64_t stateBytes = 0;
  /// The running statistics between whose uses its nodes lie: they belong to one stage. Empty: it is
  /// one kernel.
  std::string sharedState;
  /// Of what is the same in every version of the parameters.
  int64_t constantBytes = 0;
  /// Bytes that live in a task while what comes from it runs, and are kept for no other task: of
  /// the forward pass, the backward pass and the update the most.
  int64_t temporaryBytes = 0;
  /// The same where input and weight gradients run apart, without what `halfwayBytes` counts.
  int64_t splitTemporaryBytes = 0;
  int64_t evaluationTemporaryBytes = 0; ///< the same of the evaluation
  /// Of `stashBytes`, what no weight gradient reads.
  int64_t inputStashBytes = 0;
  /// Bytes of its and earlier units' `inputStashBytes` that nothing reads once its input gradients
  /// have run.
  int64_t freedStashBytes = 0;

  /// Held once, whatever the schedule.
  int64_t fixedBytes() const { return constantBytes + gradientBytes + optimizerBytes; }
};

/// A value of one unit that others read.
struct PlanValue {
  std::string name;
  int producer = 0;
  std::vector<int> consumers;
  int64_t bytes = 0;
  bool isStashed = false; ///< its producer's `stashBytes` count it
  /// Where its producer's `inputStashBytes` do, too: the unit whose `freedStashBytes` count it.
  int freedAt = -1;
};

/// A weight that several units read. Each stage with one of them holds it, its optimizer state and
/// the sums of the gradients of all its uses; the first unit's bytes count it.
struct TiedWeight {
  std::vector<int> units; ///< ascending
  int64_t parameterBytes = 0;
  int64_t optimizerBytes = 0;
  int64_t gradientBytes = 0; ///< of one sum
  /// The uses in a stage have one sum, which the first unit's bytes count. Otherwise each has its
  /// own, which its unit's bytes count.
  bool sumsTogether = false;
};

/// Memory that several units read and no gradient goes to: a constant, or what weights are prepared
/// to. Each stage with one of them holds it; the first unit's bytes count it.
struct SharedRead {
  std::vector<int> units;     ///< ascending
  int64_t parameterBytes = 0; ///< of what each version of the weights has its own of
  int64_t constantBytes = 0;
};

/// The unit graph in topological order: what a planner sees of a model.
struct PlanGraph {
  std::vector<PlanUnit> units;
  std::vector<PlanValue> values;    ///< later units read them
  std::vector<PlanValue> gradients; ///< the backward pass of earlier units reads them
  std::vector<TiedWeight> tied;
  std::vector<SharedRead> sharedReads;
};

struct Link {
  double bytesPerSecond = 0;
  double latencySeconds = 0;
  /// At which a rank hands a message over, and takes one: it computes nothing meanwhile. 0: no
  /// time.
  double sendBytesPerSecond = 0;
  double receiveBytesPerSecond = 0;

  double handOverSeconds(double bytes) const {
    return sendBytesPerSecond > 0 ? bytes / sendBytesPerSecond : 0;
  }
  double takeSeconds(double bytes) const {
    return receiveBytesPerSecond > 0 ? bytes / receiveBytesPerSecond : 0;
  }
};

struct Level {
  int workers = 1;
  Link link;
  /// Transfers that a component of this level (a worker, a server) sends at once at the link's full
  /// speed, and as many that it receives: more share. A server with a network port per GPU has
  /// several.
  int ports = 1;
};

/// A pair of workers with a link of its own, in both directions, which nothing else goes over.
struct OwnLink {
  int from = 0, to = 0;
  Link link;
};

struct Topology {
  std::vector<Level> levels; ///< lowest first
  int64_t memoryBytes = 0;   ///< per device; 0: not limited
  std::string device;
  /// Where all workers are processes of one machine: its cores; 0: each worker has a device of its
  /// own.
  int cores = 0;
  /// Where devices differ: of each, or none; `memoryBytes` is then the least of them.
  std::vector<int64_t> memoryOfWorker;
  std::vector<OwnLink> links;
  /// To sum a few numbers over all ranks, as ends a minibatch; 0: not known.
  double sumSeconds = 0;
  /// What pdc took for granted where nobody said it, in words; empty: it was given.
  std::string assumption;

  int workers() const;
  /// Of all workers, with so many threads each, how many compute at the same time: workers that
  /// share cores get less than one each.
  double workersAtOnce(int threads) const;
  bool sharesCores(int threads) const { return workersAtOnce(threads) < workers(); }
  /// By which seconds grow while all workers compute, of those that grow by `slowdown` while all
  /// cores do.
  double slowdownOfAll(double slowdown, int threads) const;
  /// Their own link, else that of the lowest level at which both ranks hang on one.
  Link linkBetween(int rank, int other) const;
  /// The position in `links`; -1: they have none of their own.
  int ownLink(int rank, int other) const;
  /// The least memory of these devices; 0: not limited.
  int64_t memoryOf(std::span<const int> ranks) const;
};

struct PlanSend {
  std::string tensor;
  int to = 0;
  int64_t bytes = 0;
};

struct PlanStage {
  int id = 0;
  std::vector<int> ranks;
  int replicas = 1;
  std::vector<std::string> nodes;
  std::vector<std::string> units;
  double forwardSeconds = 0;
  double backwardSeconds = 0;
  /// The part of `backwardSeconds` that no sent gradient needs.
  double backwardWeightSeconds = 0;
  double updateSeconds = 0;
  /// The backward pass runs the forward pass again, and its seconds include that.
  bool recompute = false;
  int64_t parameterBytes = 0;
  int64_t gradientBytes = 0;
  /// Of `parameterBytes`, what replicas take the means of beside summing the gradients.
  int64_t stateBytes = 0;
  int64_t memoryBytes = 0;
  /// Of `memoryBytes`, what each slot of a microbatch takes.
  int64_t slotBytes = 0;
  /// Of `memoryBytes`, what a process takes once for all ranks that are its threads, or not where
  /// they are: code of libraries and what they keep, less what starting the program had read of
  /// them; the transport's buffers between processes.
  int64_t libraryBytes = 0;
  int inFlight = 1;
  int weightVersions = 1;
  std::vector<PlanSend> sends;
  double slowdown = 1, updateSlowdown = 1; ///< the means of its units'
};

/// Another way to train the model on the same devices.
struct Baseline {
  std::string name;
  double secondsPerMinibatch = 0;
  int64_t memoryBytes = 0; ///< of the device that needs most
  bool recompute = false;  ///< it would not fit otherwise, and its seconds include that
  bool fits = true;
  /// Its seconds are those of a plan for the microbatches that it has; else they follow from the
  /// work of the plan's own.
  bool isPlanned = false;
};

/// Seconds per minibatch that a plan cannot go below, each for one physical reason; 0: not known.
struct PlanBounds {
  double work = 0;    ///< all work, spread evenly over devices that never wait
  double balance = 0; ///< its heaviest rank never waits
  double bubble = 0;  ///< its rows, over links that take no time
  double links = 0;   ///< its busiest port never waits
};

/// A way that was tried.
struct PlanCandidate {
  std::string name;
  double secondsPerMinibatch = 0;
  std::string refusal; ///< why it cannot be; else empty
};

/// A change of the request that was planned.
struct PlanHelp {
  std::string change;
  double gain = 0; ///< 0.22: the model trains 22 % faster
};

/// What holds a plan back most, and what makes it faster, best first.
struct PlanHints {
  std::string bottleneck;
  std::vector<PlanHelp> helps;
};

/// What carries the messages between GPUs.
struct PlanCommunicators {
  Arrangement arrangement = Arrangement::pairs;
  int count = 0;     ///< of all ranks together; 0: there are none
  int64_t bytes = 0; ///< of the memory of the rank that receives from most
  /// By which `pairs` makes the plan slower than `edges`, as both are played; no number where
  /// `pairs` is not proven.
  std::optional<double> stallOfPairs;
};

/// What programs are made for: kernels and their layouts are chosen for it.
struct Target {
  std::string device = "cpu"; ///< or "cuda"
  Precision precision = Precision::fp32;
  bool exact = false;
  int threads = 1;
};

/// What a plan is of, which it takes over from its request.
struct PlanSubject : Target {
  std::string model;
  std::string costModel = "overlap";
  int64_t microbatchSize = 0;
};

/// Every decision about a run, made once. On disk: plan.json.
struct Plan : PlanSubject {
  std::string scheduleName;
  /// Samples: microbatches x replicas of the first stage x microbatchSize.
  int64_t minibatch = 0;
  int64_t microbatches = 1; ///< per update and replica of the first stage
  double secondsPerMinibatch = 0;
  double dataParallelSecondsPerMinibatch = 0;
  double singleDeviceSecondsPerMinibatch = 0;
  /// The plan's cuts with one minibatch on the way at a time and no replicas.
  double modelParallelSecondsPerMinibatch = 0;
  double boundSecondsPerMinibatch = 0;
  PlanBounds bounds;
  std::vector<Baseline> baselines;
  std::vector<PlanCandidate> candidates; ///< what was open, in the order of trial
  std::string untried;                   ///< what was left out, and why
  PlanHints hints;
  double plannerSeconds = 0;
  PlanCommunicators communicators;
  /// In place of the `libraryBytes` of all stages where one process runs all ranks as threads.
  int64_t libraryBytes = 0;
  std::vector<PlanStage> stages;
  /// Complete: with the transfers of `edges`, slots and versions. No rows where a closed form
  /// speaks of the steady state alone (stages with replicas, or very many of them), or where they
  /// are too many (kMostWrittenRuns) and follow from the schedule's name.
  Schedule schedule;
  /// What crosses between stages, as the planner sees it; the schedule's transfers name these.
  std::vector<Edge> edges;
  /// At least one level: without a topology file the device's usual link.
  Topology topology;

  int mostReplicas() const {
    return std::ranges::max_element(stages, {}, &PlanStage::replicas)->replicas;
  }
};

/// Which stages keep their inputs alone and run the forward pass again before the backward pass.
/// automatic: those that would not fit the memory otherwise.
struct RecomputeChoice {
  enum Kind : uint8_t { none, automatic, all, listed } kind = automatic;
  std::vector<int> stages; ///< listed

  bool must(int stage) const;
  bool may(int stage) const { return kind == automatic || must(stage); }
};

/// What plans may hold of each device.
struct MemoryLimit {
  int64_t memoryBytes = 0; ///< in place of what devices have; 0: not given
  /// Of that, what sums may come to: they are near what is laid out, which decides.
  double memoryAllowance = 1;
};

struct PlanRequest : PlanSubject, MemoryLimit {
  int workers = 1;
  std::optional<Topology> topology;
  std::string schedule = "auto";
  bool verticalSync = false; ///< pipedream: all stages use the version at entry
  int64_t microbatches = 1;  ///< per update and replica of the first stage
  RecomputeChoice recompute;
  /// Without a topology, where the device is a CPU: the cores of this machine, which all ranks
  /// share; 0: each has its own.
  int cores = 0;
  /// Stages wanted; 0: as many as workers hold.
  int stages = 0;
  /// Stages per rank, of a schedule that places several; 0: two.
  int chunks = 0;
  /// By hand: replicas of each stage, on ranks in their order; empty: one each.
  std::vector<int> replicas;
  /// Stages may share microbatches among replicas where that is faster, and all devices one stage
  /// if the schedule is open too.
  bool openReplicas = false;
  /// Open replicas, and updates of one microbatch of each: those of the first stage; 0: any.
  int inputReplicas = 0;
  /// No replicas (closed forms).
  bool straight = false;
  /// Of what crosses cuts, under a closed form; 0: crossing takes no time.
  double compression = 1;
  /// Node name -> stage, by hand; empty: planned.
  std::map<std::string, int> assignment;
  bool assignedForOther = false; ///< nodes that the model has not are left out (isPlannedForOther)
  /// What gave it, for refusals: a file or the model.
  std::string assignedBy;
};

} // namespace pdc
