#include "passes/KernelWork.h"

#include "compiler/devices/Device.h"
#include "compiler/devices/LoopCalls.h"
#include "compiler/ir/Conversion.h"
#include "passes/Nodes.h"

#include <algorithm>
#include <optional>

using namespace mlir;

namespace pdc {

/// Channels are padded to the blocks of the weight's layout.
static double paddedShare(ir::UnitOp unit, ArrayRef<int64_t> weight) {
  double most = 1;
  auto compare = [&](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || tensor.getShape() != weight)
      return;
    TensorType plain = toTensorType(type);
    auto stored = static_cast<double>(bytesInLayout(plain, layoutOf(type)));
    most = std::max(most, stored / static_cast<double>(plain.bytes()));
  };
  llvm::for_each(unit.getOperandTypes(), compare);
  llvm::for_each(unit.getResultTypes(), compare);
  return most;
}

/// A vector of AVX-512 holds channels of one group alone, so that small groups leave most of it
/// idle; groups of one channel lie side by side.
static double idleShare(DictionaryAttr fields, ArrayRef<int64_t> weight) {
  constexpr int64_t lanes = 16;
  auto groups = fields.getAs<IntegerAttr>("groups");
  if (!groups || groups.getInt() == 1)
    return 1;
  const int64_t channels = weight[0] / groups.getInt();
  if (channels == 1 && weight[1] == 1)
    return 1;
  return static_cast<double>((channels + lanes - 1) / lanes * lanes) /
         static_cast<double>(channels);
}

/// Tiles of 4 x 4 results, which take 36 multiplications instead of 144; their transformations take
/// the better part of what that saves. Each filter becomes one of 6 x 6, written and read once.
static KernelWork winogradWork(const Cost &cost, ArrayRef<int64_t> output,
                               ArrayRef<int64_t> weight) {
  constexpr int64_t tile = 4, transformed = 6 * 6 * sizeof(float);
  constexpr double saved = 2.5;
  KernelWork work{cost.flops / saved, cost.bytes};
  for (int64_t size : output.drop_front(2))
    work.flops *= static_cast<double>((size + tile - 1) / tile * tile) / static_cast<double>(size);
  work.bytesBefore = 2.0 * static_cast<double>(weight[0] * weight[1] * transformed);
  return work;
}

/// Functions that a loop calls for each element, as multiples of a library's exponential.
static double countCalls(ir::UnitOp unit) {
  LoopCalls calls;
  for (auto node : unit.getBody().front().getOps<ir::NodeOp>()) {
    const Operator *op = findOperator(node.getOp());
    std::optional<double> last;
    if (node.getNumOperands() > 0)
      if (std::optional<Tensor> constant = constantOf(node.getOperands().back());
          constant && constant->data.size() == 1)
        last = constant->data[0];
    for (size_t i = 0; op && i < op->expressions.size() && i < node.getNumResults(); ++i)
      calls += loopCalls(op->name, op->expressions[i], last) *
               static_cast<double>(toTensorType(node.getResult(i).getType()).elementCount());
  }
  return calls.exponentials();
}

/// The runs of neighbours on both sides that a copy moves whole. Of elements that it moves one by
/// one, those of a transposition too, which goes by squares, some take as long as a run: few of
/// those that lie in a page of memory each.
static double countRuns(DictionaryAttr fields) {
  constexpr double elementsPerRun = 24, pagesPerRun = 3;
  constexpr int64_t elementsPerPage = 1024;
  auto copied = fields.getAs<DenseI64ArrayAttr>("shape");
  auto read = fields.getAs<DenseI64ArrayAttr>("inputStrides");
  auto written = fields.getAs<DenseI64ArrayAttr>("outputStrides");
  if (!copied || !read || !written || copied.empty() || copied.size() != read.size() ||
      copied.size() != written.size())
    return 0;
  const ArrayRef<int64_t> shape = copied, from = read, to = written;
  double elements = 1;
  for (int64_t size : shape)
    elements *= static_cast<double>(size);
  if (elements <= 0)
    return 0;
  const size_t last = shape.size() - 1;
  if (last > 0 && from[last - 1] == 1 && from[last] != 1 && to[last] == 1)
    return elements / elementsPerRun;
  const double rows = elements / static_cast<double>(shape[last]);
  if (from[last] == 1 && to[last] == 1)
    return rows;
  const bool havePages = std::max(std::abs(from[last]), std::abs(to[last])) >= elementsPerPage;
  return std::max(rows, elements / (havePages ? pagesPerRun : elementsPerRun));
}

