#include "codegen/LoopBody.h"

#include "codegen/CppText.h"
#include "codegen/Kernels.h"
#include "codegen/Places.h"
#include "codegen/RuntimeNames.h"
#include "compiler/Error.h"
#include "compiler/ir/Conversion.h"
#include "compiler/operators/Operator.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace pdc {

static std::string attributeText(DictionaryAttr attributes, StringRef name) {
  mlir::Attribute attribute = attributes.get(name);
  if (auto number = dyn_cast_or_null<FloatAttr>(attribute))
    return floatLiteral(number.getValueAsDouble());
  if (auto integer = dyn_cast_or_null<IntegerAttr>(attribute))
    return floatLiteral(static_cast<double>(integer.getInt()));
  throw Error(formatv("an expression reads attribute '{0}', which its node lacks", name));
}

/// A loop computes in f32 what is stored in 16 bits.
static std::string computedTypeText(Type type) {
  return bytesPerElement(toTensorType(type).element) == 2 ? "float" : elementTypeText(type);
}

static bool isNameCharacter(char c) { return llvm::isAlnum(c) || c == '_'; }

/// Of `$attribute == 9 ? one : other` the side that the node's attribute chooses: nobody should
/// have to work that out who reads the loop.
static StringRef chosenSide(StringRef expression, DictionaryAttr attributes) {
  auto [condition, sides] = expression.split(" ? ");
  auto [name, number] = condition.split(" == ");
  int64_t wanted = 0;
  if (!name.consume_front("$") || number.getAsInteger(10, wanted))
    return expression;
  auto attribute = attributes.getAs<IntegerAttr>(name);
  auto [one, other] = sides.split(" : ");
  return !attribute ? expression : attribute.getInt() == wanted ? one : other;
}

std::string substitute(StringRef expression, ArrayRef<std::string> operands,
                       DictionaryAttr attributes) {
  expression = chosenSide(expression, attributes);
  std::string text;
  while (!expression.empty()) {
    size_t dollar = expression.find('$');
    text += expression.substr(0, dollar);
    expression = dollar == StringRef::npos ? StringRef() : expression.substr(dollar + 1);
    if (dollar == StringRef::npos)
      break;
    StringRef name = expression.take_while(isNameCharacter);
    expression = expression.drop_front(name.size());
    size_t index = 0;
    if (name.getAsInteger(10, index))
      text += attributeText(attributes, name);
    else if (index < operands.size())
      text += operands[index];
    else
      throw Error(formatv("an expression reads operand {0} of {1}", index, operands.size()));
  }
  return text;
}

/// Whether a node only says where parts lie, or how large they are.
static bool saysPlace(ir::NodeOp node) {
  if (node.getOp() != "Constant")
    return node.getOp() == "Split" || node.getOp() == "Concat";
  return llvm::all_of(node->getUsers(), [](Operation *user) {
    auto reader = dyn_cast<ir::NodeOp>(user);
    return reader && reader.getOp() == "Split";
  });
}

/// The Splits that read an operand of a loop, in order; none of an operand that is read as it is.
static SmallVector<ir::NodeOp> divisionsOf(ir::UnitOp unit, Value argument) {
  SmallVector<ir::NodeOp> divisions;
  for (auto node : unit.getBody().getOps<ir::NodeOp>())
    if (node.getOp() == "Split" && node.getOperand(0) == argument)
      divisions.push_back(node);
  return divisions;
}

/// The offset and the strides of an array that a loop reads.
static mlir::Attribute placeOf(ir::UnitOp unit, unsigned index) {
  const size_t rank = fieldOf(unit, "extents").size();
  SmallVector<int64_t> numbers(fieldOf(unit, "strides").slice(index * rank, rank));
  numbers.push_back(fieldOf(unit, "offsets")[index]);
  return DenseI64ArrayAttr::get(unit.getContext(), numbers);
}

