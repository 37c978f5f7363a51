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

void LibraryCall::checkImplementation(const std::string &unit, const std::string &name,
                                      Fallback fallback) {
  bool isReference = name.find("ref") != std::string::npos;
  bool isGemm = name.find("gemm") != std::string::npos && name.find("brgemm") == std::string::npos;
  if ((isReference && fallback != Fallback::reference) || (isGemm && fallback == Fallback::none))
    throw Error(unit, ": oneDNN would run the slow implementation '", name,
                "' instead of the one the compiler chose; this machine may lack the instructions "
                "the sources were generated for; regenerate them on it with pdc");
}

void LibraryCall::refuseWorkspace(const std::string &unit, int64_t needed, int64_t given) {
  throw Error(unit, ": oneDNN needs ", needed, " bytes of workspace, the plan has ", given,
              "; regenerate the sources on this machine with pdc");
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
