#include "runtime/cuda/LibraryPlan.h"

namespace pdc::runtime::cuda {

LibraryPlan::LibraryPlan(const Descriptor &graph, const PlanTarget &target,
                         const KernelRules &rules, const char *unit)
    : unit(unit) {
  const std::vector<Descriptor> ranked = rankedConfigurations(graph, target, rules, unit);
  count = ranked.size();
  for (const Descriptor &configuration : ranked) {
    Descriptor made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, unit);
    if (target.handle)
      made.setRaw(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
    if (target.properties)
      made.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
    made.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    if (!made.canFinish())
      continue;
    workspace = made.integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
    if (workspace > static_cast<int64_t>(rules.workspace))
      continue;
    plan.emplace(std::move(made));
    return;
  }
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

void LibraryPlan::operator()(const Run &run, std::span<const int64_t> ids,
                             std::span<const void *const> pointers) {
  std::vector<const void *> all(pointers.begin(), pointers.end());
  all.push_back(alignedWorkspace(run));
  const Pack &pack = packFor(ids, std::move(all));
  require(cudnnSetStream(networkHandle(), streamOf(run)), "cudnnSetStream", unit);
  require(cudnnBackendExecute(networkHandle(), plan->raw, pack.descriptor.raw),
          "cudnnBackendExecute", unit);
}

} // namespace pdc::runtime::cuda
