#include "codegen/PrintTasks.h"

#include "codegen/CppText.h"
#include "codegen/Kernels.h"
#include "codegen/LoopBody.h"
#include "codegen/MeasuredUnits.h"
#include "codegen/Places.h"
#include "codegen/PrintTables.h"
#include "codegen/RuntimeNames.h"
#include "compiler/Error.h"
#include "compiler/ir/Conversion.h"
#include "compiler/ir/Partition.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>
#include <set>
#include <utility>

using namespace mlir;
using llvm::formatv;
namespace names = pdc::runtime_names;

namespace pdc {

static constexpr unsigned kCommentColumn = 60;

/// Of a function. In steps of an LSTM, 3,000 took g++ 12 ten times as long as 1,500.
static constexpr unsigned kMostUnits = 400;

/// Whether a statement and the comment behind it fit on a line.
static bool fitsLine(StringRef statement, StringRef comment) {
  size_t column = std::max<size_t>(kIndent + statement.size(), kCommentColumn);
  return !statement.contains('\n') && column + 4 + comment.size() <= kColumns;
}

/// The comment of a long statement stands before it.
static void printLine(raw_indented_ostream &os, StringRef statement, StringRef comment) {
  if (fitsLine(statement, comment))
    os << llvm::left_justify(statement, kCommentColumn - kIndent) << " // " << comment << '\n';
  else
    os << commentBlock(comment, kIndent) << statement << '\n';
}

/// Other stages that a tensor comes from or goes to, for its comment.
static std::string routeText(ir::MemoryOp memory) {
  if (!memory.getTransfers())
    return "";
  bool arrives = memory.getRole() == ir::Role::Inbox;
  std::set<int64_t> stages;
  for (auto transfer : memory.getTransfersAttr().getAsRange<ir::TransferAttr>())
    stages.insert(arrives ? transfer.getFrom() : transfer.getTo());
  std::vector<std::string> numbers;
  for (int64_t stage : stages)
    numbers.push_back(std::to_string(stage));
  return std::string(arrives ? ", from stage " : ", to stage ") + llvm::join(numbers, " and ");
}

namespace {

/// Prints one task. Each tensor gets a local pointer where a function first uses it.
class TaskPrinter {
public:
  TaskPrinter(raw_indented_ostream &os, ir::TaskOp task, const StageKernels &kernels,
              LoopFunctions &loops)
      : os(os), task(task), kernels(kernels), loops(loops),
        memories(task->getParentOfType<ir::ProgramOp>()), measured(os, loops.isForDevice()),
        gradients(replicatedMemories(task->getParentOfType<ir::ProgramOp>(),
                                     task->getParentOfType<ir::StageOp>().getId(),
                                     ir::Role::Gradient)) {}

  /// How many functions its statements take: one where updates share a kernel or where times are
  /// taken, both by an object that is declared at the start.
  unsigned functions() {
    if (loops.isForDevice() && (task.getPhase() == ir::Phase::Update || isMeasured(task)))
      return 1;
    const auto statements = llvm::count_if(task.getBody().front(), isStatement);
    return unsigned(llvm::divideCeil(std::max<size_t>(statements, 1), kMostUnits));
  }

  /// `next` is called where the second function begins, and all behind it.
  void print(llvm::function_ref<void(unsigned)> next) {
    const unsigned last = functions();
    unsigned statements = 0, number = 1;
    measured.begin(task);
    for (Operation &op : task.getBody().front()) {
      if (number < last && isStatement(op) && statements++ == number * kMostUnits) {
        declarations.clear();
        isFirst = true;
        next(++number);
      }
      if (isa<ir::UnitOp, ir::AccumulateOp, ir::YieldOp>(op))
        switchUpdates(loops.isForDevice() && isSharedUpdate(op));
      printOperation(op);
      if (auto accumulate = dyn_cast<ir::AccumulateOp>(op))
        printMade(accumulate);
      measured.end(op, isUpdating);
    }
  }

private:
  static bool isStatement(Operation &op) {
    auto unit = dyn_cast<ir::UnitOp>(op);
    return unit ? unit.getKernel().has_value() : isa<ir::AccumulateOp>(op);
  }

