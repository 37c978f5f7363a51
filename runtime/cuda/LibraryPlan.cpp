#include "runtime/cuda/LibraryPlan.h"

#include "runtime/Error.h"

#include <cstdio>

namespace pdc::runtime::cuda {

LibraryPlan::LibraryPlan(const Descriptor &graph, const PlanTarget &target,
                         const KernelRules &rules, const char *unit)
    : target(target), rules(rules), unit(unit),
      ranked(rankedConfigurations(graph, target, rules, unit)), found(ranked.size()),
      engine(makeNext()) {}

/// Nothing: there is none left.
std::optional<LibraryPlan::Engine> LibraryPlan::makeNext() {
  while (next < ranked.size()) {
    const Descriptor &configuration = ranked[next++];
    Descriptor made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, unit);
    if (target.handle)
      made.setRaw(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
    if (target.properties)
      made.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
    made.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    if (const cudnnStatus_t state = cudnnBackendFinalize(made.raw); state != CUDNN_STATUS_SUCCESS) {
      refusal = reasonOf(state);
      continue;
    }
    const int64_t bytes = made.integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
    if (bytes <= static_cast<int64_t>(rules.workspace))
      return Engine{std::move(made), bytes};
  }
  return {};
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

/// What fails while it is recorded as a graph runs kernel by kernel, and with the same bits.
bool LibraryPlan::mayReplace(const Run &run) const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  require(cudaStreamIsCapturing(streamOf(run), &status), "cudaStreamIsCapturing");
  return rules.replaced && status == cudaStreamCaptureStatusNone;
}

/// What the one that failed has put into the queue, the next one writes over.
bool LibraryPlan::replace(const Pack &pack) {
  while (std::optional<Engine> other = makeNext())
    if (execute(*other, pack) == CUDNN_STATUS_SUCCESS) {
      engine.emplace(std::move(*other));
      return true;
    }
  return false;
}

/// After an error of the device itself all others fail, too, and the first one is told.
void LibraryPlan::operator()(const Run &run, std::span<const int64_t> ids,
                             std::span<const void *const> pointers, const void *scratch) {
  std::vector<const void *> all(pointers.begin(), pointers.end());
  all.push_back(scratch);
  const Pack &pack = packFor(ids, std::move(all));
  require(cudnnSetStream(networkHandle(), streamOf(run)), "cudnnSetStream", unit);
  const cudnnStatus_t status = execute(*engine, pack);
  if (status != CUDNN_STATUS_SUCCESS) {
    const std::string why = reasonOf(status);
    if (!mayReplace(run) || !replace(pack))
      throw Error("unit '", unit, "': cudnnBackendExecute failed: ", why);
    std::fprintf(
        stderr,
        "warning: unit '%s': a kernel of cuDNN's does not run (%s); another takes its place\n",
        unit, why.c_str());
  }
  ranked.clear();
}

} // namespace pdc::runtime::cuda
