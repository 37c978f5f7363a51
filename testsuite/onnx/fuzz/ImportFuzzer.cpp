#include "compiler/ir/Pdc.h"
#include "compiler/onnx/Binding.h"
#include "compiler/onnx/Import.h"
#include "passes/Pipelines.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

#include <cstddef>
#include <cstdio>
#include <optional>

using namespace pdc;

namespace {

/// What MLIR keeps. Types and attributes live as long as their context: after so many modules it is
/// time for another.
class Lowering {
public:
  Lowering() : context(mlir::MLIRContext::Threading::DISABLED) {
    context.loadDialect<ir::PdcDialect, mlir::func::FuncDialect>();
    context.printOpOnDiagnostic(false);
  }

  bool isWorn() const { return modules >= 2000; }

  /// From the model's structs to units with kernels and costs, as pdc goes. Throws Error.
  void lower(const Model &model, const std::string &device) {
    ++modules;
    ImportOptions import;
    import.microbatchSize = fixedMicrobatchSize(model) ? 0 : 2;
    auto module = importModel(context, model, import);
    require(mlir::succeeded(mlir::verify(*module)), "the imported module is wrong");
    GraphOptions options;
    options.device = device;
    options.optimizer = chooseOptimizer(model, "");
    const UpdateGroups groups =
        chooseGroups(model, "", chooseParameters(model, chooseLoss(model, ""), {}), {});
    options.noDecay = groups.noDecay;
    options.lrScale = groups.lrScale;
    mlir::PassManager passes(&context);
    buildGraphPipeline(passes, options);
    bool complained = false;
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
      complained |= diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
      return mlir::success();
    });
    require(mlir::succeeded(passes.run(*module)) != complained, "refused without saying why");
  }

private:
  static void require(bool holds, const char *otherwise) {
    if (holds)
      return;
    std::fprintf(stderr, "%s\n", otherwise);
    std::abort();
  }

  mlir::MLIRContext context;
  int modules = 0;
};

} // namespace

/// Whatever the bytes are: a checked model that goes through all of level 1, or one Error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static std::optional<Lowering> lowering;
  try {
    Model model = parseModel({reinterpret_cast<const char *>(data), size}, "fuzzed.onnx");
    toString(model);
    if (!lowering || lowering->isWorn())
      lowering.emplace();
    lowering->lower(model, size % 2 ? "cpu" : "cuda");
  } catch (const Error &) {
  }
  return 0;
}
