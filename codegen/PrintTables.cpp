#include "codegen/PrintTables.h"

#include "codegen/CppText.h"
#include "codegen/Places.h"
#include "codegen/RuntimeNames.h"
#include "compiler/Error.h"
#include "compiler/ir/Conversion.h"
#include "compiler/ir/TensorName.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>
#include <set>

using namespace mlir;
using llvm::formatv;
namespace names = pdc::runtime_names;

namespace pdc {

void printRegions(llvm::raw_ostream &os, ir::ProgramOp program) {
  os << "template <int... numbers> constexpr std::array<int, sizeof...(numbers)> "
        "ranks{numbers...};\n\n"
     << "constexpr Region kRegions[] = {\n";
  for (auto region : program.getRegionsAttr().getAsRange<DictionaryAttr>()) {
    auto number = [&](StringRef name) { return region.getAs<IntegerAttr>(name).getInt(); };
    os << formatv("    {{.name = {0}, .offset = {1}, .stride = {2}, .copies = {3}},\n",
                  stringLiteral(region.getAs<StringAttr>("name")), number("offset"),
                  number("stride"), number("copies"));
  }
  os << "};\n\n";
}

/// Activations, inboxes and outboxes are the tasks' own business: the runtime neither fills nor
/// saves them.
static bool isListed(ir::MemoryOp memory) {
  switch (memory.getRole()) {
  case ir::Role::Activation:
  case ir::Role::Scratch:
  case ir::Role::Inbox:
  case ir::Role::Outbox:
    return false;
  default:
    return true;
  }
}

static StringRef elementName(ir::MemoryOp memory) {
  switch (toTensorType(memory.getType()).element) {
  case ElementType::f32:
    return "f32";
  case ElementType::i64:
    return "i64";
  case ElementType::i32:
    return "i32";
  case ElementType::u8:
  case ElementType::boolean:
    return "u8";
  case ElementType::f16:
    return "f16";
  case ElementType::bf16:
    return "bf16";
  default:
    if (memory.getRole() == ir::Role::Input)
      throw Error(formatv("input '{0}' holds {1}, which no data file gives; expected f32, f16, "
                          "bf16, i64, i32, u8 or bool: convert it where the model is exported, as "
                          "by x.float()",
                          commentText(memory.getSymName()), shapeText(memory.getType())));
    throw Error(formatv("memory {0} holds {1}, which the runtime does not load, save or send",
                        commentText(memory.getSymName()), shapeText(memory.getType())));
  }
}

/// What a memory begins as, where anything says so.
static std::vector<std::string> initialFields(ir::MemoryOp memory) {
  if (!memory.getInitial())
    return {};
  if (auto number = dyn_cast<FloatAttr>(*memory.getInitial()))
    return {".initial = Initial::fill", ".fill = " + doubleLiteral(number.getValueAsDouble())};
  return {isa<DenseElementsAttr>(*memory.getInitial()) ? ".initial = Initial::constants"
                                                       : ".initial = Initial::file"};
}

static std::string placeText(ir::MemoryOp memory) {
  ir::HomeAttr home = requireHome(memory);
  return formatv("{{{0}, {1}}", Places::regionIndex(home.getRegion()),
                 Places::spell(home.getRegion(), requireText(memory, "variable")));
}

static void printMemory(llvm::raw_ostream &os, ir::MemoryOp memory) {
  ir::HomeAttr home = requireHome(memory);
  ArrayRef<int64_t> sizes = memory.getTensorType().getShape();
  os << "    {.name = " << stringLiteral(tensorNameOf(memory))
     << ", .role = Role::" << stringifyRole(memory.getRole()) << ",\n"
     << "     .element = ElementType::" << elementName(memory) << ", .shape = shape<"
     << llvm::join(llvm::map_range(sizes, [](int64_t size) { return std::to_string(size); }), ", ")
     << ">";
  if (StringRef layout = layoutOf(memory.getType()); !layout.empty())
    os << ", .layout = " << stringLiteral(layout);
  std::vector<std::string> fields{".place = " + placeText(memory),
                                  formatv(".bytes = {0}", home.getBytes())};
  llvm::append_range(fields, initialFields(memory));
  if (home.getRegion() == names::kVersionsRegion)
    fields.push_back(".versioned = true");
  os << ",\n" << listText("     ", fields, "},", 0) << '\n';
}

bool listsMemories(ir::ProgramOp program) {
  return llvm::any_of(program.getBody().getOps<ir::MemoryOp>(), isListed);
}

void printMemories(llvm::raw_ostream &os, ir::ProgramOp program) {
  if (!listsMemories(program))
    return;
  os << "template <int64_t... sizes> constexpr std::array<int64_t, sizeof...(sizes)> "
        "shape{sizes...};\n\n"
     << "// What is loaded, saved, fed with data or reported.\n"
     << "constexpr Memory kMemories[] = {\n";
  for (auto memory : program.getBody().getOps<ir::MemoryOp>())
    if (isListed(memory))
      printMemory(os, memory);
  os << "};\n\n";
}

/// The ranks of each stage of all programs, in the order of its replicas.
static std::map<int64_t, std::vector<int64_t>> ranksOfStages(ModuleOp module) {
  std::map<int64_t, std::vector<int64_t>> ranks;
  for (auto program : module.getOps<ir::ProgramOp>())
    for (auto stage : program.getBody().getOps<ir::StageOp>())
      ranks.try_emplace(static_cast<int64_t>(stage.getId()), program.getRanks().begin(),
                        program.getRanks().end());
  return ranks;
}

static std::string listText(ArrayRef<int64_t> numbers, StringRef separator) {
  return llvm::join(llvm::map_range(numbers, [](int64_t number) { return std::to_string(number); }),
                    separator);
}

namespace {

/// Collects the transfers of a program from its rows, which are many: each transfer has one per
/// microbatch.
class TransferCollector {
public:
  explicit TransferCollector(ir::ProgramOp program)
      : symbols(program), ranks(ranksOfStages(program->getParentOfType<ModuleOp>())) {}

