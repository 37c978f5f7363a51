#include "runtime/cuda/LibraryPlan.h"

#include "runtime/Error.h"

#include <algorithm>
#include <sstream>
#include <utility>

namespace pdc::runtime::cuda {

std::vector<LibraryPlan::Candidate>
LibraryPlan::candidatesOf(std::vector<Descriptor> configurations) {
  std::vector<Candidate> found;
  for (Descriptor &configuration : configurations)
    found.push_back({std::move(configuration), false, {}});
  return found;
}

LibraryPlan::LibraryPlan(const Descriptor &graph, const PlanTarget &target,
                         const KernelRules &rules, const char *unit, Tuning *tuning,
                         const std::string &problem)
    : target(target), rules(rules), unit(unit),
      ranked(candidatesOf(rankedConfigurations(graph, target, rules, unit))), found(ranked.size()),
      tuning(tuning), problem(keyOf(problem)) {
  if (tuning)
    makeMeasurable();
  taken = firstFrom(taken);
}

/// Before there are messages, since making one loads kernels: all that are going to be measured, or
/// the one that was chosen before.
void LibraryPlan::makeMeasurable() {
  const size_t known = tuning->known(problem).value_or(measurable());
  if (known < measurable() && engineAt(known)) {
    taken = known;
    return;
  }
  for (size_t way = 0; way < measurable(); ++way)
    engineAt(way);
}

/// Nothing where the library cannot, or wants more workspace than there is.
std::optional<LibraryPlan::Engine> LibraryPlan::make(const Descriptor &configuration) {
  Descriptor made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, unit);
  if (target.handle)
    made.setRaw(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
  if (target.properties)
    made.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
  made.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  if (const cudnnStatus_t state = cudnnBackendFinalize(made.raw); state != CUDNN_STATUS_SUCCESS) {
    refusal = reasonOf(state);
    return {};
  }
  const int64_t bytes = made.integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  if (bytes > static_cast<int64_t>(rules.workspace))
    return {};
  return Engine{std::move(made), bytes};
}

/// Null where there is none. Each is made once.
const LibraryPlan::Engine *LibraryPlan::engineAt(size_t way) {
  Candidate &candidate = ranked[way];
  if (!std::exchange(candidate.isTried, true))
    if (std::optional<Engine> made = make(candidate.configuration))
      candidate.engine.emplace(std::move(*made));
  return candidate.engine ? &*candidate.engine : nullptr;
}

/// The number of candidates: there is none left.
size_t LibraryPlan::firstFrom(size_t way) {
  while (way < ranked.size() && !engineAt(way))
    ++way;
  return way;
}

/// All that the ranking depends on but the device. It does not depend on the workspace: a kernel
/// that does not fit is left out.
std::string LibraryPlan::keyOf(const std::string &problem) const {
  std::ostringstream key;
  key << "cuDNN " << cudnnGetVersion() << ", " << problem << ", "
      << (rules.tensorCores ? "" : "no ") << "tensor cores, " << (rules.transforms ? "" : "no ")
      << "transforms, " << found << " kernels";
  return key.str();
}

std::string LibraryPlan::describeCandidates() const {
  const std::string count = std::to_string(found) + " kernels";
  return refusal.empty() ? count : count + ", one of which cannot be made: " + refusal;
}

/// A pack is finalised once, so each combination of pointers gets its own: none is made any more
/// once every slot has been seen.
LibraryPlan::Pack &LibraryPlan::packFor(std::span<const int64_t> ids,
                                        std::vector<const void *> pointers) {
  for (Pack &pack : packs)
    if (pack.pointers == pointers)
      return pack;
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, unit);
  pack.setRaw(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, int64_t(ids.size()),
              ids.data());
  pack.setRaw(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, int64_t(ids.size()),
              pointers.data());
  pack.setRaw(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &pointers.back());
  pack.finish();
  return packs.emplace_back(Pack{std::move(pointers), std::move(pack)});
}

cudnnStatus_t LibraryPlan::execute(const Engine &engine, const Pack &pack) const {
  return cudnnBackendExecute(networkHandle(), engine.plan.raw, pack.descriptor.raw);
}

/// What the one that failed has put into the queue, the next one writes over.
bool LibraryPlan::replace(const Pack &pack) {
  for (size_t way = firstFrom(taken + 1); way < ranked.size(); way = firstFrom(way + 1))
    if (execute(*ranked[way].engine, pack) == CUDNN_STATUS_SUCCESS) {
      taken = way;
      return true;
    }
  return false;
}

/// False: none runs. Of those that were made before the first message.
bool LibraryPlan::tune(Tuning &by, const Pack &pack) {
  const std::optional<size_t> fastest = by.choose(problem, measurable(), [&](size_t way) {
    const Engine *engine = madeAt(way);
    return engine && execute(*engine, pack) == CUDNN_STATUS_SUCCESS;
  });
  taken = fastest.value_or(taken);
  return fastest.has_value();
}

/// What fails while it is recorded as a graph runs kernel by kernel, and with the same bits. After
/// an error of the device itself all others fail, too, and the first one is told.
void LibraryPlan::runTaken(const Run &run, const Pack &pack, bool mayReplace) {
  const cudnnStatus_t status = execute(*ranked[taken].engine, pack);
  if (status == CUDNN_STATUS_SUCCESS)
    return;
  const std::string why = reasonOf(status);
  if (isFinal || !mayReplace || !rules.replaced || isRecorded(run) || !replace(pack))
    throw Error("unit '", unit, "': cudnnBackendExecute failed: ", why);
  tellReplaced("cuDNN", unit, why);
}

void LibraryPlan::operator()(const Run &run, std::span<const int64_t> ids,
                             std::span<const void *const> pointers, const void *scratch,
                             FirstRun first) {
  std::vector<const void *> all(pointers.begin(), pointers.end());
  all.push_back(scratch);
  const Pack &pack = packFor(ids, std::move(all));
  require(cudnnSetStream(networkHandle(), streamOf(run)), "cudnnSetStream", unit);
  Tuning *by = tuning && !isRecorded(run) ? std::exchange(tuning, nullptr) : nullptr;
  if (!by || first != FirstRun::measured || !tune(*by, pack))
    runTaken(run, pack, first != FirstRun::plain);
  if (!tuning && !isFinal)
    settle();
}

/// A later failure is no reason for other bits. Plans that were made stay as long as this one:
/// their kernels may be in the queue, and to unload some may wait for messages.
void LibraryPlan::settle() {
  std::vector<Candidate> kept;
  kept.push_back(std::move(ranked[taken]));
  for (size_t way = 0; way < ranked.size(); ++way)
    if (way != taken && ranked[way].engine)
      kept.push_back(std::move(ranked[way]));
  ranked = std::move(kept);
  taken = 0;
  isFinal = true;
}

} // namespace pdc::runtime::cuda
