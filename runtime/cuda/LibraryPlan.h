#pragma once

#include "runtime/Program.h"
#include "runtime/cuda/CudnnGraph.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pdc::runtime::cuda {

/// The first of cuDNN's engine configurations for a graph that keeps the rules, fits into the
/// workspace and can be made, ready to run. One that fails when it runs first gives way to the next
/// where the rules allow it; the choice is final once one has run.
class LibraryPlan {
public:
  /// `unit` is for errors and outlives the plan.
  LibraryPlan(const Descriptor &graph, const PlanTarget &target, const KernelRules &rules,
              const char *unit);

  /// False: there is none.
  explicit operator bool() const { return engine.has_value(); }
  /// How many configurations keep the rules, best first.
  size_t candidates() const { return found; }
  int64_t workspaceBytes() const { return engine ? engine->workspaceBytes : 0; }
  /// How many there are, and what the library says of the last one that it could not make.
  std::string describeCandidates() const;

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
  struct Engine {
    Descriptor plan;
    int64_t workspaceBytes;
  };
  std::optional<Engine> makeNext();
  cudnnStatus_t execute(const Engine &engine, const Pack &pack) const;
  bool mayReplace(const Run &run) const;
  bool replace(const Pack &pack);
  Pack &packFor(std::span<const int64_t> ids, std::vector<const void *> pointers);

  const PlanTarget target;
  const KernelRules rules;
  const char *const unit;
  std::vector<Descriptor> ranked; ///< none once the choice is final
  const size_t found;
  size_t next = 0;     ///< of those not yet tried
  std::string refusal; ///< of the last one that could not be made
  std::optional<Engine> engine;
  std::vector<Pack> packs;
};

} // namespace pdc::runtime::cuda
