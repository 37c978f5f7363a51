#include "runtime/kernels/Library.h"

#include <omp.h>

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

void requireWorkspace(const std::string &unit, int64_t needed, const Device &device) {
  if (needed > device.workspaceBytes)
    throw Error(unit, ": oneDNN needs ", needed, " bytes of workspace, the plan has ",
                device.workspaceBytes, "; regenerate the sources on this machine with pdc");
}

void LibraryCall::checkImplementation(const std::string &unit, const std::string &name,
                                      Fallback fallback) {
  if (fallbackOf(name) > fallback)
    throw Error(unit, ": oneDNN would run the slow implementation '", name,
                "' instead of the one the compiler chose; this machine may lack the instructions "
                "the sources were generated for; regenerate them on it with pdc");
}

void LibraryCall::addMemory(int argument, const dnnl::memory::desc &description) {
  arguments.insert_or_assign(argument, dnnl::memory(description, libraryEngine(), nullptr));
}

void LibraryCall::setData(int argument, const void *data) {
  arguments.at(argument).set_data_handle(const_cast<void *>(data));
}

void LibraryCall::execute(void *scratch) {
  setData(DNNL_ARG_SCRATCHPAD, scratch);
  primitive.execute(stream, arguments);
}

} // namespace pdc::runtime