/// What is left out of a copy is filled first.
static KernelWork copyWork(ir::UnitOp unit, DictionaryAttr fields, const Cost &cost) {
  KernelWork work{.flops = cost.flops, .bytes = cost.bytes, .runs = countRuns(fields)};
  auto filled = fields.getAs<IntegerAttr>("outputElements");
  if (!filled || filled.getInt() == 0)
    return work;
  work.bytesBefore = static_cast<double>(toTensorType(unit.getResult(0).getType()).bytes());
  work.bytes = std::max(0.0, cost.bytes - work.bytesBefore);
  return work;
}

static double numberOf(DictionaryAttr fields, StringRef name) {
  auto number = fields.getAs<IntegerAttr>(name);
  return number ? static_cast<double>(number.getInt()) : 0;
}

/// Rows that a kernel picks one by one: each has a place of its own. Rows of one element are picked
/// in a loop that calls nothing.
static double countRows(DictionaryAttr fields) {
  constexpr double elementsPerRow = 6;
  const double rows = numberOf(fields, "outer") * numberOf(fields, "count");
  return numberOf(fields, "inner") == 1 ? rows / elementsPerRow : rows;
}

/// What is wanted of a line is sorted, which takes as long as so many rows that are picked; before
/// that it is found among what is not.
static double countSorted(DictionaryAttr fields) {
  constexpr double rowsPerSorted = 4, strided = 2;
  const double size = numberOf(fields, "size"), count = numberOf(fields, "count"),
               inner = numberOf(fields, "inner");
  return numberOf(fields, "outer") * inner * (inner > 1 ? strided : 1) *
         (rowsPerSorted * count + (count < size ? size : 0));
}

/// As a product of plain matrices: the windows of the input are written out and read again.
static KernelWork unfoldedWork(const Cost &cost, ArrayRef<int64_t> output, ArrayRef<int64_t> input,
                               ArrayRef<int64_t> weight) {
  auto product = [](ArrayRef<int64_t> sizes) {
    double all = 1;
    for (int64_t size : sizes)
      all *= static_cast<double>(size);
    return all;
  };
  const double pixels = static_cast<double>(input[0] * input[1]) * product(output.drop_front(2));
  return {cost.flops, cost.bytes, 2.0 * sizeof(float) * pixels * product(weight.drop_front(2))};
}

/// What is convolved is there, with its sums, when it is read to be normalised.
static KernelWork normalisedWork(ir::UnitOp unit, const Cost &cost) {
  const double behind =
      2.0 * static_cast<double>(toTensorType(unit.getResult(0).getType()).bytes());
  return {cost.flops, std::max(0.0, cost.bytes - behind), behind};
}

/// Blocks of channels are moved whole.
static double paddedShareOfAll(ir::UnitOp unit) {
  double stored = 0, plain = 0;
  auto add = [&](Type type) {
    if (!isa<RankedTensorType>(type))
      return;
    const TensorType tensor = toTensorType(type);
    stored += static_cast<double>(bytesInLayout(tensor, layoutOf(type)));
    plain += static_cast<double>(tensor.bytes());
  };
  llvm::for_each(unit.getOperandTypes(), add);
  llvm::for_each(unit.getResultTypes(), add);
  return plain > 0 ? std::max(1.0, stored / plain) : 1;
}

KernelWork workOf(ir::UnitOp unit, const Cost &cost) {
  DictionaryAttr fields = unit.getKernel()->getFields();
  auto algorithm = fields.getAs<StringAttr>("algorithm");
  auto output = fields.getAs<DenseI64ArrayAttr>("output");
  auto weight = fields.getAs<DenseI64ArrayAttr>("weight");
  if (unit.getKernel()->getName().starts_with("Pooling"))
    return {cost.flops, cost.bytes * paddedShareOfAll(unit)};
  if (unit.getKernel()->getName().starts_with("Gather"))
    return {.flops = cost.flops, .bytes = cost.bytes, .rows = countRows(fields)};
  if (unit.getKernel()->getName() == "TopK")
    return {.flops = cost.flops, .bytes = cost.bytes, .rows = countSorted(fields)};
  if (unit.getKernel()->getName() == "NormalisedConvolution")
    return normalisedWork(unit, cost);
  if (unit.getKernel()->getName() == "StridedCopy")
    return copyWork(unit, fields, cost);
  if (!algorithm || !output || !weight)
    return {.flops = cost.flops, .bytes = cost.bytes, .calls = countCalls(unit)};
  if (algorithm.getValue() == "winograd")
    return winogradWork(cost, output.asArrayRef(), weight.asArrayRef());
  auto fallback = fields.getAs<StringAttr>("fallback");
  auto input = fields.getAs<DenseI64ArrayAttr>("input");
  if (fallback && fallback.getValue() == "gemm" && input)
    return unfoldedWork(cost, output.asArrayRef(), input.asArrayRef(), weight.asArrayRef());
  return {cost.flops * paddedShare(unit, weight.asArrayRef()) *
              idleShare(fields, weight.asArrayRef()),
          cost.bytes};
}

} // namespace pdc
