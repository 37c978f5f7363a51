#include "codegen/Places.h"

#include "codegen/CppText.h"
#include "compiler/Error.h"
#include "compiler/ir/Conversion.h"
#include "compiler/ir/Partition.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace pdc {

static std::string describe(Operation *op) {
  StringRef name = "?";
  if (auto text = op->getAttrOfType<StringAttr>("name"))
    name = text;
  else if (auto symbol = op->getAttrOfType<StringAttr>("sym_name"))
    name = symbol;
  return formatv("{0} {1}", op->getName().getStringRef(), commentText(name)).str();
}

StringRef requireText(Operation *op, StringRef attribute) {
  auto text = op->getAttrOfType<StringAttr>(attribute);
  if (!text || !isPlainIdentifier(text))
    throw Error(formatv("{0} has no legal '{1}'; run name-values first", describe(op), attribute));
  return text;
}

ir::HomeAttr requireHome(ir::MemoryOp memory) {
  if (!memory.getHome())
    throw Error(formatv("{0} has no home; run plan-memory first", describe(memory)));
  return *memory.getHome();
}

template <class Attr>
static Attr resultAttribute(ir::UnitOp unit, std::optional<ArrayAttr> list, unsigned result,
                            StringRef pass) {
  auto attribute = list && result < list->size() ? dyn_cast<Attr>((*list)[result]) : Attr();
  if (!attribute)
    throw Error(
        formatv("result {0} of {1} is not described; run {2} first", result, describe(unit), pass));
  return attribute;
}

ir::HomeAttr requireHome(ir::UnitOp unit, unsigned result) {
  return resultAttribute<ir::HomeAttr>(unit, unit.getHomes(), result, "plan-memory");
}

StringRef resultName(ir::UnitOp unit, unsigned result) {
  auto name = resultAttribute<StringAttr>(unit, unit.getResultVariables(), result, "name-values");
  if (!isPlainIdentifier(name))
    throw Error(formatv("{0} has a result named {1}, which is no legal name", describe(unit),
                        commentText(name)));
  return name;
}

static std::string elementTypeText(ElementType element) {
  switch (element) {
  case ElementType::f32:
    return "float";
  case ElementType::f64:
    return "double";
  case ElementType::f16:
    return "Float16";
  case ElementType::bf16:
    return "BFloat16";
  case ElementType::i64:
    return "int64_t";
  case ElementType::i32:
    return "int32_t";
  case ElementType::i8:
    return "int8_t";
  case ElementType::u8:
  case ElementType::boolean:
    return "uint8_t";
  }
  throw Error("unknown element type");
}

std::string elementTypeText(Type type) {
  StringRef stored = layoutOf(type).split(':').first;
  if (layoutOf(type).contains(':'))
    for (ElementType element :
         {ElementType::f32, ElementType::f16, ElementType::bf16, ElementType::i64, ElementType::i32,
          ElementType::i8, ElementType::u8})
      if (stored == StringRef(toString(element)))
        return elementTypeText(element);
  return elementTypeText(toTensorType(type).element);
}

std::string shapeText(Type type) {
  std::string text = toTensorType(type).toString();
  if (StringRef layout = layoutOf(type); !layout.empty())
    text += " " + commentText(layout);
  return text;
}

std::string Places::spell(StringRef region, StringRef name) {
  std::string text = region.str();
  std::replace(text.begin(), text.end(), '.', '_');
  return text + "::" + name.str();
}

std::string Places::regionIndex(StringRef region) { return "k" + toCamelCase(region); }

Places::Places(ir::ProgramOp program) {
  if (!program.getRegions())
    throw Error(formatv("{0} has no regions; run plan-memory first", describe(program)));
  for (auto region : program.getRegions()->getAsRange<DictionaryAttr>())
    regions.push_back(region.getAs<StringAttr>("name").str());
  program.walk([&](ir::MemoryOp memory) {
    ir::HomeAttr home = requireHome(memory);
    add(home, requireText(memory, "variable"), memory.getTensorType(), memory.getSymName());
  });
  program.walk([&](ir::UnitOp unit) {
    const std::optional<ir::Partition> partition = ir::placedPartitionOf(unit);
    const bool hasPlaces = unit.getKernel() || (partition && partition->joins);
    for (unsigned i = 0; hasPlaces && i < unit.getNumResults(); ++i)
      add(requireHome(unit, i), resultName(unit, i), unit.getResult(i).getType(), "");
  });
}

void Places::add(ir::HomeAttr home, StringRef name, Type type, StringRef tensor) {
  if (!llvm::is_contained(regions, home.getRegion()))
    throw Error(formatv("'{0}' lives in region '{1}', which its program does not list", name,
                        home.getRegion()));
  PlaceConstant constant{name.str(), home.getOffset(), type, tensor.str()};
  auto [place, isNew] = constants[home.getRegion().str()].try_emplace(name.str(), constant);
  if (!isNew && place->second.offset != constant.offset)
    throw Error(formatv("'{0}' names offsets {1} and {2} of region '{3}'; this is a bug in "
                        "name-values",
                        name, place->second.offset, constant.offset, home.getRegion()));
}

static void printRegion(llvm::raw_ostream &os, StringRef region,
                        const std::map<std::string, PlaceConstant> &byName) {
  std::vector<PlaceConstant> sorted;
  for (const auto &[name, constant] : byName)
    sorted.push_back(constant);
  llvm::stable_sort(sorted, [](auto &a, auto &b) { return a.offset < b.offset; });
  auto lineOf = [](const PlaceConstant &c) {
    return formatv("constexpr int64_t {0} = {1};", c.name, c.offset).str();
  };
  size_t longest = 0;
  for (const PlaceConstant &c : sorted)
    longest = std::max(longest, lineOf(c).size());
  // As wide as all are, but for names that leave no room.
  const size_t columns = std::min<size_t>(longest, 63);
  os << "namespace " << StringRef(Places::spell(region, "")).drop_back(2) << " {\n";
  for (const PlaceConstant &c : sorted) {
    std::string line = lineOf(c);
    std::string comment = shapeText(c.type);
    if (!c.tensor.empty())
      comment += " " + commentText(c.tensor);
    if (std::max(line.size(), columns) + 4 + comment.size() <= kColumns)
      os << llvm::left_justify(line, columns) << " // " << comment << '\n';
    else
      os << commentBlock(comment) << line << '\n';
  }
  os << "}\n\n";
}

void Places::print(llvm::raw_ostream &os) const {
  const bool hasNew = llvm::any_of(constants, [](const auto &region) {
    return llvm::any_of(region.second, [](const auto &place) {
      return StringRef(place.first).starts_with("new_");
    });
  });
  os << commentBlock(
      "The regions of the arena and the places in them: bytes from the start of a copy. Beside "
      "each "
      "its type, shape, layout (a tag of oneDNN; none: row-major) and ONNX name. Places that are "
      "never in use together may share bytes" +
      std::string(hasNew ? "; new_X is X behind an update." : "."));
  os << "enum RegionIndex : int { ";
  llvm::interleaveComma(regions, os, [&](const std::string &name) { os << regionIndex(name); });
  os << " };\n\n";
  for (const std::string &region : regions)
    if (auto found = constants.find(region); found != constants.end())
      printRegion(os, region, found->second);
}

} // namespace pdc