  /// Before the first of several updates that stand together, and behind the last.
  void switchUpdates(bool isUpdate) {
    if (std::exchange(isUpdating, isUpdate) == isUpdate)
      return;
    startParagraph();
    if (!isUpdate) {
      os << names::kLaunchUpdates << '\n';
      measured.endShared(kIndent);
    } else if (!std::exchange(hasUpdates, true))
      os << names::kBeginUpdates << '\n';
  }

  struct Pointer {
    std::string name;
    std::string expression; ///< empty: nothing to declare
    std::string comment;
    Value viewed;       ///< of a view: the value whose pointer it shares
    int64_t behind = 0; ///< of a part of that: elements before it
  };

  void printOperation(Operation &op) {
    if (auto read = dyn_cast<ir::ReadOp>(op))
      bindMemory(read.getValue(), read.getMemoryAttr(), ir::Version::Latest);
    else if (auto weight = dyn_cast<ir::WeightVersionOp>(op))
      bindMemory(weight.getValue(), weight.getMemoryAttr(), weight.getVersion());
    else if (auto unit = dyn_cast<ir::UnitOp>(op))
      unit.getKernel() ? printUnit(unit) : bindWithoutKernel(unit);
    else if (auto accumulate = dyn_cast<ir::AccumulateOp>(op))
      printAccumulate(accumulate);
    else if (auto absent = dyn_cast<ir::AbsentOp>(op))
      pointers[absent.getValue()] = {"nullptr", "", "", Value()};
    else if (!isa<ir::WriteOp, ir::CommitOp, ir::YieldOp>(op))
      throw Error(formatv("'{0}' stands in a task; only reads, units and writes do",
                          op.getName().getStringRef()));
  }

  ir::MemoryOp memory(FlatSymbolRefAttr name) {
    auto found = memories.lookup<ir::MemoryOp>(name.getAttr());
    if (!found)
      throw Error(formatv("memory {0} is not in its program", commentText(name.getValue())));
    return found;
  }

  void bindMemory(Value value, FlatSymbolRefAttr symbol, ir::Version version) {
    ir::MemoryOp home = memory(symbol);
    bind(value, home.getVariable().value_or(""), requireHome(home), versionAccessor(version));
    if (home.getRole() == ir::Role::Inbox)
      pointers[value].comment += routeText(home);
  }

  static StringRef versionAccessor(ir::Version version) {
    switch (version) {
    case ir::Version::Latest:
      return names::kLatest;
    case ir::Version::OfMicrobatch:
    case ir::Version::AtEntry:
    case ir::Version::Previous:
      return names::kOfMicrobatch;
    }
    throw Error(formatv("weights have no version {0}", static_cast<int>(version)));
  }

  /// `versioned` is the accessor if the home is in the ring of versions.
  void bind(Value value, StringRef name, ir::HomeAttr home, StringRef versioned) {
    StringRef region = home.getRegion();
    StringRef accessor = region == names::kFixedRegion      ? StringRef(names::kFixed)
                         : region == names::kScratchRegion  ? StringRef(names::kScratch)
                         : region == names::kVersionsRegion ? versioned
                                                            : StringRef(names::kSlot);
    std::string element = elementTypeText(value.getType());
    std::string argument = element == "float" ? "" : "<" + element + ">";
    pointers[value] = {name.str(),
                       formatv("run.{0}{1}({2})", accessor, argument, Places::spell(region, name)),
                       shapeText(value.getType()), Value()};
  }

  /// The name of a value's pointer, declared before if this is its first use in the task.
  std::string use(Value value) {
    Pointer pointer = pointers[value];
    if (pointer.viewed)
      pointer.expression =
          use(pointer.viewed) + (pointer.behind ? " + " + std::to_string(pointer.behind) : "");
    if (pointer.expression.empty() || pointer.expression == pointer.name)
      return pointer.name;
    auto [declared, isNew] = declarations.try_emplace(pointer.name, pointer.expression);
    if (!isNew && declared->second != pointer.expression)
      throw Error(formatv("'{0}' names two places in one task: {1} and {2}; this is a bug in "
                          "name-values",
                          pointer.name, declared->second, pointer.expression));
    if (isNew)
      printPointer(pointer);
    return pointer.name;
  }

