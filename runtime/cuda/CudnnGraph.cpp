#include "runtime/cuda/CudnnGraph.h"

namespace pdc::runtime::cuda {

Descriptor::Descriptor(cudnnBackendDescriptorType_t type, const char *unit) : unit(unit) {
  require(cudnnBackendCreateDescriptor(type, &raw), "cudnnBackendCreateDescriptor", unit);
}

Descriptor::~Descriptor() {
  if (raw)
    cudnnBackendDestroyDescriptor(raw);
}

void Descriptor::setRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                        int64_t count, const void *values) {
  require(cudnnBackendSetAttribute(raw, name, type, count, values), "cudnnBackendSetAttribute",
          unit);
}

void Descriptor::finish() { require(cudnnBackendFinalize(raw), "cudnnBackendFinalize", unit); }

int64_t Descriptor::integer(cudnnBackendAttributeName_t name) const {
  int64_t value = 0, count = 0;
  require(cudnnBackendGetAttribute(raw, name, CUDNN_TYPE_INT64, 1, &count, &value),
          "cudnnBackendGetAttribute", unit);
  return value;
}

Descriptor graphOf(const std::vector<Descriptor> &operations, const PlanTarget &target,
                   const char *unit) {
  std::vector<cudnnBackendDescriptor_t> all;
  for (const Descriptor &operation : operations)
    all.push_back(operation.raw);
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, unit);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, all);
  if (target.handle)
    graph.setRaw(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
  graph.finish();
  return graph;
}

static bool keeps(const Descriptor &configuration, const KernelRules &rules, const char *unit) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR, unit);
  int64_t count = 0;
  require(cudnnBackendGetAttribute(configuration.raw, CUDNN_ATTR_ENGINECFG_ENGINE,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine.raw),
          "cudnnBackendGetAttribute", unit);
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  require(cudnnBackendGetAttribute(engine.raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                   CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                   &count, notes),
          "cudnnBackendGetAttribute", unit);
  for (int64_t i = 0; i < count; ++i)
    switch (notes[i]) {
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS: // to 16 bits
      return false;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      if (!rules.tensorCores)
        return false;
      break;
    case CUDNN_NUMERICAL_NOTE_FFT:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
      if (!rules.transforms)
        return false;
      break;
    default:
      break;
    }
  return true;
}

static std::vector<Descriptor> configurations(const Descriptor &graph, const PlanTarget &target,
                                              cudnnBackendHeurMode_t mode, const char *unit) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, unit);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.setRaw(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (target.properties)
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties);
  if (!heuristics.canFinish())
    return {};
  int64_t count = 0;
  require(cudnnBackendGetAttribute(heuristics.raw, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
          "cudnnBackendGetAttribute", unit);
  std::vector<Descriptor> found;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < count; ++i)
    raw.push_back(found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, unit).raw);
  require(cudnnBackendGetAttribute(heuristics.raw, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()),
          "cudnnBackendGetAttribute", unit);
  while (int64_t(found.size()) > count)
    found.pop_back();
  return found;
}

std::vector<Descriptor> rankedConfigurations(const Descriptor &graph, const PlanTarget &target,
                                             const KernelRules &rules, const char *unit) {
  std::vector<Descriptor> kept;
  for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (Descriptor &configuration : configurations(graph, target, mode, unit))
      if (keeps(configuration, rules, unit))
        kept.push_back(std::move(configuration));
  return kept;
}

} // namespace pdc::runtime::cuda