/// Everything that the kernel's fields list, with what stands twice. Parts of one pointer are
/// numbered by where they lie, which says more than what divides it: that may be several Splits.
static std::vector<LoopOperand> allOperands(ir::UnitOp unit, ArrayRef<std::string> names) {
  std::vector<LoopOperand> operands;
  llvm::StringMap<llvm::MapVector<mlir::Attribute, unsigned>> places; ///< of parts, by pointer
  auto add = [&](const std::string &pointer, Value value, bool isPart) {
    const auto index = static_cast<unsigned>(operands.size());
    std::string name = pointer;
    if (isPart) {
      auto &known = places[pointer];
      const mlir::Attribute place = placeOf(unit, index);
      const unsigned number = known.try_emplace(place, known.size()).first->second;
      name = formatv("{0}_part{1}_", pointer, number);
    }
    operands.push_back({name, pointer, value.getType(), value, index});
  };
  for (auto [value, name] : llvm::zip(unit.getBody().getArguments(), names)) {
    const SmallVector<ir::NodeOp> divisions = divisionsOf(unit, value);
    if (divisions.empty())
      add(name, value, false);
    for (ir::NodeOp division : divisions)
      for (Value part : division.getResults())
        if (!part.use_empty())
          add(name, part, true);
  }
  return operands;
}

/// What a loop computes of a result: the result itself, or the parts that are put together.
static SmallVector<Value> partsOfResult(Value yielded) {
  if (auto node = yielded.getDefiningOp<ir::NodeOp>(); node && node.getOp() == "Concat")
    return SmallVector<Value>(node.getOperands());
  return {yielded};
}

unsigned countLoopResults(ir::UnitOp unit, unsigned result) {
  Operation *end = unit.getBody().front().getTerminator();
  return partsOfResult(end->getOperand(result)).size();
}

namespace {

/// Gives each value of a unit its text: parameters, constants, and `t0_`, `t1_`, ... for what a
/// node makes (no tensor's name ends so); the latter are declared in `lines`.
class BodyText {
public:
  BodyText(ir::UnitOp unit, ArrayRef<std::string> pointers, LoopText loop)
      : unit(unit), loop(loop) {
    for (const LoopOperand &operand : allOperands(unit, pointers))
      texts[operand.value] = operand.name;
    for (auto node : unit.getBody().getOps<ir::NodeOp>())
      if (!saysPlace(node))
        node.getOp() == "Constant" ? addConstant(node) : addNode(node);
  }

  std::vector<std::string> lines;
  /// Of what the loop computes: parts of a result that is put together one by one.
  std::vector<std::string> results() {
    std::vector<std::string> all;
    for (Value value : cast<ir::YieldOp>(unit.getBody().front().getTerminator()).getValues())
      for (Value part : partsOfResult(value))
        all.push_back(text(part));
    return all;
  }

private:
  std::string text(Value value) const { return texts.lookup(value); }

  void addConstant(ir::NodeOp node) {
    auto value = node.getOnnxAttributes().getAs<DenseElementsAttr>("value");
    if (!value || value.getNumElements() != 1)
      throw Error(formatv("constant {0} in unit {1} is not one number", commentText(node.getName()),
                          commentText(unit.getName())));
    double number = toTensor(value).data[0];
    std::string type = elementTypeText(node.getResult(0).getType());
    bool isReal = isa<FloatType>(value.getElementType());
    texts[node.getResult(0)] =
        isReal ? floatLiteral(number) : type + "(" + integerLiteral(toInteger(number)) + ")";
  }

  void addNode(ir::NodeOp node) {
    const Operator *op = findOperator(node.getOp());
    if (!op || op->expressions.size() < node.getNumResults())
      throw Error(formatv("operator {0} of node {1} has no expression to print",
                          commentText(node.getOp()), commentText(node.getName())));
    std::vector<std::string> operands;
    for (Value operand : node.getOperands())
      operands.push_back(text(operand));
    if (isOperand(node)) {
      texts[node.getResult(0)] = operands[0];
      return;
    }
    for (auto [i, result] : llvm::enumerate(node.getResults()))
      define(
          node, result,
          placed(expression(*op, i, operands, node.getOnnxAttributes()), hasKnownExponent(node)));
  }

