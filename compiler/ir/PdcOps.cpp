#include "compiler/ir/Pdc.h"

#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace pdc::ir;

// pdc.unit "name" origin "origin" forward microbatch (%a = %x : t, ...) -> (t, ...) {attrs} { ... }

void UnitOp::print(OpAsmPrinter &p) {
  p << ' ' << getNameAttr() << " origin " << getOriginAttr() << ' ' << stringifyPhase(getPhase())
    << ' ' << stringifyRate(getRate()) << " (";
  Block &block = getBody().front();
  llvm::interleaveComma(llvm::zip(block.getArguments(), getOperands()), p, [&](auto pair) {
    auto [argument, operand] = pair;
    p << argument << " = " << operand << " : " << operand.getType();
  });
  p << ") -> (";
  llvm::interleaveComma(getResultTypes(), p);
  p << ')';
  p.printOptionalAttrDictWithKeyword(getOperation()->getAttrs(),
                                     {"name", "origin", "phase", "rate"});
  p << ' ';
  p.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

template <class EnumAttr, class Symbolize>
static ParseResult parseEnum(OpAsmParser &parser, OperationState &result, StringRef name,
                             Symbolize symbolize) {
  StringRef keyword;
  SMLoc where = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  auto value = symbolize(keyword);
  if (!value)
    return parser.emitError(where) << "'" << keyword << "' is no " << name;
  result.addAttribute(name, EnumAttr::get(parser.getContext(), *value));
  return success();
}

ParseResult UnitOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name, origin;
  if (parser.parseAttribute(name, "name", result.attributes) || parser.parseKeyword("origin") ||
      parser.parseAttribute(origin, "origin", result.attributes) ||
      parseEnum<PhaseAttr>(parser, result, "phase",
                           [](StringRef s) { return symbolizePhase(s); }) ||
      parseEnum<RateAttr>(parser, result, "rate", [](StringRef s) { return symbolizeRate(s); }))
    return failure();
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SmallVector<Type> types;
  auto parseOperand = [&]() -> ParseResult {
    OpAsmParser::Argument &argument = arguments.emplace_back();
    Type &type = types.emplace_back();
    if (parser.parseArgument(argument) || parser.parseEqual() ||
        parser.parseOperand(operands.emplace_back()) || parser.parseColonType(type))
      return failure();
    argument.type = type;
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOperand) ||
      parser.parseArrow() || parser.parseLParen())
    return failure();
  if (failed(parser.parseOptionalRParen()))
    if (parser.parseTypeList(result.types) || parser.parseRParen())
      return failure();
  SMLoc where = parser.getCurrentLocation();
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.resolveOperands(operands, types, where, result.operands) ||
      parser.parseRegion(*result.addRegion(), arguments, /*enableNameShadowing=*/true))
    return failure();
  return success();
}

#define GET_OP_CLASSES
#include "compiler/ir/PdcOps.cpp.inc"
