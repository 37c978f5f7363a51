#include "passes/Refusal.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <new>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

bool refuseAt(Operation *op, llvm::function_ref<void()> body) {
  try {
    body();
    return true;
  } catch (const std::bad_alloc &) {
    op->emitError() << "out of memory";
  } catch (const std::exception &error) {
    op->emitError() << error.what();
  }
  return false;
}

static LogicalResult checkFunction(func::FuncOp function) {
  if (!function.getBody().hasOneBlock() || function.getNumArguments() > 0 ||
      function.getFunctionType().getNumResults() > 0 ||
      !isa<func::ReturnOp>(function.getBody().front().back()))
    return function.emitError() << "function @" << function.getSymName()
                                << " has arguments, results or control flow, expected one block "
                                   "that reads and writes memories and ends in a return";
  return success();
}

/// Whether the numbers are 0, 1, 2, ... in some order.
static bool areConsecutive(SmallVector<int64_t> numbers) {
  llvm::sort(numbers);
  for (auto [position, number] : llvm::enumerate(numbers))
    if (number != static_cast<int64_t>(position))
      return false;
  return true;
}

static LogicalResult checkPrograms(ModuleOp module) {
  SmallVector<int64_t> ranks, stages;
  for (auto program : module.getOps<ProgramOp>()) {
    if (program.getOps<StageOp>().empty())
      return program.emitError() << "program @" << program.getSymName() << " has no stage";
    llvm::append_range(ranks, program.getRanks());
    for (auto stage : program.getOps<StageOp>())
      stages.push_back(stage.getId());
  }
  if (!areConsecutive(ranks))
    return module.emitError() << "the programs run on ranks [" << ranks
                              << "], expected each of 0 to " << ranks.size() - 1 << " once";
  if (!areConsecutive(stages))
    return module.emitError() << "the programs hold stages [" << stages
                              << "], expected each of 0 to " << stages.size() - 1 << " once";
  return success();
}

LogicalResult runChecked(ModuleOp module, llvm::function_ref<LogicalResult()> body) {
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(checkFunction(function)))
      return failure();
  if (failed(checkPrograms(module)))
    return failure();
  LogicalResult result = success();
  return success(refuseAt(module, [&] { result = body(); }) && succeeded(result));
}

} // namespace pdc
