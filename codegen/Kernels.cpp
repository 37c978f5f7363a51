#include "codegen/Kernels.h"

#include "codegen/CppText.h"
#include "codegen/Places.h"
#include "codegen/RuntimeNames.h"
#include "compiler/Error.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <set>

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

bool isBroadcast(ir::UnitOp unit) {
  return unit.getKernel() && unit.getKernel()->getName() == names::kBroadcastKernel;
}

bool isElementwise(ir::UnitOp unit) {
  return unit.getKernel() &&
         (isBroadcast(unit) || unit.getKernel()->getName() == names::kElementwiseKernel);
}

bool isSharedUpdate(Operation &op) {
  auto unit = dyn_cast<ir::UnitOp>(op);
  return unit && unit.getKernel() &&
         llvm::is_contained(names::kSharedUpdates, unit.getKernel()->getName());
}

std::string nodeNames(ir::UnitOp unit) {
  std::vector<std::string> texts;
  for (auto node : unit.getBody().getOps<ir::NodeOp>())
    if (node.getOp() != "Constant")
      texts.push_back(commentText(node.getName()));
  return texts.empty() ? commentText(unit.getName()) : llvm::join(texts, ", ");
}

std::vector<std::string> kernelClasses(ir::ProgramOp program) {
  std::set<std::string> classes;
  program.walk([&](Operation *op) {
    if (auto unit = dyn_cast<ir::UnitOp>(op); unit && unit.getKernel())
      classes.insert(unit.getKernel()->getName().str());
    if (auto accumulate = dyn_cast<ir::AccumulateOp>(op); accumulate && !accumulate.getFused())
      classes.insert(names::kElementwiseKernel);
  });
  return {classes.begin(), classes.end()};
}

static std::string fieldText(mlir::Attribute value) {
  if (auto boolean = dyn_cast<BoolAttr>(value))
    return boolean.getValue() ? "true" : "false";
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return integerLiteral(integer.getInt());
  if (auto number = dyn_cast<FloatAttr>(value))
    return doubleLiteral(number.getValueAsDouble());
  if (auto text = dyn_cast<StringAttr>(value))
    return stringLiteral(text);
  std::vector<std::string> elements;
  if (auto integers = dyn_cast<DenseI64ArrayAttr>(value))
    for (int64_t integer : integers.asArrayRef())
      elements.push_back(integerLiteral(integer));
  else if (auto numbers = dyn_cast<DenseF64ArrayAttr>(value))
    for (double number : numbers.asArrayRef())
      elements.push_back(doubleLiteral(number));
  else if (auto array = dyn_cast<ArrayAttr>(value))
    for (mlir::Attribute element : array)
      elements.push_back(fieldText(element));
  else
    throw Error("a kernel's field is no number, text or list");
  return "{" + llvm::join(elements, ", ") + "}";
}

std::string memberInitialiser(StringRef lead, StringRef name, ir::KernelAttr kernel,
                              StringRef closing) {
  std::vector<std::string> fields;
  for (NamedAttribute field : kernel.getFields())
    fields.push_back("." + field.getName().str() + " = " + fieldText(field.getValue()));
  return listText((lead + name + "_(device, {").str(), fields, ("}" + closing).str(), 2);
}

static ir::KernelAttr withoutName(ir::KernelAttr kernel) {
  NamedAttrList fields(kernel.getFields());
  fields.erase("name");
  MLIRContext *context = kernel.getContext();
  return ir::KernelAttr::get(context, kernel.getName(), fields.getDictionary(context), 0, false,
                             false, false);
}

/// What fails may be any of its units.
static ir::KernelAttr namedForAll(const KernelMember &member) {
  NamedAttrList fields(member.kernel.getFields());
  const std::string first = cast<StringAttr>(fields.get("name")).str();
  MLIRContext *context = member.kernel.getContext();
  fields.set("name",
             StringAttr::get(context,
                             first + " and " + std::to_string(member.names.size() - 1) + " more"));
  return ir::KernelAttr::get(context, member.kernel.getName(), fields.getDictionary(context),
                             member.kernel.getWorkspace(), member.kernel.getAccumulates(),
                             member.kernel.getMultipliesPlain(), member.kernel.getAddsToLast());
}

StageKernels::StageKernels(ir::StageOp stage) {
  std::set<std::string> variables;
  llvm::DenseMap<ir::KernelAttr, size_t> placesByKernel; // of kernels without names
  stage.walk([&](ir::UnitOp unit) {
    if (!unit.getKernel() || isElementwise(unit))
      return;
    const std::string variable = requireText(unit, "variable").str();
    auto [place, isNew] = placesByKernel.try_emplace(withoutName(*unit.getKernel()), all.size());
    if (isNew && !variables.insert(variable).second)
      throw Error(
          formatv("'{0}' names two different kernels; this is a bug in name-values", variable));
    if (isNew)
      all.push_back({variable, *unit.getKernel(), nodeNames(unit)});
    places[unit] = place->second;
    KernelMember &member = all[place->second];
    ++member.units;
    if (auto name = unit.getKernel()->getFields().getAs<StringAttr>("name"))
      member.names.insert(name.str());
  });
  for (KernelMember &member : all)
    if (member.names.size() > 1)
      member.kernel = namedForAll(member);
}

} // namespace pdc