  void printPointer(const Pointer &pointer) {
    std::string declaration = "auto *" + pointer.name + " =";
    std::string value = pointer.expression + ";", whole = declaration + " " + value;
    bool fitsBroken = fitsLine("    " + value, pointer.comment);
    if (fitsLine(whole, pointer.comment) || (!fitsBroken && kIndent + whole.size() <= kColumns))
      return printLine(os, whole, pointer.comment);
    os << (fitsBroken ? "" : commentBlock(pointer.comment, kIndent)) << declaration << '\n';
    if (fitsBroken)
      printLine(os, "    " + value, pointer.comment);
    else
      os << "    " << value << '\n';
  }

  std::vector<std::string> useAll(ValueRange values) {
    std::vector<std::string> texts;
    for (Value value : values)
      texts.push_back(use(value));
    return texts;
  }

  void bindResults(ir::UnitOp unit) {
    for (unsigned i = 0; i < unit.getNumResults(); ++i)
      bindResult(unit, i);
  }

  void bindResult(ir::UnitOp unit, unsigned i) {
    Value result = unit.getResult(i);
    bind(result, resultName(unit, i), requireHome(unit, i), names::kNext);
    for (Operation *user : result.getUsers())
      if (auto write = dyn_cast<ir::WriteOp>(user))
        pointers[result].comment += routeText(memory(write.getMemoryAttr()));
  }

  /// The pointers that a unit needs first, and then the unit on one line; units stand apart.
  void printUnit(ir::UnitOp unit) {
    startParagraph();
    bindResults(unit);
    std::vector<std::string> operands = useAll(unit.getOperands());
    std::vector<std::string> results = useAll(unit.getResults());
    isElementwise(unit) ? printLoop(unit, operands, results) : printCall(unit, operands, results);
  }

  void startParagraph() {
    if (!std::exchange(isFirst, false))
      os << '\n';
  }

  void printCall(ir::UnitOp unit, ArrayRef<std::string> operands, ArrayRef<std::string> results) {
    std::vector<std::string> arguments{isUpdating ? names::kUpdates : "run"};
    llvm::append_range(arguments, operands);
    llvm::append_range(arguments, results);
    if (unit.getKernel()->getAccumulates())
      arguments.push_back(whetherAdds(unit));
    std::string opening = (kernels.nameFor(unit) + "_(").str();
    printLine(os, listText(opening, arguments, ");", kIndent),
              unit.getKernel()->getName().str() + ": " + nodeNames(unit));
  }

  /// Whether the kernel adds to its results, where these are sums over microbatches.
  static std::string whetherAdds(ir::UnitOp unit) {
    for (Operation *user : unit.getResults().back().getUsers())
      if (auto accumulate = dyn_cast<ir::AccumulateOp>(user); accumulate && accumulate.getFused())
        return whetherAdds(accumulate);
    return "false";
  }

  static std::string whetherAdds(ir::AccumulateOp accumulate) {
    return accumulate.getContinues() ? "true" : names::kAddFlag;
  }

  void printLoop(ir::UnitOp unit, ArrayRef<std::string> operands, ArrayRef<std::string> results);

  /// The same memory under another shape, some of it, or what has been put together there.
  void bindWithoutKernel(ir::UnitOp unit) {
    if (std::optional<ir::Partition> partition = ir::placedPartitionOf(unit))
      return partition->joins ? bindResults(unit) : bindParts(unit, *partition);
    pointers[unit.getResult(0)] = {resultName(unit, 0).str(), "",
                                   shapeText(unit.getResult(0).getType()) + ", " + nodeNames(unit),
                                   unit.getOperand(0)};
  }

  void bindParts(ir::UnitOp unit, const ir::Partition &partition) {
    for (auto [number, part] : llvm::enumerate(partition.parts)) {
      const int64_t width = bytesPerElement(toTensorType(part.getType()).element);
      pointers[part] = {resultName(unit, number).str(), "",
                        shapeText(part.getType()) + ", " + nodeNames(unit), partition.whole,
                        partition.offsets[number] / width};
    }
  }

