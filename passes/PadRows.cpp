#include "passes/Passes.h"
#include "passes/Refusal.h"
#include "passes/Values.h"

#include "compiler/devices/Device.h"
#include "compiler/ir/Conversion.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

namespace pdc {
#define GEN_PASS_DEF_PADROWS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

/// Where the library's fast kernels want every row to begin.
constexpr int64_t kRowBytes = 16;
/// What padding may add: a part of the tensor of one in so many.
constexpr int64_t kLeastGain = 8;

/// Row-major, but that each row has room for whole blocks of `block` elements: "abC8c".
std::string paddedRows(int64_t rank, int64_t block) {
  std::string tag;
  for (char letter = 'a'; letter < 'a' + rank - 1; ++letter)
    tag += letter;
  const char last = static_cast<char>('a' + rank - 1);
  return tag + static_cast<char>(last - 'a' + 'A') + std::to_string(block) + last;
}

/// The layout that `type` wants; empty where its rows lie well, or the padding would be much of it.
std::string wantedLayout(Type type) {
  if (!layoutOf(type).empty())
    return "";
  const TensorType tensor = toTensorType(type);
  const int64_t block = kRowBytes / bytesPerElement(tensor.element);
  const int64_t row = tensor.rank() < 2 ? 0 : tensor.shape.back();
  const int64_t added = (block - row % block) % block;
  return row == 0 || added == 0 || added * kLeastGain > row ? "" : paddedRows(tensor.rank(), block);
}

bool isProduct(UnitOp unit) {
  return unit.getKernel()->getName() == "MatrixProduct" &&
         unit.getKernel()->getFields().contains("compute");
}

/// One row of scores for each label.
bool areRowsLabelled(KernelAttr kernel) {
  auto pixels = kernel.getFields().getAs<IntegerAttr>("pixels");
  return pixels && pixels.getInt() == 1;
}

/// A bias that the library does not add: it is none of one number per column, or of another type
/// than the result.
bool hasOtherBias(UnitOp product) {
  DictionaryAttr fields = product.getKernel()->getFields();
  auto bias = fields.getAs<DenseI64ArrayAttr>("bias");
  if (!bias)
    return false;
  auto sizes = bias.asArrayRef();
  return fields.contains("result") || sizes.back() == 1 ||
         llvm::any_of(sizes.drop_back(), [](int64_t size) { return size != 1; });
}

int64_t rowOf(Value value) { return toTensorType(value.getType()).shape.back(); }

/// Whether the rows of a tensor are those that the kernel goes by: a product with a vector has a
/// column for a row, and a sum may take several rows for one.
bool goesByRows(KernelAttr kernel, StringRef sizes, Value tensor) {
  auto field = kernel.getFields().getAs<DenseI64ArrayAttr>(sizes);
  return field && !field.empty() && field.asArrayRef().back() == rowOf(tensor);
}

/// The field by which the kernel of a unit is told of padded rows of a result; empty: of none.
StringRef fieldOfResult(UnitOp unit, unsigned number) {
  const KernelAttr kernel = *unit.getKernel();
  if (number == 0 && isProduct(unit) && !hasOtherBias(unit) &&
      goesByRows(kernel, "output", unit.getResult(0)))
    return "pitchY";
  if (number == 0 && kernel.getName() == "SoftmaxCrossEntropyGradient" && areRowsLabelled(kernel))
    return "gradientPitch";
  return "";
}

/// The same of an operand.
StringRef fieldOfOperand(UnitOp unit, unsigned number) {
  const KernelAttr kernel = *unit.getKernel();
  const Value operand = unit.getOperand(number);
  if (isProduct(unit) && number < 2 && goesByRows(kernel, number == 0 ? "a" : "b", operand))
    return number == 0 ? "pitchA" : "pitchB";
  if (number != 0)
    return "";
  static const llvm::StringSet<> ofScores = {"CorrectPredictions", "SoftmaxCrossEntropy",
                                             "SoftmaxCrossEntropyGradient"};
  const bool readsScores = ofScores.contains(kernel.getName());
  const bool takesRows =
      readsScores ? areRowsLabelled(kernel)
                  : kernel.getName() == "ColumnSum" && goesByRows(kernel, "input", operand);
  return takesRows ? "pitch" : "";
}

void setField(UnitOp unit, StringRef name, int64_t value) {
  const KernelAttr kernel = *unit.getKernel();
  NamedAttrList fields(kernel.getFields());
  Builder builder(unit.getContext());
  fields.set(name, builder.getI64IntegerAttr(value));
  unit.setKernelAttr(KernelAttr::get(unit.getContext(), kernel.getName(),
                                     fields.getDictionary(unit.getContext()), kernel.getWorkspace(),
                                     kernel.getAccumulates(), kernel.getMultipliesPlain(),
                                     kernel.getAddsToLast()));
}

/// A tensor under all shapes that views give it.
class Tensors {
public:
  explicit Tensors(OpResult made) : made(made) { isTaken = add(made); }

  /// Whether all that makes and reads it can be told of padded rows, and a product among them
  /// gains.
  bool mayBePadded() const { return isTaken && isMultiplied; }
  void pad() const;

private:
  bool add(Value value);

  const OpResult made;
  llvm::SmallVector<Value> shapes;
  bool isTaken = false, isMultiplied = false;
};

bool Tensors::add(Value value) {
  auto unit = cast<UnitOp>(made.getOwner());
  if (wantedLayout(value.getType()).empty() || rowOf(value) != rowOf(made) ||
      fieldOfResult(unit, made.getResultNumber()).empty())
    return false;
  isMultiplied |= isProduct(unit);
  shapes.push_back(value);
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    auto reader = dyn_cast<UnitOp>(use.getOwner());
    if (isView(reader))
      return use.getOperandNumber() == 0 && add(reader.getResult(0));
    if (!reader || fieldOfOperand(reader, use.getOperandNumber()).empty())
      return false;
    isMultiplied |= isProduct(reader);
    return true;
  });
}

void Tensors::pad() const {
  const int64_t row = rowOf(made);
  const int64_t block = kRowBytes / bytesPerElement(toTensorType(made.getType()).element);
  const int64_t pitch = (row + block - 1) / block * block;
  auto unit = cast<UnitOp>(made.getOwner());
  setField(unit, fieldOfResult(unit, made.getResultNumber()), pitch);
  for (Value value : shapes) {
    value.setType(withLayout(value.getType(), wantedLayout(value.getType())));
    for (OpOperand &use : value.getUses()) {
      auto reader = cast<UnitOp>(use.getOwner());
      reader.getBody().getArgument(use.getOperandNumber()).setType(value.getType());
      if (!isView(reader))
        setField(reader, fieldOfOperand(reader, use.getOperandNumber()), pitch);
    }
  }
}

struct PadRows : pdc::impl::PadRowsBase<PadRows> {
  void runOnOperation() override {
    if (failed(runChecked(getOperation(), [&] { return run(); })))
      signalPassFailure();
  }

private:
  LogicalResult run() {
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (auto unit : function.getOps<UnitOp>())
        for (OpResult result : unit->getResults())
          if (unit.getKernel())
            if (const Tensors tensors(result); tensors.mayBePadded())
              tensors.pad();
    return success();
  }
};

} // namespace
} // namespace pdc