  static bool hasKnownExponent(ir::NodeOp node) {
    const unsigned exponent = node.getOp() == "Pow" ? 1 : node.getOp() == "PowGrad" ? 2 : 0;
    auto made = exponent ? node.getOperand(exponent).getDefiningOp<ir::NodeOp>() : ir::NodeOp();
    return made && made.getOp() == "Constant";
  }

  /// The functions of the place where the loop runs.
  std::string placed(std::string text, bool knowsExponent) const {
    auto replace = [&](std::string_view standard, std::string_view own) {
      for (size_t at = 0; (at = text.find(standard, at)) != std::string::npos;)
        text.replace(at, standard.size(), own);
    };
    if (knowsExponent)
      replace(runtime_names::kPower, runtime_names::kKnownPower);
    if (loop.place != LoopPlace::device)
      for (auto [standard, own] : runtime_names::kVectorFunctions)
        replace(standard, own);
    return text;
  }

  /// Operators with any number of operands have a row for two; the others are folded in.
  static std::string expression(const Operator &op, size_t result, ArrayRef<std::string> operands,
                                DictionaryAttr attributes) {
    StringRef row(op.expressions[result].data(), op.expressions[result].size());
    if (!op.inputs.back().variadic)
      return substitute(row, operands, attributes);
    std::string folded = operands[0];
    for (const std::string &operand : operands.drop_front()) {
      bool isName = folded == operands[0];
      folded = substitute(row, {isName ? folded : "(" + folded + ")", operand}, attributes);
    }
    return folded;
  }

  /// Whether its result is its operand in a loop, which computes both in one type.
  static bool isOperand(ir::NodeOp node) {
    const Operator *op = findOperator(node.getOp());
    return op && node.getNumOperands() == 1 && node.getNumResults() == 1 &&
           !op->expressions.empty() &&
           chosenSide({op->expressions[0].data(), op->expressions[0].size()},
                      node.getOnnxAttributes()) == "$0" &&
           computedTypeText(node.getOperand(0).getType()) ==
               computedTypeText(node.getResult(0).getType());
  }

  static bool isReadByEndAlone(Value value) {
    if (!value.hasOneUse())
      return false;
    auto reader = dyn_cast<ir::NodeOp>(*value.user_begin());
    return reader ? reader.getOp() == "Concat" ||
                        (isOperand(reader) && isReadByEndAlone(reader.getResult(0)))
                  : isa<ir::YieldOp>(*value.user_begin());
  }

  /// Whether its expression says as much as its operator.
  static bool isArithmetic(ir::NodeOp node) {
    static constexpr StringRef signs[] = {"Add", "Cast", "Div", "Mul", "Neg", "Sub", "Sum"};
    return llvm::is_contained(signs, node.getOp());
  }

  /// A value that only the end of the unit reads stands there as it is; what several nodes compute
  /// alike has one name.
  void define(ir::NodeOp node, Value result, const std::string &value) {
    if (isReadByEndAlone(result)) {
      texts[result] = value;
      return;
    }
    if (result.use_empty())
      return;
    const std::string type = computedTypeText(result.getType());
    std::string &name = defined[type + " " + value];
    if (name.empty()) {
      name = "t" + std::to_string(lines.size()) + "_";
      std::string line = formatv("const {0} {1} = {2};", type, name, value);
      StringRef comment = loop.isShared ? node.getOp() : node.getName();
      const bool speaks = loop.isShared && isArithmetic(node);
      lines.push_back(speaks ? line : line + " // " + commentText(comment));
    }
    texts[result] = name;
  }

  ir::UnitOp unit;
  LoopText loop;
  llvm::DenseMap<Value, std::string> texts;
  llvm::StringMap<std::string> defined; ///< names, by type and expression
};

} // namespace

