#pragma once

#include "runtime/Executor.h"

#include <string>

namespace pdc::runtime {

/// What an evaluation found, as --metric asks for it: accuracy, where the loss has classes and
/// nothing is asked for.
struct Evaluation {
  Totals totals;
  std::string metric;
  int64_t samples = 0; ///< that were evaluated; a sample may have many predictions, as of tokens

  int64_t predictions() const;
  double perplexity() const;
  /// "accuracy 91.44 %"; empty where there is no metric beside the loss. `counted`: with the number
  /// of predictions.
  std::string text(bool counted) const;
  /// The same as fields of the log, each behind a comma.
  std::string json() const;
};

} // namespace pdc::runtime
