#include "runtime/EvaluationText.h"

#include "runtime/Progress.h"

#include <cmath>

namespace pdc::runtime {

int64_t Evaluation::predictions() const { return std::llround(totals.predictions); }

double Evaluation::perplexity() const { return std::exp(totals.meanLoss()); }

std::string Evaluation::text(bool counted) const {
  const std::string count =
      !counted ? ""
               : grouped(predictions()) + (predictions() == samples ? " samples" : " predictions");
  if (metric == "perplexity")
    return "perplexity " + fixed(perplexity(), 3) + (counted ? " over " + count : "");
  if (totals.hasClasses)
    return "accuracy " + fixed(100 * totals.accuracy(), 2) + " %" + (counted ? " of " + count : "");
  return metric == "accuracy" ? "no accuracy, since the loss has no classes" : "";
}

std::string Evaluation::json() const {
  std::string text;
  if (metric == "perplexity")
    text += ", \"perplexity\": " + jsonNumber(perplexity());
  if (totals.hasClasses)
    text += ", \"accuracy\": " + jsonNumber(totals.accuracy());
  return text + ", \"samples\": " + std::to_string(samples) +
         ", \"predictions\": " + std::to_string(predictions());
}

} // namespace pdc::runtime
