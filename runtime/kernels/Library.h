#pragma once

#include "runtime/Error.h"
#include "runtime/Program.h"

#include <dnnl.hpp>

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
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

/// Throws Error naming the unit when a kernel needs more workspace than the plan has.
void requireWorkspace(const std::string &unit, int64_t needed, const Device &device);

/// One primitive with its memory objects.
class LibraryCall {
public:
  LibraryCall() = default;

  /// `make` returns a primitive description. Throws Error naming the unit when there is none, or
  /// when it is a slower one than `fallback` accepts, which the compiler would never have chosen.
  template <class Primitive, class Make>
  static LibraryCall create(const std::string &unit, const Device &device, Fallback fallback,
                            Make make) {
    ThreadScope threads(device);
    try {
      auto description = make();
      checkImplementation(unit, description.impl_info_str(), fallback);
      LibraryCall call;
      call.primitive = Primitive(description);
      call.scratchBytes = static_cast<int64_t>(description.scratchpad_desc().get_size());
      requireWorkspace(unit, call.scratchBytes, device);
      call.addMemory(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc());
      return call;
    } catch (const dnnl::error &error) {
      throw Error(unit, ": oneDNN refuses to make the kernel (", error.what(),
                  "); this machine may lack the instructions the sources were generated for; "
                  "regenerate them on it with pdc");
    }
  }

  void addMemory(int argument, const dnnl::memory::desc &description);
  void setData(int argument, const void *data);
  /// Runs on scratch memory at `scratch`.
  void execute(void *scratch);
  int64_t scratch() const { return scratchBytes; }
  explicit operator bool() const { return static_cast<bool>(primitive); }

private:
  static void checkImplementation(const std::string &unit, const std::string &name,
                                  Fallback fallback);

  dnnl::primitive primitive;
  dnnl::stream stream{libraryEngine()};
  std::unordered_map<int, dnnl::memory> arguments;
  int64_t scratchBytes = 0;
};

/// The next multiple of a cache line.
inline int64_t alignedBytes(int64_t bytes) { return (bytes + 63) / 64 * 64; }

} // namespace pdc::runtime
