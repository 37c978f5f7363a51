#include "codegen/DeviceLoops.h"

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

ArrayRef<int64_t> fieldOf(ir::UnitOp unit, StringRef name) {
  auto field = unit.getKernel()->getFields().getAs<DenseI64ArrayAttr>(name);
  if (!field)
    throw Error(
        formatv("the loop of unit {0} has no field '{1}'", commentText(unit.getName()), name));
  return field;
}

std::string templateList(ArrayRef<int64_t> values) {
  return "<" + llvm::join(llvm::map_range(values, integerLiteral), ", ") + ">";
}

/// `strided<0, 1>(x)`, or `part<8, 16, 1>(x)` of what begins behind the pointer or is a part.
static std::string placeText(ir::UnitOp unit, StringRef strides, StringRef offsets, unsigned index,
                             const std::string &pointer, bool isPart) {
  const size_t rank = fieldOf(unit, "extents").size();
  SmallVector<int64_t> numbers(fieldOf(unit, strides).slice(index * rank, rank));
  if (isPart)
    numbers.insert(numbers.begin(), fieldOf(unit, offsets)[index]);
  return (isPart ? names::kPart : names::kStrided) + templateList(numbers) + "(" + pointer + ")";
}

std::string stridedText(ir::UnitOp unit, const LoopOperand &operand) {
  return placeText(unit, "strides", "offsets", operand.index, operand.pointer, operand.isPart());
}

std::vector<std::string> resultTexts(ir::UnitOp unit, ArrayRef<std::string> pointers,
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

DeviceLoops::DeviceLoops(int program) : space(formatv("stage_{0}_loops", program)) {}

/// A pointer or `number(x)` where nothing else is repeated.
static std::string operandText(ir::UnitOp unit, const LoopOperand &operand) {
  if (isBroadcast(unit))
    return stridedText(unit, operand);
  return operand.isCaptured ? names::kCudaNumber + ("(" + operand.name + ")") : operand.name;
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

/// What stands between the braces of a loop's function.
static std::string bodyText(ir::UnitOp unit, ArrayRef<std::string> operands,
                            ArrayRef<std::string> results) {
  bool repeats = isBroadcast(unit);
  std::string lead = std::string(repeats ? names::kBroadcast : names::kCudaLoop) + "(run, ";
  std::string walked =
      repeats ? names::kExtents + templateList(fieldOf(unit, "extents")) + "()" : kCount;
  std::string indent(2 + lead.substr(0, lead.find('(') + 1).size(), ' ');
  std::string text = "  " + lead + walked + ",\n";
  for (const std::string &line : loopBody(unit, operands, indent.size(), LoopPlace::device))
    text += indent + line + (StringRef(line).ends_with("}") ? ",\n" : "\n");
  std::vector<std::string> arguments{
      names::kInto + ("(" + llvm::join(resultTexts(unit, results, LoopPlace::device), ", ")) + ")"};
  for (const LoopOperand &operand : loopOperands(unit, operands))
    arguments.push_back(operandText(unit, operand));
  return text + listText(indent, arguments, ");", 0) + "\n";
}

/// The parameters of a loop's function: pointers to results, then to operands.
static std::vector<std::string> parametersOf(ir::UnitOp unit, ArrayRef<std::string> operands,
                                             ArrayRef<std::string> results) {
  std::vector<std::string> parameters{"const Run &run"};
  if (!isBroadcast(unit))
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

const DeviceLoops::Function &DeviceLoops::functionOf(ir::UnitOp unit,
                                                     ArrayRef<std::string> pointers) {
  std::vector<std::string> operands = operandNames(unit, pointers), results = resultNames(unit);
  std::vector<std::string> parameters = parametersOf(unit, operands, results);
  std::string body = bodyText(unit, operands, results);
  auto [found, isNew] =
      numbers.try_emplace(llvm::join(parameters, ", ") + "\n" + body, functions.size());
  if (!isNew) {
    ++functions[found->second].calls;
    return functions[found->second];
  }
  std::string name = wantedName(unit);
  if (unsigned count = ++named[name]; count > 1)
    name += std::to_string(count);
  functions.push_back(
      {name, listText("void " + name + "(", parameters, ")", 0), body, nodeNames(unit)});
  return functions.back();
}

std::string DeviceLoops::call(ir::UnitOp unit, ArrayRef<std::string> operands,
                              ArrayRef<std::string> results, unsigned base) {
  std::vector<std::string> arguments{"run"};
  if (!isBroadcast(unit))
    arguments.push_back(integerLiteral(loopElements(unit)));
  llvm::append_range(arguments, results);
  for (const LoopPointer &operand : distinctPointers(unit, operands))
    arguments.push_back(operand.name);
  return listText(space + "::" + functionOf(unit, operands).name + "(", arguments, ");", base);
}

std::string DeviceLoops::declarations() const {
  std::string text = "// The loops of the .cu file beside this one.\nnamespace " + space + " {\n";
  for (const Function &function : functions)
    text += function.head + ";\n";
  return text + "}\n\n";
}

std::string DeviceLoops::source(StringRef title) const {
  std::string text =
      commentBlock(("The loops of " + title + ". Generated by pdc; do not edit.").str());
  text += formatv("\n#include \"{0}\"\n\n#include <cmath>\n#include <limits>\n\n"
                  "using namespace {1};\nusing namespace {2};\n\nnamespace {3} {{\n",
                  names::kCudaLoops, names::kNamespace, names::kCudaNamespace, space);
  for (const Function &function : functions) {
    std::string calls =
        function.calls > 1 ? formatv(" (and {0} more)", function.calls - 1).str() : "";
    text += "\n" + commentBlock(function.nodes + calls) + function.head + " {\n" + function.body +
            "}\n";
  }
  return text + "\n} // namespace " + space + "\n";
}

} // namespace pdc
