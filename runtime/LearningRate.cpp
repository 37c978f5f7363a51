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
  auto refuse = [&](const std::string &what) {
    return Error("--lr-schedule ", schedule, ": '", what,
                 "' is not known; expected constant|step|cosine|linear[,warmup=N], and with step "
                 ",size=N,gamma=G");
  };
  std::istringstream fields(schedule);
  std::string field;
  std::getline(fields, field, ',');
  static constexpr const char *kNames[] = {"constant", "step", "cosine", "linear"};
  auto name = std::find(std::begin(kNames), std::end(kNames), field);
  if (name == std::end(kNames))
    throw refuse(field);
  kind = Kind(name - std::begin(kNames));
  while (std::getline(fields, field, ',')) {
    size_t equals = field.find('=');
    std::string key = field.substr(0, equals);
    const char *begin = field.data() + (equals == std::string::npos ? field.size() : equals + 1);
    double value = 0;
    auto [end, problem] = std::from_chars(begin, field.data() + field.size(), value);
    bool whole = value == std::floor(value);
    if (problem != std::errc() || end != field.data() + field.size() || !(value >= 0) ||
        value > 1e15 || (key != "gamma" && !whole))
      throw refuse(field);
    if (key == "warmup")
      warmup = int64_t(value);
    else if (key == "size" && kind == Kind::step && value >= 1)
      size = int64_t(value);
    else if (key == "gamma" && kind == Kind::step)
      gamma = value;
    else
      throw refuse(field);
  }
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
