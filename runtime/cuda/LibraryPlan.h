#pragma once

#include "runtime/Program.h"
#include "runtime/Tuning.h"
#include "runtime/cuda/CudnnGraph.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pdc::runtime::cuda {

/// What may happen before a plan's choice is final. `plain`: it runs. `replaced`: one that fails
/// gives way to the next. `measured`: that, and it may run more often than once: no result lies
/// where an operand does.
enum class FirstRun { plain, replaced, measured };
constexpr FirstRun firstRunWhere(bool resultsLieApart) {
  return resultsLieApart ? FirstRun::measured : FirstRun::replaced;
}

/// Of cuDNN's engine configurations for a graph that keep the rules, fit into the workspace and can
/// be made, the first, or the fastest where they are measured: ready to run. One that fails when it
/// runs first gives way to the next where rules and call allow it; the choice is final once one has
/// run, and where they are measured not only been recorded.
class LibraryPlan {
public:
  /// `unit` is for errors and outlives the plan. `problem` says what the graph computes, for
  /// `tuning`; null: nothing is measured.
  LibraryPlan(const Descriptor &graph, const PlanTarget &target, const KernelRules &rules,
              const char *unit, Tuning *tuning = nullptr, const std::string &problem = "");

  /// False: there is none.
  explicit operator bool() const { return taken < ranked.size(); }
  /// How many configurations keep the rules, best first.
  size_t candidates() const { return found; }
  int64_t workspaceBytes() const { return *this ? ranked[taken].engine->workspaceBytes : 0; }
  /// How many there are, and what the library says of the last one that it could not make.
  std::string describeCandidates() const;

  /// Puts it into the run's queue; `pointers` belong to the tensors `ids` of the graph, those of
  /// numbers given by value to the host's memory. The library's workspace begins at `scratch`.
  void operator()(const Run &run, std::span<const int64_t> ids,
                  std::span<const void *const> pointers, const void *scratch, FirstRun first);
  bool isChosen() const { return isFinal; }

private:
  /// The pointers of a call as the library wants them; as many as units, slots and versions.
  struct Pack {
    std::vector<const void *> pointers; ///< the last one is the workspace's
    Descriptor descriptor;
  };
  struct Engine {
    Descriptor plan;
    int64_t workspaceBytes;
  };
  struct Candidate {
    Descriptor configuration;
    bool isTried = false;
    std::optional<Engine> engine;
  };
  static std::vector<Candidate> candidatesOf(std::vector<Descriptor> configurations);
  std::string keyOf(const std::string &problem) const;
  std::optional<Engine> make(const Descriptor &configuration);
  const Engine *engineAt(size_t way);
  size_t firstFrom(size_t way);
  size_t measurable() const { return std::min(ranked.size(), Tuning::kMostWays); }
  void makeMeasurable();
  const Engine *madeAt(size_t way) const {
    return ranked[way].engine ? &*ranked[way].engine : nullptr;
  }
  cudnnStatus_t execute(const Engine &engine, const Pack &pack) const;
  bool tune(Tuning &by, const Pack &pack);
  void runTaken(const Run &run, const Pack &pack, bool mayReplace);
  bool replace(const Pack &pack);
  void settle();
  Pack &packFor(std::span<const int64_t> ids, std::vector<const void *> pointers);

  const PlanTarget target;
  const KernelRules rules;
  const char *const unit;
  std::vector<Candidate> ranked; ///< once the choice is final, those that are made
  bool isFinal = false;
  const size_t found;  ///< how many there were
  size_t taken = 0;    ///< of the ranked; as many as they are: none
  std::string refusal; ///< of the last one that could not be made
  Tuning *tuning;      ///< null once it has measured, or none
  const std::string problem;
  std::vector<Pack> packs;
};

/// With a tuning one for all of a problem, whose kernels are then made and measured once; its
/// errors name the first.
template <class Plan, class Make>
std::shared_ptr<Plan> sharedPlan(Tuning *tuning, const std::string &problem, Make make) {
  if (!tuning)
    return make();
  std::shared_ptr<void> &shared = tuning->shared(problem);
  if (!shared)
    shared = make();
  return std::static_pointer_cast<Plan>(shared);
}

} // namespace pdc::runtime::cuda
