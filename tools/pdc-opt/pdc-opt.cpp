// pdc-opt FILE.mlir --PASS...: runs passes on textual IR.

#include "compiler/interpreter/Interpreter.h"
#include "passes/Passes.h"
#include "tools/Command.h"

#include "mlir/Debug/Counter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Support/Timing.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

namespace cl = llvm::cl;
using mlir::ModuleOp;
using mlir::OwningOpRef;

namespace pdc {
namespace {

/// As far as passes reorder sums.
constexpr double kTolerance = 1e-9;

struct Files {
  cl::opt<std::string> input{cl::Positional, cl::desc("<input file>"), cl::init("-")};
  cl::opt<std::string> output{"o", cl::desc("where the result goes"), cl::value_desc("file"),
                              cl::init("-")};
  cl::opt<std::string> reference{
      "check-against", cl::value_desc("file"),
      cl::desc("refuse the result unless the interpreter finds that it computes what file does")};
};

void registerOptions(mlir::DialectRegistry &registry) {
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  registerPdcPasses();
  mlir::MlirOptMainConfig::registerCLOptions(registry);
  mlir::registerAsmPrinterCLOptions();
  mlir::registerMLIRContextCLOptions();
  mlir::registerPassManagerCLOptions();
  mlir::registerDefaultTimingManagerCLOptions();
  mlir::tracing::DebugCounter::registerCLOptions();
}

std::unique_ptr<llvm::MemoryBuffer> open(const std::string &path) {
  std::string error;
  std::unique_ptr<llvm::MemoryBuffer> buffer = mlir::openInputFile(path, &error);
  if (!buffer)
    throw Error(path + ": " + error);
  return buffer;
}

void checkPasses(const mlir::MlirOptMainConfig &config, mlir::DialectRegistry &registry) {
  mlir::MLIRContext context(registry);
  mlir::PassManager passes(&context);
  if (failed(config.setupPassPipeline(passes)))
    throw UsageError("expected passes and their options as --help lists them");
}

void checkAgainst(const std::string &reference, llvm::StringRef result,
                  const mlir::DialectRegistry &registry) {
  mlir::MLIRContext context(registry);
  auto before =
      mlir::parseSourceString<ModuleOp>(open(reference)->getBuffer(), &context, reference);
  auto after = mlir::parseSourceString<ModuleOp>(result, &context, "the result");
  if (!before || !after)
    throw Error(reference + ": --check-against reads one module and takes one as the result");
  std::string difference;
  if (!computesTheSame(*before, *after, kTolerance, difference))
    throw Error("the result does not compute what " + reference + " does: " + difference);
}

int run(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<ir::PdcDialect, mlir::func::FuncDialect>();
  registerOptions(registry);
  Files files;
  std::string complaint;
  llvm::raw_string_ostream complaints(complaint);
  if (!cl::ParseCommandLineOptions(argc, argv, "pdc-opt: runs passes on textual IR\n", &complaints))
    throw UsageError(llvm::StringRef(complaint).trim().str());
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  checkPasses(config, registry);

  std::string result;
  llvm::raw_string_ostream stream(result);
  if (failed(mlir::MlirOptMain(stream, open(files.input), registry, config)))
    return 1;
  if (!files.reference.empty())
    checkAgainst(files.reference, result, registry);
  std::string error;
  std::unique_ptr<llvm::ToolOutputFile> output = mlir::openOutputFile(files.output, &error);
  if (!output)
    throw Error(files.output + ": " + error);
  output->os() << result;
  output->keep();
  return 0;
}

} // namespace
} // namespace pdc

int main(int argc, char **argv) {
  llvm::InitLLVM initialised(argc, argv);
  return pdc::runCommand([&] { return pdc::run(argc, argv); });
}
