#pragma once

#include "compiler/plan/Plan.h"

#include <random>

namespace pdc {

/// Units "u0", "u1", ... with one node "n0", ... each, of so many seconds forward and twice that
/// backward; a value of 1000 bytes from each to the next.
PlanGraph chainGraph(const std::vector<double> &forwardSeconds);

/// A graph with skips, costs and bytes drawn at random; some of its values have no gradients.
PlanGraph randomGraph(int units, std::mt19937 &random);

/// From units drawn at random to one or several earlier ones, whose values they need not read.
void addPassingGradients(PlanGraph &graph, std::mt19937 &random);

/// Gives each value gradients of its size, takes all others away, and counts what lives anew.
void renewGradients(PlanGraph &graph);

/// Of all synchronous schedules, one stage per worker and more, without replicas: so many workers
/// on one level of such links, in bytes per second, microbatches of 4 samples.
PlanRequest automatic(int workers, int64_t microbatches, double bandwidth = 1e6);
/// The same under that schedule alone, without replicas.
PlanRequest named(PlanRequest request, const char *schedule);

/// Whether a way with that in its name is among those that a plan tried.
bool hasTried(const Plan &plan, const std::string &part);

} // namespace pdc