  template <class Row> void add(Row row) {
    const bool sends = std::is_same_v<Row, ir::SendOp>;
    const auto tag = static_cast<int64_t>(row.getTag());
    if (!known.insert({tag, sends}).second)
      return;
    auto memory = symbols.lookup<ir::MemoryOp>(row.getMemory());
    if (!memory)
      throw Error(formatv("a row moves {0}, which is no memory of its program",
                          commentText(row.getMemory())));
    std::vector<int64_t> peers = peersOf(memory, tag, sends);
    if (peers.empty())
      peers = {static_cast<int64_t>(row.getPeer())};
    std::string name = formatv("{0}_{1}_{2}", requireText(memory, "variable"),
                               sends ? "to" : "from", listText(peers, "_"));
    // One tensor may have two ways to a rank that runs two stages.
    if (!taken.insert(name).second)
      taken.insert(name += "_tag_" + std::to_string(tag));
    transfers.push_back({name, memory, static_cast<int64_t>(row.getStage()), peers, tag, sends});
  }

  std::vector<TransferRow> transfers;

private:
  /// The ranks of the stage at the other end; none where no program has it.
  std::vector<int64_t> peersOf(ir::MemoryOp memory, int64_t tag, bool sends) const {
    if (memory.getTransfers())
      for (auto transfer : memory.getTransfersAttr().getAsRange<ir::TransferAttr>())
        if (transfer.getTag() == tag)
          if (auto found = ranks.find(sends ? transfer.getTo() : transfer.getFrom());
              found != ranks.end())
            return found->second;
    return {};
  }

  const SymbolTable symbols;
  const std::map<int64_t, std::vector<int64_t>> ranks;
  std::set<std::pair<int64_t, bool>> known; ///< tags, and whether they are sent
  llvm::StringSet<> taken;                  ///< names
};

/// Which tasks of a program write outboxes and first read inboxes.
class TouchingTasks {
public:
  explicit TouchingTasks(ir::ProgramOp program) {
    for (auto stage : program.getBody().getOps<ir::StageOp>())
      for (auto task : stage.getBody().getOps<ir::TaskOp>())
        for (Operation &op : task.getBody().front()) {
          const auto id = static_cast<int64_t>(stage.getId());
          if (auto write = dyn_cast<ir::WriteOp>(op))
            written.try_emplace({write.getMemoryAttr().getAttr(), id}, task.getPhase());
          else if (auto read = dyn_cast<ir::ReadOp>(op))
            readFirst.try_emplace({read.getMemoryAttr().getAttr(), id}, task.getPhase());
        }
  }

