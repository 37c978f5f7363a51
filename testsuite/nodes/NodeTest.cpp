#include "testsuite/nodes/NodeTest.h"

#include "codegen/ConstantsFile.h"
#include "codegen/PrintProgram.h"
#include "compiler/devices/Device.h"
#include "compiler/onnx/Import.h"
#include "compiler/plan/MakePlan.h"
#include "passes/Nodes.h"
#include "passes/Passes.h"
#include "passes/PlanGraph.h"
#include "passes/Pipelines.h"
#include "testsuite/nodes/NodeData.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"

#include <cmath>

using namespace mlir;

namespace pdc::test {

namespace fs = std::filesystem;

/// The values that operators need at compile time, and what these are computed from.
static std::set<std::string> knownValues(const Model &model) {
  std::set<std::string> known;
  for (auto node = model.nodes.rbegin(); node != model.nodes.rend(); ++node) {
    const Operator *rules = findOperator(node->op);
    auto isNeeded = [&](const std::string &output) { return known.contains(output); };
    bool needsAll = rules->name != "Shape" && rules->name != "Size" &&
                    std::any_of(node->outputs.begin(), node->outputs.end(), isNeeded);
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      bool isKnown = i < rules->inputs.size() && rules->inputs[i].known;
      // Of a mask that is not known all rows are computed, and none may be an output.
      isKnown = isKnown || (i + 1 == node->inputs.size() && node->op.starts_with("pdc.Selected"));
      if (needsAll || isKnown || (rules->name == "Dropout" && i > 0))
        known.insert(node->inputs[i]);
    }
  }
  return known;
}

template <class T> static std::string bytesAs(const Tensor &tensor) {
  std::vector<T> elements(tensor.data.begin(), tensor.data.end());
  return {reinterpret_cast<const char *>(elements.data()), elements.size() * sizeof(T)};
}

static std::string bytesOf(const Tensor &tensor) {
  switch (tensor.type.element) {
  case ElementType::f32:
    return bytesAs<float>(tensor);
  case ElementType::f64:
    return bytesAs<double>(tensor);
  case ElementType::i64:
    return bytesAs<int64_t>(tensor);
  case ElementType::i32:
    return bytesAs<int32_t>(tensor);
  case ElementType::i8:
    return bytesAs<int8_t>(tensor);
  case ElementType::u8:
  case ElementType::boolean:
    return bytesAs<uint8_t>(tensor);
  default:
    throw Error("element type " + std::string(toString(tensor.type.element)) +
                " of a known input is not supported");
  }
}

/// Moves inputs that must be known into the model; the others are given at run time.
static std::vector<NamedTensor> giveKnown(Model &model, std::vector<Tensor> values) {
  std::set<std::string> known = knownValues(model);
  std::vector<ModelValue> stay;
  std::vector<NamedTensor> given;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    const std::string &name = model.inputs[i].name;
    if (i >= values.size() || !known.contains(name)) {
      stay.push_back(model.inputs[i]);
      if (i < values.size())
        given.push_back({name, std::move(values[i])});
      continue;
    }
    Initializer &initializer = model.initializers[name];
    initializer = {name, values[i].type, {}, bytesOf(values[i]), {}, 0, 0, true};
    initializer.length = initializer.bytes.size();
  }
  model.inputs = stay;
  return given;
}

/// Runs passes; the first complaint becomes an Error.
static void lower(ModuleOp module, const std::function<void(OpPassManager &)> &build) {
  std::string complaint;
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    if (complaint.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
      complaint = diagnostic.str();
    return success();
  });
  PassManager passes(module.getContext());
  build(passes);
  if (failed(passes.run(module)))
    throw Error(complaint);
}

std::string difference(const Tensor &found, const Tensor &expected) {
  if (found.type != expected.type)
    return "is " + found.type.toString() + ", expected " + expected.type.toString();
  for (size_t i = 0; i < found.data.size(); ++i) {
    double is = found.data[i], should = expected.data[i];
    bool isNear = is == should || (std::isnan(is) && std::isnan(should)) ||
                  std::abs(is - should) <= 1e-7 + 1e-3 * std::abs(should);
    if (!isNear)
      return "element " + std::to_string(i) + " is " + std::to_string(is) + ", expected " +
             std::to_string(should);
  }
  return "";
}

/// Outputs that shape inference has computed are compared here and have no program.
static void takeKnownOutputs(ModuleOp module, const std::vector<NamedTensor> &expected,
                             CompiledTest &test) {
  auto train = module.lookupSymbol<func::FuncOp>("train");
  for (auto write : llvm::make_early_inc_range(train.getOps<ir::WriteOp>())) {
    auto output = llvm::find_if(expected, [&](const NamedTensor &tensor) {
      return tensor.name == write.getMemory();
    });
    if (output == expected.end())
      continue;
    std::optional<Tensor> known = constantOf(write.getValue());
    if (!known) {
      test.outputs.push_back(*output);
      continue;
    }
    if (std::string text = difference(*known, output->value); !text.empty())
      test.wrong.push_back(output->name + ": " + text);
    write.erase();
  }
}

static std::shared_ptr<const Plan> planOf(ModuleOp module, const std::string &name) {
  PlanRequest request;
  request.schedule = "1f1b";
  request.microbatchSize = module->getAttrOfType<IntegerAttr>("pdc.microbatch_size").getInt();
  request.model = name;
  return std::make_shared<Plan>(makePlan(makePlanGraph(module), request));
}

/// The levels one after the other, as tools/pdc/Compilation.cpp goes through them.
static void print(ModuleOp module, CompiledTest &test) {
  GraphOptions graph;
  graph.trains = false;
  graph.vectorWidth = detectDevice().vectorWidth;
  lower(module, [&](OpPassManager &passes) { buildGraphPipeline(passes, graph); });
  std::shared_ptr<const Plan> plan = planOf(module, test.model.name);
  lower(module, [&](OpPassManager &passes) {
    buildCutPipeline(passes, plan);
    buildStagedPipeline(passes, plan);
    buildScheduledPipeline(passes, plan);
  });
  for (auto program : module.getOps<ir::ProgramOp>()) {
    test.source = printProgram(program, *plan, "0123456789abcdef").host;
    for (auto memory : program.getOps<ir::MemoryOp>())
      test.readsWeights |= isa_and_nonnull<StringAttr>(memory.getInitialAttr());
  }
  test.constants = constantsFile(module);
}

CompiledTest compileTest(const fs::path &folder) {
  CompiledTest test;
  test.model = readModel(folder / "model.onnx");
  test.inputs = giveKnown(test.model, readTensorFiles(folder, "input_"));
  std::vector<Tensor> values = readTensorFiles(folder, "output_");
  std::vector<NamedTensor> expected;
  for (size_t i = 0; i < values.size() && i < test.model.outputs.size(); ++i)
    expected.push_back({forwardOutput(test.model.outputs[i].name), values[i]});
  MLIRContext context(MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = importForward(context, test.model);
  lower(*module, [](OpPassManager &passes) { passes.addPass(createInferShapes()); });
  takeKnownOutputs(*module, expected, test);
  if (!test.outputs.empty())
    print(*module, test);
  return test;
}

} // namespace pdc::test
