#include "runtime/LearningRate.h"

#include "runtime/Error.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

namespace pdc::runtime {

LearningRate::LearningRate(double base, const std::string &schedule, int64_t totalSteps)
    : base(base), total(std::max<int64_t>(totalSteps, 1)),
      size(std::max<int64_t>(totalSteps / 3, 1)) {
  std::istringstream fields(schedule);
  std::string field;
  std::getline(fields, field, ',');
  static constexpr const char *kNames[] = {"constant", "step", "cosine", "linear"};
  auto name = std::find(std::begin(kNames), std::end(kNames), field);
  if (name == std::end(kNames))
    throw Error("--lr-schedule ", schedule, ": '", field,
                "' is not known; expected constant|step|cosine|linear[,warmup=N], and with step "
                ",size=N,gamma=G");
  kind = Kind(name - std::begin(kNames));
  while (std::getline(fields, field, ','))
    if (const std::string expected = take(field); !expected.empty())
      throw Error("--lr-schedule ", schedule, ": found '", field, "', expected ", expected);
}

/// Returns what was expected instead, if anything.
std::string LearningRate::take(const std::string &field) {
  constexpr double kMost = 1e15;
  const size_t equals = field.find('=');
  const std::string key = field.substr(0, equals);
  if (key != "warmup" && !(kind == Kind::step && (key == "size" || key == "gamma")))
    return kind == Kind::step ? "warmup=N, size=N or gamma=G" : "warmup=N";
  const char *begin = field.data() + (equals == std::string::npos ? field.size() : equals + 1);
  double value = 0;
  auto [end, problem] = std::from_chars(begin, field.data() + field.size(), value);
  const bool isNumber =
      problem == std::errc() && end == field.data() + field.size() && value >= 0 && value <= kMost;
  if (key == "gamma") {
    gamma = value;
    return isNumber ? "" : "a number from 0 to 1e15";
  }
  const double least = key == "size" ? 1 : 0;
  if (!isNumber || value != std::floor(value) || value < least)
    return std::string("a whole number from ") + (least > 0 ? "1" : "0") + " to 1e15";
  (key == "size" ? size : warmup) = int64_t(value);
  return "";
}

double LearningRate::at(int64_t step) const {
  if (step <= warmup)
    return base * double(step) / double(warmup);
  double done =
      std::min(1.0, double(step - 1 - warmup) / double(std::max<int64_t>(total - warmup, 1)));
  switch (kind) {
  case Kind::constant:
    return base;
  case Kind::step:
    return base * std::pow(gamma, double((step - 1) / size));
  case Kind::cosine:
    return base * 0.5 * (1 + std::cos(std::numbers::pi * done));
  case Kind::linear:
    return base * (1 - done);
  }
  return base;
}

} // namespace pdc::runtime
