#include "codegen/PrintStage.h"

#include "codegen/CppText.h"
#include "codegen/Kernels.h"
#include "codegen/PrintTasks.h"
#include "codegen/RuntimeNames.h"
#include "compiler/Error.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
namespace names = pdc::runtime_names;

namespace pdc {

std::string stageClass(ir::StageOp stage) { return "Stage" + std::to_string(stage.getId()); }

static void printConstructor(raw_indented_ostream &os, StringRef name,
                             ArrayRef<KernelMember> members) {
  os << "explicit " << name << "(const Device &" << (members.empty() ? ")" : "device)");
  for (auto [i, member] : llvm::enumerate(members))
    os << '\n'
       << memberInitialiser(i == 0 ? "    : " : "      ", member.name, member.kernel,
                            i + 1 == members.size() ? ") {}" : "),");
  os << (members.empty() ? " {}\n\n" : "\n\n");
}

static StringRef taskFunction(ir::Phase phase) {
  switch (phase) {
  case ir::Phase::Prepare:
    return "prepare";
  case ir::Phase::Forward:
    return "forward";
  case ir::Phase::Backward:
    return "backward";
  case ir::Phase::BackwardInput:
    return "backwardInput";
  case ir::Phase::BackwardWeight:
    return "backwardWeight";
  case ir::Phase::Update:
    return "update";
  case ir::Phase::Evaluate:
    return "evaluate";
  }
  throw Error("unknown phase");
}

static void printTask(raw_indented_ostream &os, ir::TaskOp task, const StageKernels &kernels,
                      LoopFunctions &loops) {
  bool isEmpty = !llvm::any_of(task.getBody().front(),
                               [](Operation &op) { return isa<ir::UnitOp, ir::AccumulateOp>(op); });
  if (isEmpty)
    return;
  printTaskFunctions(os, task, taskFunction(task.getPhase()), kernels, loops);
}

void printStageClass(raw_indented_ostream &os, ir::StageOp stage, LoopFunctions &loops) {
  StageKernels kernels(stage);
  os << "class " << stageClass(stage) << " final : public Tasks {\npublic:\n";
  os.indent();
  printConstructor(os, stageClass(stage), kernels.members());
  for (auto task : stage.getBody().getOps<ir::TaskOp>())
    printTask(os, task, kernels, loops);
  os.unindent();
  os << "private:\n";
  os.indent();
  for (const KernelMember &member : kernels.members()) {
    std::string text = (loops.isForDevice() ? names::kCudaPrefix : "") +
                       member.kernel.getName().str() + " " + member.name + "_;";
    const std::string comment =
        member.nodes +
        (member.units > 1 ? " and " + std::to_string(member.units - 1) + " more" : "");
    if (kIndent / 2 + text.size() + 4 + comment.size() <= kColumns)
      os << text << " // " << comment << '\n';
    else
      os << commentBlock(comment, kIndent / 2) << text << '\n';
  }
  os.unindent();
  os << "};\n\n";
}

} // namespace pdc
