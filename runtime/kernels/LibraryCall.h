#pragma once

#include <cstdint>

namespace pdc::runtime {

/// A tensor's layout in oneDNN's words; defined in Library.h.
struct LibraryLayout;

/// One primitive of oneDNN with its memory objects, made by makeLibraryCall (Library.h). Generated
/// sources hold such calls in their kernels without reading oneDNN's headers.
class LibraryCall {
public:
  struct State;

  LibraryCall() = default;
  explicit LibraryCall(State &&state);
  LibraryCall(LibraryCall &&) noexcept;
  LibraryCall &operator=(LibraryCall &&) noexcept;
  ~LibraryCall();

  void addMemory(int argument, const LibraryLayout &layout);
  void setData(int argument, const void *data);
  /// Runs on scratch memory at `scratch`.
  void execute(void *scratch);
  /// Bytes of scratch memory.
  int64_t scratch() const;
  explicit operator bool() const { return state != nullptr; }

private:
  State *state = nullptr; ///< owned; a unique_ptr would make every stage read <memory>
};

} // namespace pdc::runtime
