#pragma once

#include "compiler/Error.h"
#include "compiler/cost/Device.h"
#include "compiler/operators/Tensor.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// What a device can run: which nodes become one kernel, which kernel runs a unit, in which layouts
/// and with how much workspace. Plain C++ without IR types; the pass `choose-kernels` applies it.
namespace pdc {

enum class DeviceKind : uint8_t { cpu, cuda };

/// `cpu` or `cuda`, as in --device; throws Error for another name.
DeviceKind deviceKind(std::string_view name);

/// The target of kernel choices. Part of the plan: the runtime refuses a machine that lacks `isa`.
struct DeviceOptions {
  /// Only kernels whose bits do not depend on the number of stages (no Winograd).
  bool exact = false;
  /// CPU threads per rank; library kernels are created for exactly this number.
  int threads = 1;
  /// Lanes of a vector register, the inner block of layouts: 16 (avx512) or 8 (avx2).
  int vectorWidth = 16;
  DeviceKind kind = DeviceKind::cpu;
  Precision precision = Precision::fp32;

  std::string_view isa() const { return vectorWidth == 16 ? "avx512" : "avx2"; }
};

/// The options for the machine this runs on; `isa` ("avx512", "avx2" or "" for the best there is)
/// overrides. Throws Error for an unknown name or a machine without AVX2 when nothing is given.
DeviceOptions detectDevice(std::string_view isa = "");

/// A value inside a unit.
struct UnitValue {
  enum class Kind : uint8_t {
    absent,  ///< an optional operand that is left out
    operand, ///< operand `index` of the unit
    node,    ///< result `result` of node `index` of the unit
  };
  Kind kind = Kind::absent;
  int index = 0;
  int result = 0;

  static UnitValue operand(int index) { return {Kind::operand, index, 0}; }
  static UnitValue node(int index, int result = 0) { return {Kind::node, index, result}; }
  bool operator==(const UnitValue &) const = default;
};

/// One operator of a unit. Integer constants that rules need (shapes, pads, axes) are nodes
/// "Constant" with attribute `value` inside the unit that reads them, never operands of it.
struct UnitNode {
  std::string_view op;
  std::string_view name;
  const Attributes *attributes = nullptr;
  std::vector<UnitValue> inputs;
  std::vector<TensorType> outputs;
};

/// A unit as plain data: nodes in order of execution. A hero yields all of its results in their
/// order, read or not (a result that an epilogue replaces stands in the place of the one it
/// consumed); an elementwise chain yields what is read.
struct UnitView {
  std::string_view name;
  /// No type: an absent optional operand.
  std::vector<std::optional<TensorType>> operands;
  /// In which layout each operand arrives ("" is row-major); may be empty: all row-major.
  std::vector<std::string> operandLayouts;
  std::vector<UnitNode> nodes;
  std::vector<UnitValue> results;
  /// Whether the last result goes into a sum over microbatches, which a kernel may add to.
  bool isSummed = true;
  /// Whether a memory takes its result, which then lies in a place of its own.
  bool isWritten = false;

