#include "codegen/LoopFunctions.h"

#include "codegen/CppText.h"
#include "codegen/Kernels.h"
#include "codegen/LoopBody.h"
#include "codegen/Places.h"
#include "codegen/RuntimeNames.h"
#include "compiler/Error.h"
#include "compiler/ir/Conversion.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;
namespace names = pdc::runtime_names;

namespace pdc {

std::string templateList(ArrayRef<int64_t> values) {
  return "<" + llvm::join(llvm::map_range(values, integerLiteral), ", ") + ">";
}

/// Loops of a host that stand oftener in a program are functions; the others stand where they run.
static constexpr size_t kMostInPlace = 3;

/// `strided<0, 1>(x)`, or `part<8, 16, 1>(x)` of what begins behind the pointer or is a part.
static std::string placeText(ir::UnitOp unit, StringRef strides, StringRef offsets, unsigned index,
                             const std::string &pointer, bool isPart) {
  const size_t rank = fieldOf(unit, "extents").size();
  SmallVector<int64_t> numbers(fieldOf(unit, strides).slice(index * rank, rank));
  if (isPart)
    numbers.insert(numbers.begin(), fieldOf(unit, offsets)[index]);
  return (isPart ? names::kPart : names::kStrided) + templateList(numbers) + "(" + pointer + ")";
}

/// Where a loop over repeated operands or parts reads one.
static std::string stridedText(ir::UnitOp unit, const LoopOperand &operand) {
  return placeText(unit, "strides", "offsets", operand.index, operand.pointer, operand.isPart());
}

/// Where a loop writes its results: the pointers, or `part<0, 16, 1>(y)` for each part of one that
/// is put together, and on the host for each of several.
static std::vector<std::string> resultTexts(ir::UnitOp unit, ArrayRef<std::string> pointers,
                                            LoopPlace place) {
  const bool areParts = place == LoopPlace::host && isBroadcast(unit) && pointers.size() > 1;
  std::vector<std::string> texts;
  for (auto [result, pointer] : llvm::enumerate(pointers)) {
    const unsigned parts = countLoopResults(unit, result);
    for (unsigned part = 0; part < parts; ++part)
      texts.push_back(parts == 1 && !areParts ? pointer
                                              : placeText(unit, "resultStrides", "resultOffsets",
                                                          texts.size(), pointer, true));
  }
  return texts;
}

int64_t loopElements(ir::UnitOp unit) {
  return requireHome(unit, 0).getBytes() /
         bytesPerElement(toTensorType(unit.getResult(0).getType()).element);
}

/// How many elements a loop without repetition computes.
static constexpr const char kCount[] = "count";

LoopFunctions::LoopFunctions(int program, LoopPlace place)
    : place(place), space(formatv("stage_{0}_loops", program)) {}

/// A pointer or, on a device, `number(x)` where nothing else is repeated.
static std::string operandText(ir::UnitOp unit, const LoopOperand &operand) {
  if (isBroadcast(unit))
    return stridedText(unit, operand);
  return operand.isCaptured ? names::kCudaNumber + ("(" + operand.name + ")") : operand.name;
}

/// What a loop writes and reads, behind its body.
static std::vector<std::string> argumentsOf(ir::UnitOp unit, ArrayRef<std::string> operands,
                                            ArrayRef<std::string> results, LoopPlace place) {
  const bool isDevice = place == LoopPlace::device;
  std::vector<std::string> arguments = resultTexts(unit, results, place);
  if (isDevice || (isBroadcast(unit) && arguments.size() > 1))
    arguments = {names::kInto + ("(" + llvm::join(arguments, ", ")) + ")"};
  for (const LoopOperand &operand : loopOperands(unit, operands))
    if (isDevice || !operand.isCaptured)
      arguments.push_back(operandText(unit, operand));
  return arguments;
}

std::vector<std::string> loopStatement(ir::UnitOp unit, ArrayRef<std::string> operands,
                                       ArrayRef<std::string> results, LoopText loop,
                                       const std::string &count, unsigned base) {
  const bool repeats = isBroadcast(unit);
  const std::string lead = repeats                           ? names::kBroadcast
                           : loop.place == LoopPlace::device ? names::kCudaLoop
                                                             : names::kElementwise;
  const std::string walked =
      repeats ? names::kExtents + templateList(fieldOf(unit, "extents")) + "()" : count;
  const std::string indent(lead.size() + 1, ' ');
  std::vector<std::string> lines{lead + "(run, " + walked + ","};
  for (const std::string &line : loopBody(unit, operands, base + indent.size(), loop))
    lines.push_back(indent + line + (StringRef(line).ends_with("}") ? "," : ""));
  const std::string end =
      listText(indent, argumentsOf(unit, operands, results, loop.place), ");", base);
  for (StringRef line : llvm::split(end, '\n'))
    lines.push_back(line.str());
  return lines;
}

/// Pointers to what a unit reads.
struct LoopPointer {
  std::string name;
  Type type;
};

/// By distinct names; absent ones are left out.
static std::vector<LoopPointer> distinctPointers(ir::UnitOp unit, ArrayRef<std::string> names) {
  std::vector<LoopPointer> pointers;
  for (auto [value, name] : llvm::zip(unit.getOperands(), names)) {
    bool isNew = llvm::none_of(pointers, [&](const LoopPointer &p) { return p.name == name; });
    if (!isa<NoneType>(value.getType()) && isNew)
      pointers.push_back({name, value.getType()});
  }
  return pointers;
}

/// Whether a loop's function is told how many elements there are: on a host the compiler knows it.
static bool hasCount(ir::UnitOp unit, LoopPlace place) {
  return place == LoopPlace::device && !isBroadcast(unit);
}

/// The parameters of a loop's function: pointers to results, then to operands.
static std::vector<std::string> parametersOf(ir::UnitOp unit, ArrayRef<std::string> operands,
                                             ArrayRef<std::string> results, LoopPlace place) {
  std::vector<std::string> parameters{"const Run &run"};
  if (hasCount(unit, place))
    parameters.push_back(std::string("int64_t ") + kCount);
  for (auto [result, variable] : llvm::zip(unit.getResults(), results))
    parameters.push_back(elementTypeText(result.getType()) + " *" + variable);
  for (const LoopPointer &operand : distinctPointers(unit, operands))
    parameters.push_back("const " + elementTypeText(operand.type) + " *" + operand.name);
  return parameters;
}

/// `x0`, `x1`, ... for the operands, or `x` for the only one: equal where the pointers are.
static std::vector<std::string> operandNames(ir::UnitOp unit, ArrayRef<std::string> pointers) {
  std::vector<LoopPointer> distinct = distinctPointers(unit, pointers);
  std::vector<std::string> result;
  for (const std::string &pointer : pointers) {
    auto found = llvm::find_if(distinct, [&](const LoopPointer &p) { return p.name == pointer; });
    result.push_back(distinct.size() == 1 ? "x" : formatv("x{0}", found - distinct.begin()).str());
  }
  return result;
}

static std::vector<std::string> resultNames(ir::UnitOp unit) {
  if (unit.getNumResults() == 1)
    return {"y"};
  std::vector<std::string> result;
  for (unsigned i = 0; i < unit.getNumResults(); ++i)
    result.push_back("y" + std::to_string(i));
  return result;
}

/// Casts by their direction.
static std::string wordOf(ir::NodeOp node) {
  if (node.getOp() != "Cast")
    return toCamelCase(node.getOp());
  auto bytes = [](Value value) { return bytesPerElement(toTensorType(value.getType()).element); };
  const int64_t from = bytes(node.getOperand(0)), to = bytes(node.getResult(0));
  return from > to ? "Narrow" : from < to ? "Widen" : "Cast";
}

/// What a loop computes: `sigmoidMulLoop`, `castToMulLoop` of more than four operators. The word at
/// its end tells it from the functions that expressions call.
static std::string wantedName(ir::UnitOp unit) {
  std::vector<std::string> operators;
  for (auto node : unit.getBody().getOps<ir::NodeOp>())
    if (node.getOp() != "Constant")
      operators.push_back(wordOf(node));
  if (operators.size() > 4)
    operators = {operators.front(), "To", operators.back()};
  std::string name = (unit.getNumOperands() ? llvm::join(operators, "") : "Fill") + "Loop";
  name[0] = llvm::toLower(name[0]);
  return name;
}

LoopFunctions::Function &LoopFunctions::functionOf(ir::UnitOp unit,
                                                   ArrayRef<std::string> pointers) {
  std::vector<std::string> operands = operandNames(unit, pointers), results = resultNames(unit);
  std::vector<std::string> parameters = parametersOf(unit, operands, results, place);
  const std::string count =
      place == LoopPlace::device ? kCount : integerLiteral(loopElements(unit));
  std::string body;
  for (const std::string &line : loopStatement(unit, operands, results, {place, true}, count, 2))
    body += "  " + line + "\n";
  auto [found, isNew] =
      numbers.try_emplace(llvm::join(parameters, ", ") + "\n" + body, functions.size());
  if (isNew)
    functions.push_back({"", wantedName(unit), parameters, body, nodeNames(unit)});
  return functions[found->second];
}

void LoopFunctions::name(Function &function) {
  function.name = function.wanted;
  if (unsigned count = ++named[function.wanted]; count > 1)
    function.name += std::to_string(count);
}

void LoopFunctions::count(ir::UnitOp unit, ArrayRef<std::string> operands) {
  ++functionOf(unit, operands).calls;
}

void LoopFunctions::nameCounted() {
  for (Function &function : functions)
    if (function.calls > kMostInPlace)
      name(function);
}

std::string LoopFunctions::call(ir::UnitOp unit, ArrayRef<std::string> operands,
                                ArrayRef<std::string> results, unsigned base) {
  Function &function = functionOf(unit, operands);
  if (place == LoopPlace::device) {
    if (++function.calls == 1)
      name(function);
  } else if (function.name.empty()) {
    return "";
  }
  function.isCalled = true;
  std::vector<std::string> arguments{"run"};
  if (hasCount(unit, place))
    arguments.push_back(integerLiteral(loopElements(unit)));
  llvm::append_range(arguments, results);
  for (const LoopPointer &operand : distinctPointers(unit, operands))
    arguments.push_back(operand.name);
  return listText(space + "::" + function.name + "(", arguments, ");", base);
}

static std::string headOf(const std::string &name, ArrayRef<std::string> parameters) {
  return listText("void " + name + "(", parameters, ")", 0);
}

bool LoopFunctions::empty() const {
  return llvm::none_of(functions, [](const Function &function) { return function.isCalled; });
}

std::string LoopFunctions::declarations() const {
  std::string text = "// The loops of the .cu file beside this one.\nnamespace " + space + " {\n";
  for (const Function &function : functions)
    text += headOf(function.name, function.parameters) + ";\n";
  return text + "}\n\n";
}

std::string LoopFunctions::definitions() const {
  std::string text = "namespace " + space + " {\n";
  for (const Function &function : functions) {
    if (!function.isCalled)
      continue;
    std::string calls =
        function.calls > 1 ? formatv(" (and {0} more)", function.calls - 1).str() : "";
    text += "\n" + commentBlock(function.nodes + calls) +
            headOf(function.name, function.parameters) + " {\n" + function.body + "}\n";
  }
  return text + "\n} // namespace " + space + "\n";
}

std::string LoopFunctions::source(StringRef title) const {
  return commentBlock(("The loops of " + title + ". Generated by pdc; do not edit.").str()) +
         formatv("\n#include \"{0}\"\n\n#include <cmath>\n#include <limits>\n\n"
                 "using namespace {1};\nusing namespace {2};\n\n",
                 names::kCudaLoops, names::kNamespace, names::kCudaNamespace)
             .str() +
         definitions();
}

} // namespace pdc