  void printAccumulate(ir::AccumulateOp accumulate);

  /// Where replicas wait for a gradient, that it is made.
  void printMade(ir::AccumulateOp accumulate) {
    if (task.getPhase() == ir::Phase::BackwardInput || accumulate != lastInto(accumulate))
      return;
    auto found = llvm::find(gradients, memory(accumulate.getMemoryAttr()));
    if (found != gradients.end())
      printLine(os,
                formatv("{0}({1});", names::kGradientsMade, found - gradients.begin() + 1).str(),
                commentText(found->getSymName()));
  }

  ir::AccumulateOp lastInto(ir::AccumulateOp accumulate) {
    if (lastAdditions.empty())
      for (auto addition : task.getOps<ir::AccumulateOp>())
        lastAdditions[addition.getMemoryAttr()] = addition;
    return lastAdditions.lookup(accumulate.getMemoryAttr());
  }

  raw_indented_ostream &os;
  ir::TaskOp task;
  const StageKernels &kernels;
  LoopFunctions &loops;
  SymbolTable memories;
  MeasuredUnits measured;
  std::vector<ir::MemoryOp> gradients; ///< that replicas sum
  llvm::DenseMap<mlir::Attribute, ir::AccumulateOp> lastAdditions; ///< of the task, by memory
  llvm::DenseMap<Value, Pointer> pointers;
  std::map<std::string, std::string> declarations;
  bool isFirst = true;
  bool isUpdating = false; ///< what comes shares a kernel
  bool hasUpdates = false; ///< the object that stands for it is declared
};

} // namespace

void TaskPrinter::printLoop(ir::UnitOp unit, ArrayRef<std::string> operands,
                            ArrayRef<std::string> results) {
  const std::string comment = nodeNames(unit);
  if (std::string call = loops.call(unit, operands, results, kIndent); !call.empty())
    return printLine(os, call, comment);
  std::vector<std::string> lines =
      loopStatement(unit, operands, results, {}, std::to_string(loopElements(unit)), kIndent);
  if (kIndent + lines.front().size() + 4 + comment.size() <= kColumns)
    lines.front() += " // " + comment;
  else
    os << commentBlock(comment, kIndent);
  os << llvm::join(lines, "\n") << '\n';
}

void TaskPrinter::printAccumulate(ir::AccumulateOp accumulate) {
  if (accumulate.getFused())
    return;
  startParagraph();
  ir::MemoryOp sum = memory(accumulate.getMemoryAttr());
  ir::HomeAttr home = requireHome(sum);
  std::string name = requireText(sum, "variable").str();
  std::string value = use(accumulate.getValue());
  std::string pointer =
      formatv("run.{0}({1})", names::kFixed, Places::spell(home.getRegion(), name));
  int64_t count = home.getBytes() / bytesPerElement(toTensorType(sum.getType()).element);
  std::string function =
      std::string(loops.isForDevice() ? names::kCudaPrefix : "") + names::kAccumulate;
  printLine(os,
            listText(function + "(",
                     {"run", std::to_string(count), pointer, value, whetherAdds(accumulate)}, ");",
                     kIndent),
            commentText(sum.getSymName()));
}

void printTaskFunctions(raw_indented_ostream &os, ir::TaskOp task, StringRef name,
                        const StageKernels &kernels, LoopFunctions &loops) {
  TaskPrinter printer(os, task, kernels, loops);
  const unsigned functions = printer.functions();
  auto begin = [&](unsigned number) {
    os << "[[gnu::noinline]] void " << name << number << "(const Run &run) {\n";
    os.indent();
  };
  auto end = [&] {
    os.unindent();
    os << "}\n\n";
  };
  os << "void " << name << "(const Run &run) override {\n";
  os.indent();
  if (functions > 1) {
    for (unsigned number = 1; number <= functions; ++number)
      os << name << number << "(run);\n";
    end();
    begin(1);
  }
  printer.print([&](unsigned number) {
    end();
    begin(number);
  });
  end();
}

} // namespace pdc
