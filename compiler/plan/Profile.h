#pragma once

#include "compiler/plan/Plan.h"

#include <optional>
#include <string>
#include <string_view>

namespace pdc {

/// profile.json: what planning needs of a model on a device, so that a plan can be made from it
/// alone.
///
///     {"model": "...", "device": "cpu", "precision": "fp32", "threads": 1, "microbatch_size": 32,
///      "optimizer": "adam",
///      "units": [{"name": "...", "nodes": ["..."], "forward_seconds": 0, "backward_input_seconds":
///      0,
///                 "backward_weight_seconds": 0, "update_seconds": 0, "parameter_bytes": 0,
///                 "slowdown": 1, "update_slowdown": 1, "version_slowdown": 1,
///                 "accumulation_slowdown": 1, "gradient_bytes": 0,
///                 "constant_bytes": 0, "state_bytes": 0, "optimizer_bytes": 0, "stash_bytes": 0,
///                 "halfway_bytes": 0, "workspace_bytes": 0, "temporary_bytes": 0,
///                 "split_temporary_bytes": 0, "evaluation_temporary_bytes": 0,
///                 "input_stash_bytes": 0, "freed_stash_bytes": 0}],
///      "values": [{"name": "...", "producer": 0, "consumers": [1], "bytes": 0, "stashed": true,
///                  "freed_at": 1}],
///      "gradients": [{"name": "...", "producer": 1, "consumers": [0], "bytes": 0}],
///      "tied": [{"units": [0, 1], "parameter_bytes": 0, "optimizer_bytes": 0, "gradient_bytes":
///      0, "sums_together": true}],
///      "shared_reads": [{"units": [0, 1], "parameter_bytes": 0, "constant_bytes": 0}]}
///
/// Units stand in topological order: values go to later ones, gradients to earlier ones. A file
/// without "gradients" gets them from its values: as large, from each reader to the producer, but
/// for values with "gradient": false. One without "temporary_bytes" gets them from both, and a unit
/// without "split_temporary_bytes" has as many. Seconds
/// are of one microbatch, of an update for `update_seconds`; `slowdown` and, of an update,
/// `update_slowdown`: by which they grow while all cores of the machine compute;
/// `version_slowdown`: by which an update grows where weights have several versions.
/// `backward_weight_seconds` are of the first microbatch of an update, and `accumulation_slowdown`
/// by which they grow with those whose gradients are added to earlier ones. "sums_together": the
/// uses of a tied weight in a stage have one sum of gradients, which the first unit counts;
/// otherwise (also where it is left out) each has its own. "shared_reads": what several units read
/// and nothing trains, which the first unit counts.
struct Profile {
  std::string model;
  std::string device = "cpu";
  std::optional<Precision> precision; ///< that the seconds were measured in, where it is known
  int threads = 1;
  int64_t microbatchSize = 0;
  PlanGraph graph;
  std::string optimizer = {}; ///< whose updates were measured; empty: not known
};

/// No file of a profile or a plan has a slowdown above.
constexpr double kMostSlowdown = 1000;

std::string printProfile(const Profile &profile);

/// Throws pdc::Error that names `file` and the field.
Profile parseProfile(std::string_view text, const std::string &file);

/// PipeDream's profile, graph.txt: lines `node -- operator -- forward_compute_time=ms,
/// backward_compute_time=ms, activation_size=bytes, parameter_size=bytes`, then lines `<tab>node --
/// node`. A unit per node, without Input nodes and outputs nobody reads; what a node keeps is its
/// output. The device is not known.
Profile parsePipeDreamProfile(std::string_view text, const std::string &file);
bool isPipeDreamProfile(std::string_view text);

/// Either format.
Profile readProfile(const std::filesystem::path &path);

/// Puts measured seconds where a unit of that name has an estimate. Throws pdc::Error when a unit
/// was not measured: then the profile is of another model, microbatch size or device.
void applyProfile(PlanGraph &graph, const Profile &profile);

/// Gives the units that it has, by name, the slowdowns that were measured.
void copySlowdowns(PlanGraph &graph, const Profile &profile);

/// Of a value's size, one from each of its readers back to the unit that makes it.
void addGradientsOf(const PlanValue &value, PlanGraph &graph);

/// Gives each unit the bytes that live while it runs, where nothing but what goes from unit to unit
/// is known: values, and the terms of their gradients.
void setTemporaries(PlanGraph &graph);

/// Throws pdc::Error when units and values do not fit together: `source` names where they are from.
void checkGraph(const PlanGraph &graph, const std::string &source);

} // namespace pdc
