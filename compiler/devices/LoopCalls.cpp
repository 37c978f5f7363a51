#include "compiler/devices/LoopCalls.h"

#include <set>

namespace pdc {

namespace {

/// A beginning of calls in expressions. `alone`: one call by itself.
struct LoopFunction {
  std::string_view text;
  double alone, inVectors = 0;
};

constexpr LoopFunction kFunctions[] = {
    {"std::expm1(", 4.5, 0.13}, {"std::exp(", 4, 0.1},     {"std::log1p(", 4.5, 0.19},
    {"std::log(", 4, 0.18},     {"std::tanh(", 4.5, 0.12}, {"std::tan(", 2.3},
    {"std::erf(", 4.5, 0.3},    {"std::pow(", 8, 0.5},     {"std::sinh(", 2.9},
    {"std::sin(", 5, 0.2},      {"std::cosh(", 2},         {"std::cos(", 5, 0.2},
    {"std::asin", 1.2},         {"std::acos", 1.4},        {"std::atan(", 4, 0.12},
    {"std::atanh(", 1.4},       {"std::fmod(", 1.8}};

/// The calls that begin so, each text once: the compiler makes equal calls once.
size_t countDistinct(std::string_view expression, std::string_view name) {
  std::set<std::string_view> calls;
  for (size_t at = expression.find(name); at != std::string_view::npos;
       at = expression.find(name, at + 1)) {
    size_t end = expression.find('(', at) + 1;
    for (int open = 1; open > 0 && end < expression.size(); ++end)
      open += (expression[end] == '(') - (expression[end] == ')');
    calls.insert(expression.substr(at, end - at));
  }
  return calls.size();
}

/// Loops multiply or divide where an exponent is one of these.
bool isProduct(std::string_view op, std::optional<double> exponent) {
  if (!exponent)
    return false;
  const double power = *exponent - (op == "PowGrad" ? 1 : 0);
  return power == -1 || power == 0 || power == 1 || power == 2 || power == 3;
}

} // namespace

LoopCalls &LoopCalls::operator+=(const LoopCalls &other) {
  library += other.library;
  vectors += other.vectors;
  alone += other.alone;
  return *this;
}

LoopCalls loopCalls(std::string_view op, std::string_view expression, std::optional<double> last) {
  LoopCalls calls;
  for (const LoopFunction &function : kFunctions) {
    if (function.text == "std::pow(" && isProduct(op, last))
      continue;
    const auto count = static_cast<double>(countDistinct(expression, function.text));
    calls.vectors += count * function.inVectors;
    (function.inVectors > 0 ? calls.alone : calls.library) += count * function.alone;
  }
  return calls;
}

} // namespace pdc
