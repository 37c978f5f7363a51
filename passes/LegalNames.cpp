#include "passes/LegalNames.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

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
    "uint64_t"};

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

static std::string shortPath(llvm::StringRef path) {
  llvm::SmallVector<llvm::StringRef> parts;
  path.split(parts, '/', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  std::vector<std::string> kept;
  llvm::StringRef before, forward;
  for (llvm::StringRef part : parts) {
    auto [name, result] = part.split(':');
    std::string suffix = result.empty() ? "" : "_" + result.str();
    if (!kept.empty() && before == "grad") {
      // The word stands before `grad`.
      if (std::string word = backwardWord(name, forward); !word.empty())
        kept.insert(std::prev(kept.end()), word);
      kept.back() += suffix;
    } else if (!kept.empty() && isOperatorName(name)) {
      forward = name.take_until([](char c) { return c == '_'; });
      kept.back() += name.drop_front(forward.size()).str() + suffix;
    } else {
      if (!kept.empty() && name.starts_with(kept.back() + "."))
        kept.pop_back();
      kept.push_back(name.str() + suffix);
    }
    before = name;
  }
  return llvm::join(kept, "/");
}

std::string shortName(llvm::StringRef name) {
  if (!name.contains('/'))
    return name.str();
  // A unit's name lists its nodes.
  std::vector<std::string> nodes;
  for (llvm::StringRef node : llvm::split(name, '+'))
    nodes.push_back(shortPath(node));
  return llvm::join(nodes, "/");
}

LegalNames::LegalNames() {
  for (llvm::StringRef word : reserved)
    taken.insert(word);
}

std::string LegalNames::unique(llvm::StringRef wanted) {
  std::string base = legalName(shortName(wanted)), name = base;
  for (int number = 2; !taken.insert(name).second; ++number)
    name = base + "_" + std::to_string(number);
  return name;
}

} // namespace pdc