  /// Of a stage, for what it sends or receives.
  ir::Phase phaseOf(ir::MemoryOp memory, int64_t stage, bool sends) const {
    const Phases &phases = sends ? written : readFirst;
    auto found = phases.find({memory.getSymNameAttr(), stage});
    if (found == phases.end())
      throw Error(formatv("no task of stage {0} {1} {2}, which its rows move", stage,
                          sends ? "writes" : "reads", commentText(memory.getSymName())));
    return found->second;
  }

private:
  using Phases = llvm::DenseMap<std::pair<StringAttr, int64_t>, ir::Phase>;
  Phases written, readFirst; ///< by memory and stage
};

} // namespace

std::vector<TransferRow> transferRows(ir::ProgramOp program) {
  TransferCollector collector(program);
  for (bool evaluation : {false, true})
    for (int64_t rank : program.getRanks())
      scheduleOf(program, evaluation, rank).walk([&](Operation *op) {
        if (auto send = dyn_cast<ir::SendOp>(op))
          collector.add(send);
        else if (auto receive = dyn_cast<ir::RecvOp>(op))
          collector.add(receive);
      });
  return std::move(collector.transfers);
}

static StringRef phaseName(ir::Phase phase) {
  switch (phase) {
  case ir::Phase::Forward:
    return "Phase::forward";
  case ir::Phase::Backward:
    return "Phase::backward";
  case ir::Phase::BackwardInput:
    return "Phase::backwardInput";
  case ir::Phase::BackwardWeight:
    return "Phase::backwardWeight";
  case ir::Phase::Update:
    return "Phase::update";
  case ir::Phase::Prepare:
    return "Phase::prepare";
  case ir::Phase::Evaluate:
    return "Phase::evaluate";
  }
  throw Error("unknown phase");
}

void printTransfers(llvm::raw_ostream &os, ir::ProgramOp program, ArrayRef<TransferRow> transfers) {
  if (transfers.empty())
    return;
  const TouchingTasks tasks(program);
  os << "// Tensors that cross ranks, once per microbatch: microbatch k goes to peers[k % size].\n"
     << "enum TransferIndex : int {\n";
  for (const TransferRow &transfer : transfers)
    os << "  " << transfer.name << ",\n";
  os << "};\nconstexpr Transfer kTransfers[] = {\n";
  for (TransferRow t : transfers)
    os << formatv(
        "    {{.tensor = {0}, // {1}\n"
        "     .element = ElementType::{2}, .peers = ranks<{3}>, .tag = {4}, .stage = {5},\n"
        "     .phase = {6}, .place = {7}, .bytes = {8}},\n",
        stringLiteral(t.memory.getSymName()), shapeText(t.memory.getType()), elementName(t.memory),
        listText(t.peers, ", "), t.tag, t.stage,
        phaseName(tasks.phaseOf(t.memory, t.stage, t.sends)), placeText(t.memory),
        requireHome(t.memory).getBytes());
  os << "};\n\n";
}

/// The inboxes of a program by the transfers that end there.
static llvm::DenseMap<mlir::Attribute, ir::MemoryOp> findInboxes(ir::ProgramOp program) {
  llvm::DenseMap<mlir::Attribute, ir::MemoryOp> inboxes;
  for (auto memory : program.getBody().getOps<ir::MemoryOp>())
    if (memory.getRole() == ir::Role::Inbox && memory.getTransfers())
      for (mlir::Attribute transfer : memory.getTransfersAttr())
        inboxes.try_emplace(transfer, memory);
  return inboxes;
}

bool printMoves(llvm::raw_ostream &os, ir::ProgramOp program) {
  const TouchingTasks tasks(program);
  const llvm::DenseMap<mlir::Attribute, ir::MemoryOp> inboxes = findInboxes(program);
  std::string rows;
  for (auto outbox : program.getBody().getOps<ir::MemoryOp>()) {
    if (outbox.getRole() != ir::Role::Outbox || !outbox.getTransfers())
      continue;
    for (auto transfer : outbox.getTransfersAttr().getAsRange<ir::TransferAttr>())
      if (ir::MemoryOp inbox = inboxes.lookup(transfer))
        rows += formatv(
            "    {{.tensor = {0}, // {1}\n"
            "     .fromStage = {2}, .phase = {3}, .from = {4},\n"
            "     .toStage = {5}, .to = {6}, .bytes = {7}},\n",
            stringLiteral(outbox.getSymName()), shapeText(outbox.getType()), transfer.getFrom(),
            phaseName(tasks.phaseOf(outbox, transfer.getFrom(), true)), placeText(outbox),
            transfer.getTo(), placeText(inbox), requireHome(outbox).getBytes());
  }
  if (!rows.empty())
    os << "// Tensors that stages of this rank give each other, copied once they are made.\n"
       << "constexpr Move kMoves[] = {\n"
       << rows << "};\n\n";
  return !rows.empty();
}

std::vector<ir::MemoryOp> replicatedMemories(ir::ProgramOp program, int64_t stage, ir::Role role) {
  std::vector<ir::MemoryOp> found;
  scheduleOf(program, false).walk([&](ir::AllReduceOp sum) {
    if (!sum.getStage() || static_cast<int64_t>(*sum.getStage()) != stage)
      return WalkResult::advance();
    const SymbolTable symbols(program);
    for (auto name : sum.getMemories().getAsRange<FlatSymbolRefAttr>())
      if (auto memory = cast<ir::MemoryOp>(symbols.lookup(name.getAttr()));
          memory.getRole() == role)
        found.push_back(memory);
    return WalkResult::interrupt();
  });
  return found;
}

/// The positions in kMemories of what replicas of a stage bring together.
static std::string printReplicated(llvm::raw_ostream &os, ir::ProgramOp program, int64_t stage,
                                   ir::Role role, const std::string &name) {
  llvm::DenseMap<Operation *, int> positions;
  int position = 0;
  for (auto memory : program.getBody().getOps<ir::MemoryOp>()) {
    positions[memory] = position;
    position += isListed(memory);
  }
  std::string rows;
  for (ir::MemoryOp memory : replicatedMemories(program, stage, role))
    rows += formatv("    {0}, // {1}\n", positions[memory], commentText(memory.getSymName()));
  if (rows.empty())
    return "{}";
  std::string table = name + std::to_string(stage);
  os << "constexpr int " << table << "[] = {\n" << rows << "};\n";
  return table;
}

void printStages(llvm::raw_ostream &os, ir::ProgramOp program, const Plan &plan) {
  bool hasVersions = llvm::any_of(program.getBody().getOps<ir::MemoryOp>(), [](ir::MemoryOp m) {
    return requireHome(m).getRegion() == names::kVersionsRegion;
  });
  std::string rows;
  for (auto stage : program.getBody().getOps<ir::StageOp>()) {
    uint64_t id = stage.getId();
    ArrayRef<int64_t> slots = stage.getSlots().value_or(ArrayRef<int64_t>());
    os << formatv(
        "constexpr int kSlotTable{0}[] = {{{1}};\n", id,
        slots.empty()
            ? "0"
            : llvm::join(llvm::map_range(slots, [](int64_t slot) { return std::to_string(slot); }),
                         ", "));
    PlanStage planned = id < plan.stages.size() ? plan.stages[id] : PlanStage();
    std::string gradients = printReplicated(os, program, id, ir::Role::Gradient, "kGradients");
    std::string states = printReplicated(os, program, id, ir::Role::State, "kStates");
    rows += formatv("    {{.id = {0}, .ranks = ranks<{6}>,\n"
                    "     .slotRegion = {1}, .evaluationRegion = {2},\n"
                    "     .slotTable = kSlotTable{0}, .versionRegion = {3},\n"
                    "     .forwardSeconds = {4}, .backwardSeconds = {5},\n"
                    "     .gradients = {7}, .states = {8}},\n",
                    id, Places::regionIndex((names::kSlotsPrefix + Twine(id)).str()),
                    Places::regionIndex(names::kEvaluationRegion),
                    hasVersions ? Places::regionIndex(names::kVersionsRegion) : "-1",
                    secondsLiteral(planned.forwardSeconds), secondsLiteral(planned.backwardSeconds),
                    listText(program.getRanks(), ", "), gradients, states);
  }
  os << "constexpr StageInfo kStages[] = {\n" << rows << "};\n\n";
}

} // namespace pdc
