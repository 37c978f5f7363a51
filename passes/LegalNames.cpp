#include "passes/LegalNames.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace pdc {

/// Keywords, and what generated sources call things themselves.
static constexpr llvm::StringLiteral reserved[] = {
    "alignas",       "alignof",     "and",
    "and_eq",        "asm",         "auto",
    "bitand",        "bitor",       "bool",
    "break",         "case",        "catch",
    "char",          "char8_t",     "char16_t",
    "char32_t",      "class",       "compl",
    "concept",       "const",       "consteval",
    "constexpr",     "constinit",   "const_cast",
    "continue",      "co_await",    "co_return",
    "co_yield",      "decltype",    "default",
    "delete",        "do",          "double",
    "dynamic_cast",  "else",        "enum",
    "explicit",      "export",      "extern",
    "false",         "float",       "for",
    "friend",        "goto",        "if",
    "inline",        "int",         "long",
    "mutable",       "namespace",   "new",
    "noexcept",      "not",         "not_eq",
    "nullptr",       "operator",    "or",
    "or_eq",         "private",     "protected",
    "public",        "register",    "reinterpret_cast",
    "requires",      "return",      "short",
    "signed",        "sizeof",      "static",
    "static_assert", "static_cast", "struct",
    "switch",        "template",    "this",
    "thread_local",  "throw",       "true",
    "try",           "typedef",     "typeid",
    "typename",      "union",       "unsigned",
    "using",         "virtual",     "void",
    "volatile",      "wchar_t",     "while",
    "xor",           "xor_eq",      "final",
    "override",      "import",      "module",
    "main",          "std",         "pdc",
    "runtime",       "run",         "device",
    "stage",         "program",     "first",
    "shape",         "prepare",     "forward",
    "backward",      "update",      "evaluate",
    "elementwise",   "accumulate",  "results",
    "send",          "receive",     "fixed",
    "scratch",       "slots",       "versions",
    "evaluation",    "NULL",        "EOF",
    "INFINITY",      "NAN",         "errno",
    "assert",        "stdin",       "stdout",
    "stderr",        "linux",       "unix",
    "i386",          "size_t",      "int8_t",
    "int16_t",       "int32_t",     "int64_t",
    "uint8_t",       "uint16_t",    "uint32_t",
    "uint64_t",      "updates",     "broadcast",
    "strided",       "part",        "into",
    "outsideRow",    "arcTangent",  "cosine",
    "errorFunction", "exponential", "exponentialLessOne",
    "logarithm",     "power",       "logarithmOfOneMore",
    "sine",          "knownPower",  "hyperbolicTangent"};

std::string legalName(llvm::StringRef name) {
  std::string legal;
  for (char c : name) {
    bool plain = llvm::isAlnum(c);
    if (plain)
      legal += c;
    else if (!legal.empty() && legal.back() != '_')
      legal += '_';
  }
  // Long enough to be told apart, short enough for a line.
  legal = llvm::StringRef(legal).substr(0, 60).rtrim('_').str();
  if (legal.empty() || llvm::isDigit(legal[0]))
    legal = "t" + legal;
  return legal;
}

/// `Conv`, `Gemm_1`: what torch puts behind a module's path.
static bool isOperatorName(llvm::StringRef part) {
  return !part.empty() && llvm::isUpper(part.front()) && !part.contains('.');
}

/// `ConvInputGrad` behind a `Conv` is `input`; other backward operators say nothing new.
static std::string backwardWord(llvm::StringRef part, llvm::StringRef forward) {
  part.consume_front(forward);
  return part.consume_back("Grad") && part.size() < 12 ? part.lower() : "";
}

/// `InvStdDev` -> `inv_std_dev`.
static std::string snakeCase(llvm::StringRef text) {
  std::string snake;
  for (char c : text) {
    if (llvm::isUpper(c) && !snake.empty() && llvm::isLower(snake.back()))
      snake += '_';
    snake += llvm::toLower(c);
  }
  return snake;
}

/// `dScale`: a gradient by the name of what it is the gradient of.
static bool isNamedGradient(llvm::StringRef result) {
  return result.size() > 1 && result[0] == 'd' && llvm::isUpper(result[1]);
}

/// The parts of a node's name that a reader needs: those of its module, and the operator's where it
/// is one of several of its kind, or `all` are to be told apart.
static std::vector<std::string> shortPath(llvm::StringRef path, bool all) {
  llvm::SmallVector<llvm::StringRef> parts;
  path.split(parts, '/', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  std::vector<std::string> kept;
  llvm::StringRef before, forward;
  for (llvm::StringRef part : parts) {
    auto [name, result] = part.split(':');
    std::string suffix = result.empty() ? "" : "_" + snakeCase(result);
    if (!kept.empty() && before == "grad") {
      // The word stands before `grad`; one of several gradients has its own.
      std::string word =
          isNamedGradient(result) ? snakeCase(result.drop_front()) : backwardWord(name, forward);
      if (!word.empty())
        kept.insert(std::prev(kept.end()), word);
      else if (all)
        kept.push_back(name.str());
      kept.back() += isNamedGradient(result) ? "" : suffix;
    } else if (!kept.empty() && isOperatorName(name)) {
      forward = name.take_until([](char c) { return c == '_'; });
      const bool isNumbered = forward != name || (!result.empty() && llvm::isDigit(result[0]));
      if (all || isNumbered)
        kept.push_back(name.str());
      kept.back() += suffix;
    } else {
      if (!kept.empty() && name.starts_with(kept.back() + "."))
        kept.pop_back();
      kept.push_back(name.str() + suffix);
    }
    before = name;
  }
  return kept;
}

std::string shortName(llvm::StringRef name, bool all) {
  if (!name.contains('/'))
    return name.str();
  // A unit's name lists its nodes, which often are of one module.
  std::vector<std::string> joined, before;
  for (llvm::StringRef node : llvm::split(name, '+')) {
    std::vector<std::string> path = shortPath(node, all);
    auto own = std::ranges::mismatch(path, before).in1;
    joined.insert(joined.end(), own, path.end());
    before = path;
  }
  return llvm::join(joined, "/");
}

LegalNames::LegalNames() {
  for (llvm::StringRef word : reserved)
    taken.insert(word);
}

void LegalNames::expect(llvm::StringRef wanted) {
  auto [first, isNew] = expected.try_emplace(legalName(shortName(wanted)), wanted.str());
  if (!isNew && first->second != wanted)
    contested.insert(first->first());
}

std::string LegalNames::unique(llvm::StringRef wanted) {
  std::string base = legalName(shortName(wanted));
  if (contested.contains(base))
    base = legalName(shortName(wanted, /*all=*/true));
  std::string name = base;
  for (int number = 2; !taken.insert(name).second; ++number)
    name = base + "_" + std::to_string(number);
  return name;
}

} // namespace pdc