std::vector<LoopOperand> loopOperands(ir::UnitOp unit, ArrayRef<std::string> names) {
  bool isLong = toTensorType(unit.getResult(0).getType()).elementCount() > 1;
  std::vector<LoopOperand> operands;
  for (LoopOperand &operand : allOperands(unit, names)) {
    bool isNew =
        llvm::none_of(operands, [&](const LoopOperand &o) { return o.name == operand.name; });
    if (isa<NoneType>(operand.type) || !isNew)
      continue;
    operand.isCaptured =
        isLong && !operand.isPart() && toTensorType(operand.type).elementCount() == 1;
    operands.push_back(operand);
  }
  return operands;
}

/// `[lr = *lr](float w, float g)`, on two lines where one is too short.
static std::vector<std::string> opening(ArrayRef<LoopOperand> operands, const std::string &closing,
                                        unsigned base, LoopPlace place) {
  std::vector<std::string> captures, parameters, lines;
  for (const LoopOperand &operand : operands)
    if (operand.isCaptured && place == LoopPlace::host)
      captures.push_back(operand.name + " = *" + operand.name);
    else
      parameters.push_back(computedTypeText(operand.type) + " " + operand.name);
  std::string function = place == LoopPlace::host ? "]" : "] __device__";
  std::string head =
      "[" + llvm::join(captures, ", ") + function + "(" + llvm::join(parameters, ", ") + ")";
  if (base + head.size() + closing.size() <= kColumns)
    return {head + closing};
  const std::string text = captures.empty()
                               ? listText("[" + function + "(", parameters, ")" + closing, base)
                               : listText("[", captures, function, base) + "\n" +
                                     listText("(", parameters, ")" + closing, base);
  for (StringRef line : llvm::split(text, '\n'))
    lines.push_back(line.str());
  return lines;
}

/// Appends a statement, broken at spaces; lines after the first stand further right, and its
/// comment before it.
static void addStatement(std::vector<std::string> &lines, const std::string &statement,
                         unsigned lead, unsigned base) {
  std::string line(lead, ' ');
  StringRef rest = statement;
  if (base + lead + rest.size() > kColumns)
    if (auto [code, comment] = rest.split(" // "); !comment.empty()) {
      lines.push_back(line + "// " + comment.str());
      rest = code;
    }
  while (!rest.empty()) {
    // A comment is never broken: its rest would be code.
    StringRef word = rest.starts_with("//") ? rest : rest.substr(0, rest.find(' '));
    bool isFirst = line.find_first_not_of(' ') == std::string::npos;
    if (!isFirst && base + line.size() + 1 + word.size() > kColumns) {
      lines.push_back(line);
      line = std::string(lead + 4, ' ') + word.str();
    } else {
      line += (isFirst ? "" : " ") + word.str();
    }
    rest = rest.drop_front(word.size()).ltrim(' ');
  }
  lines.push_back(line);
}

std::vector<std::string> loopBody(ir::UnitOp unit, ArrayRef<std::string> names, unsigned base,
                                  LoopText loop) {
  BodyText body(unit, names, loop);
  const std::vector<std::string> results = body.results();
  bool isSingle = results.size() == 1;
  std::string value =
      isSingle ? results[0] : runtime_names::kResults + ("(" + llvm::join(results, ", ")) + ")";
  std::string type = isSingle ? " -> " + computedTypeText(unit.getResult(0).getType()) : "";
  std::vector<LoopOperand> operands = loopOperands(unit, names);
  std::vector<std::string> lines =
      opening(operands, type + " { return " + value + "; }", base, loop.place);
  if (body.lines.empty() && lines.size() == 1 && base + lines.front().size() <= kColumns)
    return lines;
  lines = opening(operands, type + " {", base, loop.place);
  for (const std::string &statement : body.lines)
    addStatement(lines, statement, 2, base);
  addStatement(lines, "return " + value + ";", 2, base);
  lines.push_back("}");
  return lines;
}

} // namespace pdc