  /// The type of a value; null for an absent one.
  const TensorType *type(UnitValue value) const;
  std::string_view layout(size_t operand) const;
};

/// How a unit runs.
///
/// A layout is "" (row-major), a oneDNN format tag such as "aBcd16b", or a tag behind an element
/// type, such as "u8:aBcd16b": stored in that element type whatever the tensor's type says (the
/// positions that max pooling remembers). "u8:" alone is row-major u8.
struct KernelChoice {
  /// Class of runtime/kernels; empty for a view (the result is operand 0 under another shape).
  std::string kernel;
  /// The members of the kernel's fields struct, by name.
  Attributes fields;
  /// For each input pointer of the kernel the unit's operand, or -1 for nullptr. The pass rebuilds
  /// the unit with its operands in this order, so that pointers are operands, then results.
  std::vector<int> arguments;
  /// One per argument; "" for -1.
  std::vector<std::string> inputLayouts;
  /// One per result of the unit.
  std::vector<std::string> outputLayouts;
  /// Upper bound of the library's scratch memory at run time.
  int64_t workspaceBytes = 0;
  /// The kernel takes a trailing `bool add`: its results are added to instead of overwritten.
  bool accumulates = false;
  bool addsToLast = false; ///< of its results the last one, and makes the others
  /// It needs, on CPUs, oneDNN's products of plain matrices beside what each of its kind does.
  bool multipliesPlain = false;
  /// What the user should know, as that the kernel is a slow one; may be empty.
  std::string remark;
  /// (argument, result) pairs that may share memory: the kernel reads each element of the argument
  /// before or when it writes the same element of the result.
  std::vector<std::pair<int, int>> inPlace;
};

/// Chooses kernel, layouts and workspace of a unit; throws Error naming unit, operator and shapes
/// when the device has no kernel for it.
KernelChoice chooseKernel(const UnitView &unit, const DeviceOptions &options);

/// Whether `node`, which reads result 0 of the last node of `unit` and is its only reader, may
/// become its last node. Elementwise chains of equal shapes, and the epilogues that hero kernels
/// compute.
bool canAppend(const UnitView &unit, const UnitNode &node, const DeviceOptions &options);
/// Results that a generated loop can write.
inline constexpr size_t mostLoopResults = 4;
/// Whether the nodes are elementwise, of one shape and without a kernel of their own: one loop.
bool isLoop(const UnitView &unit, const DeviceOptions &options);
/// Whether the nodes are a loop that reads parts of its operands, or writes its results as parts of
/// larger ones, where they lie: Splits of operands, elementwise nodes of one shape, Concats of what
/// these make.
bool isLoopOverParts(const UnitView &unit, const DeviceOptions &options);
/// The kernel of a loop over tensors that a kernel has been chosen for.
KernelChoice chooseLoop(const UnitView &unit);

/// Whether `node`, the only one of `unit`, which `hero` reads at input `input`, may run inside the
/// hero's kernel before it (prologue). `hero` is the first node of its unit. `isKept`: others read
/// what the node makes, too, so that the kernel has to write it.
bool canPrepend(const UnitView &unit, const UnitNode &node, const UnitNode &hero, int input,
                bool isKept, const DeviceOptions &options);

/// How many gradients that arrive at a normalisation a GPU's kernel for its gradient adds up.
size_t mostArrivingTerms();

/// An operator whose kernel for GPUs takes tensors of 16 bits and makes what they lead to in 16
/// bits.
struct NarrowKernel {
  std::string_view op;
  uint32_t operands;    ///< bit i: operand i may be of 16 bits
  bool narrows = false; ///< these operands are brought to 16 bits whatever they are

  /// The last bit stands for all operands behind it, too.
  bool takes(size_t operand) const { return operands >> (operand < 31 ? operand : 31) & 1; }
};

/// Null: the operator's kernel computes on f32.
const NarrowKernel *findNarrowKernel(std::string_view op);
/// Whether GPUs run the operator as a loop, which takes any mixture of f32 and 16 bits, or as a
/// view.
bool takesAnyWidth(std::string_view op);

/// Whether the operator's kernel for GPUs brings 16 bits to f32 as it reads them.
bool widensItself(std::string_view op);

/// The type that a precision stores what passes between kernels in.
ElementType storedElement(Precision precision);

/// Bytes of a tensor in a layout, padding included.
int64_t bytesInLayout(const TensorType &type, std::string_view layout);
/// The same in elements.
int64_t elementsInLayout(const TensorType &type, std::string_view layout);
/// Whether the layout has the elements in row-major order without padding (as "aBcd16b" with 1x1
/// images and whole channel blocks), so that views and row-major readers need no copy.
bool isRowMajor(const TensorType &type, std::string_view layout);
/// A dimension of memory: one further there is `stride` elements further in memory and `step`
/// further along a tensor's dimension.
struct StoredDimension {
  size_t dimension;
  int64_t size, step, stride = 1;
};
/// The slowest first; of a layout that neither pads nor stores other elements.
std::vector<StoredDimension> storedDimensions(const TensorType &type, std::string_view layout);

} // namespace pdc
