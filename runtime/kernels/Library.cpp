#include "runtime/kernels/Library.h"

#include <omp.h>

#include <algorithm>
#include <utility>

namespace pdc::runtime {

const dnnl::engine &libraryEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::primitive_attr libraryAttributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

ThreadScope::ThreadScope(const Device &device) : before(omp_get_max_threads()) {
  omp_set_num_threads(device.threads);
}
ThreadScope::~ThreadScope() { omp_set_num_threads(before); }

Fallback fallbackOf(const std::string &implementation) {
  auto has = [&](const char *part) { return implementation.find(part) != std::string::npos; };
  if (has("ref"))
    return Fallback::reference;
  return has("gemm") && !has("brgemm") ? Fallback::gemm : Fallback::none;
}

Fallback fallbackNamed(std::string_view name) {
  if (name == "none")
    return Fallback::none;
  if (name == "gemm")
    return Fallback::gemm;
  if (name == "reference")
    return Fallback::reference;
  throw Error("fallback '", name,
              "' is unknown, expected none, gemm or reference; regenerate the sources with pdc");
}

void requireSinglePrecision(const std::string &unit, std::string_view compute) {
  if (compute != "fp32")
    throw Error(unit, ": multiplies in ", compute,
                ", which the kernels for CPUs do not; run pdc again with --precision fp32");
}

void requireWorkspace(const std::string &unit, int64_t needed, const Device &device) {
  if (needed > device.workspaceBytes)
    throw Error(unit, ": oneDNN needs ", needed, " bytes of workspace, the plan has ",
                device.workspaceBytes, "; regenerate the sources on this machine with pdc");
}

void requireImplementation(const std::string &unit, const std::string &implementation,
                           Fallback fallback) {
  if (fallbackOf(implementation) > fallback)
    throw Error(unit, ": oneDNN would run the slow implementation '", implementation,
                "' instead of the one the compiler chose; this machine may lack the instructions "
                "the sources were generated for; regenerate them on it with pdc");
}

LibraryCall::LibraryCall(State &&given) : state(new State(std::move(given))) {}
LibraryCall::LibraryCall(LibraryCall &&other) noexcept
    : state(std::exchange(other.state, nullptr)) {}
LibraryCall &LibraryCall::operator=(LibraryCall &&other) noexcept {
  std::swap(state, other.state);
  return *this;
}
LibraryCall::~LibraryCall() { delete state; }

void LibraryCall::addMemory(int argument, const LibraryLayout &layout) {
  state->memories.emplace_back(layout.description, libraryEngine(), nullptr);
  state->arguments.push_back({argument, state->memories.back().get()});
}

void LibraryCall::setData(int argument, const void *data) {
  auto found = std::ranges::find(state->arguments, argument, &dnnl_exec_arg_t::arg);
  if (found == state->arguments.end())
    throw Error("oneDNN: a kernel sets argument ", argument, ", for which it made no memory");
  state->memories[static_cast<size_t>(found - state->arguments.begin())].set_data_handle(
      const_cast<void *>(data));
}

/// Allocates nothing itself, unlike dnnl::primitive::execute, which builds the list of arguments
/// anew. Inside, oneDNN 2.6 does 5 to 8 times (products, convolutions, reorders on two threads).
void LibraryCall::execute(void *scratch) {
  setData(DNNL_ARG_SCRATCHPAD, scratch);
  dnnl::error::wrap_c_api(dnnl_primitive_execute(state->primitive.get(), state->stream.get(),
                                                 static_cast<int>(state->arguments.size()),
                                                 state->arguments.data()),
                          "could not execute a primitive");
}

int64_t LibraryCall::scratch() const { return state ? state->scratchBytes : 0; }

} // namespace pdc::runtime
