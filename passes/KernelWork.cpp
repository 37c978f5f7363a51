#include "passes/KernelWork.h"

#include "compiler/devices/Device.h"
#include "compiler/ir/Conversion.h"

#include <algorithm>
#include <set>
#include <utility>

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

/// The calls that begin so in an expression, each text once: the compiler makes equal calls once.
static size_t countDistinct(std::string_view expression, std::string_view name) {
  std::set<std::string_view> calls;
  for (size_t at = expression.find(name); at != std::string_view::npos;
       at = expression.find(name, at + 1)) {
    size_t end = expression.find('(', at) + 1;
    for (int open = 1; open > 0 && end < expression.size(); ++end)
      open += (expression[end] == '(') - (expression[end] == ')');
    calls.insert(expression.substr(at, end - at));
  }
  return calls.size();
}

/// Functions that a loop calls for each element, as multiples of an exponential. The names are
/// beginnings: hyperbolic ones take as long.
static double countCalls(ir::UnitOp unit) {
  constexpr std::pair<std::string_view, double> called[] = {
      {"std::exp", 1}, {"std::log", 1.5}, {"std::tan", 6.5}, {"std::erf", 1.4},
      {"std::pow", 4}, {"std::sin", 3},   {"std::cos", 3}};
  double calls = 0;
  for (auto node : unit.getBody().front().getOps<ir::NodeOp>()) {
    const Operator *op = findOperator(node.getOp());
    for (size_t i = 0; op && i < op->expressions.size() && i < node.getNumResults(); ++i)
      for (auto [name, each] : called)
        calls += each * static_cast<double>(countDistinct(op->expressions[i], name)) *
                 static_cast<double>(toTensorType(node.getResult(i).getType()).elementCount());
  }
  return calls;
}

KernelWork workOf(ir::UnitOp unit, const Cost &cost) {
  DictionaryAttr fields = unit.getKernel()->getFields();
  auto algorithm = fields.getAs<StringAttr>("algorithm");
  auto output = fields.getAs<DenseI64ArrayAttr>("output");
  auto weight = fields.getAs<DenseI64ArrayAttr>("weight");
  if (!algorithm || !output || !weight)
    return {cost.flops, cost.bytes, 0, countCalls(unit)};
  if (algorithm.getValue() == "winograd")
    return winogradWork(cost, output.asArrayRef(), weight.asArrayRef());
  return {cost.flops * paddedShare(unit, weight.asArrayRef()), cost.bytes};
}

} // namespace pdc
