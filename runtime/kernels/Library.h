#pragma once

#include "runtime/Error.h"
#include "runtime/Program.h"
#include "runtime/kernels/LibraryCall.h"

#include <dnnl.hpp>

#include <string>
#include <string_view>
#include <vector>

/// oneDNN behind one door. Everything is made once, when a kernel is constructed; a call only
/// changes data handles.
namespace pdc::runtime {

/// The one CPU engine of the process.
const dnnl::engine &libraryEngine();

/// Attributes for scratch memory that the caller gives.
dnnl::primitive_attr libraryAttributes();

/// oneDNN freezes the thread count when a description is made; this sets it for a scope.
class ThreadScope {
public:
  explicit ThreadScope(const Device &device);
  ~ThreadScope();
  ThreadScope(const ThreadScope &) = delete;

private:
  int before;
};

/// Which of the library's slow implementations a caller accepts: none, im2col and plain matrix
/// products, or even the reference, where the compiler knows of nothing better.
enum class Fallback { none, gemm, reference };

/// Which of them an implementation is, by the name that the library gives it.
Fallback fallbackOf(const std::string &implementation);
/// "none", "gemm" or "reference", as kernel fields have it. Throws Error for other names.
Fallback fallbackNamed(std::string_view name);

/// Throws Error naming the unit unless it is to multiply in fp32.
void requireSinglePrecision(const std::string &unit, std::string_view compute);

/// Throws Error naming the unit when a kernel needs more workspace than the plan has.
void requireWorkspace(const std::string &unit, int64_t needed, const Device &device);

struct LibraryLayout {
  LibraryLayout(const dnnl::memory::desc &given) : description(given) {}
  dnnl::memory::desc description;
};

struct LibraryCall::State {
  dnnl::primitive primitive;
  int64_t scratchBytes = 0;
  dnnl::stream stream{libraryEngine()};
  std::vector<dnnl_exec_arg_t> arguments = {};
  std::vector<dnnl::memory> memories = {}; ///< theirs, in the same order
};

/// Throws Error when `implementation` is a slower one than `fallback` accepts.
void requireImplementation(const std::string &unit, const std::string &implementation,
                           Fallback fallback);

/// `make` returns a primitive description. Throws Error naming the unit when there is none, or
/// when it is a slower one than `fallback` accepts, which the compiler would never have chosen.
template <class Primitive, class Make>
LibraryCall makeLibraryCall(const std::string &unit, const Device &device, Fallback fallback,
                            Make make) {
  ThreadScope threads(device);
  try {
    auto description = make();
    requireImplementation(unit, description.impl_info_str(), fallback);
    const dnnl::memory::desc scratch = description.scratchpad_desc();
    requireWorkspace(unit, static_cast<int64_t>(scratch.get_size()), device);
    LibraryCall call(
        LibraryCall::State{Primitive(description), static_cast<int64_t>(scratch.get_size())});
    call.addMemory(DNNL_ARG_SCRATCHPAD, scratch);
    return call;
  } catch (const dnnl::error &error) {
    throw Error(unit, ": oneDNN refuses to make the kernel (", error.what(),
                "); this machine may lack the instructions the sources were generated for; "
                "regenerate them on it with pdc");
  }
}

/// The next multiple of a cache line.
inline int64_t alignedBytes(int64_t bytes) { return (bytes + 63) / 64 * 64; }

} // namespace pdc::runtime
