#pragma once

#include <cstdint>
#include <string>

namespace pdc::runtime {

/// The learning rate of an update, from its number alone, so that every rank and every resumed run
/// agrees without talking.
class LearningRate {
public:
  LearningRate() = default;
  /// `schedule`: constant, cosine, linear or step, each with ",warmup=N"; step with
  /// ",size=N,gamma=G" (a third of the run, 0.1). Throws Error on anything else.
  LearningRate(double base, const std::string &schedule, int64_t totalSteps);

  /// `step` counts from 1.
  double at(int64_t step) const;

private:
  std::string take(const std::string &field);
  enum class Kind { constant, step, cosine, linear };
  Kind kind = Kind::constant;
  double base = 0.01, gamma = 0.1;
  int64_t total = 1, warmup = 0, size = 1;
};

} // namespace pdc::runtime
