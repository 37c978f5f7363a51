#pragma once

#include "runtime/Program.h"
#include "runtime/cuda/CudnnGraph.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pdc::runtime::cuda {

/// The first of cuDNN's engine configurations for a graph that keeps the rules, fits into the
/// workspace and can be made, ready to run. One that fails when it runs gives way to the next.
class LibraryPlan {
public:
  /// `unit` is for errors and outlives the plan.
  LibraryPlan(const Descriptor &graph, const PlanTarget &target, const KernelRules &rules,
              const char *unit);

  /// False: there is none.
  explicit operator bool() const { return plan.has_value(); }
  /// How many configurations keep the rules, best first.
  size_t candidates() const { return ranked.size(); }
  int64_t workspaceBytes() const { return workspace; }

  /// Puts it into the run's queue; `pointers` belong to the tensors `ids` of the graph, those of
  /// numbers given by value to the host's memory. The library's workspace begins at `scratch`.
  void operator()(const Run &run, std::span<const int64_t> ids,
                  std::span<const void *const> pointers, const void *scratch);

private:
  /// The pointers of a call as the library wants them; there are as many as slots and versions.
  struct Pack {
    std::vector<const void *> pointers; ///< the last one is the workspace's
    Descriptor descriptor;
  };
  bool takeNext();
  void warn(const std::string &why) const;
  Pack &packFor(std::span<const int64_t> ids, std::vector<const void *> pointers);

  const PlanTarget target;
  const size_t room; ///< of the workspace
  const char *const unit;
  const std::vector<Descriptor> ranked;
  size_t next = 0; ///< of those not yet tried
  std::optional<Descriptor> plan;
  std::vector<Pack> packs;
  int64_t workspace = 0;
};

} // namespace pdc::runtime::cuda
