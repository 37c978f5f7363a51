#include "testsuite/kernels/Allocations.h"

#include <dnnl.h>

#include <atomic>
#include <cstdlib>
#include <dlfcn.h>
#include <new>

static std::atomic<int64_t> ours = 0, library = 0;
static std::atomic<int> executing = 0; ///< calls of the library that have not returned

static void *counted(void *memory) {
  ++(executing > 0 ? library : ours);
  if (!memory)
    throw std::bad_alloc();
  return memory;
}

void *operator new(size_t bytes) { return counted(std::malloc(bytes ? bytes : 1)); }
void *operator new(size_t bytes, std::align_val_t alignment) {
  const auto line = static_cast<size_t>(alignment);
  return counted(std::aligned_alloc(line, (bytes + line - 1) / line * line + (bytes ? 0 : line)));
}
void *operator new(size_t bytes, const std::nothrow_t &) noexcept {
  ++(executing > 0 ? library : ours);
  return std::malloc(bytes ? bytes : 1);
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, const std::nothrow_t &) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void *memory, size_t, std::align_val_t) noexcept { std::free(memory); }

/// Stands before the library's own function of this name, which it calls.
extern "C" dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive,
                                                dnnl_stream_t stream, int count,
                                                const dnnl_exec_arg_t *arguments) {
  static const auto execute = reinterpret_cast<decltype(&dnnl_primitive_execute)>(
      dlsym(RTLD_NEXT, "dnnl_primitive_execute"));
  ++executing;
  const dnnl_status_t status = execute(primitive, stream, count, arguments);
  --executing;
  return status;
}

pdc::Allocations pdc::allocationsSoFar() { return {ours, library}; }
