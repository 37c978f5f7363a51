#include "compiler/cost/ClosedForm.h"

#include "compiler/Error.h"

#include <string>

namespace pdc {

static constexpr struct {
  std::string_view name;
  ClosedForm model;
} names[] = {{"pipedream-code", ClosedForm::pipedreamCode},
             {"pipedream-paper", ClosedForm::pipedreamPaper},
             {"ring-max", ClosedForm::ringMax}};

bool isClosedForm(std::string_view name) {
  for (const auto &known : names)
    if (known.name == name)
      return true;
  return false;
}

ClosedForm findClosedForm(std::string_view name) {
  std::string text;
  for (const auto &known : names) {
    if (known.name == name)
      return known.model;
    text += ", " + std::string(known.name);
  }
  throw Error("unknown cost model '" + std::string(name) + "'; known cost models: overlap" + text);
}

StageFormula::StageFormula(ClosedForm model, int workers, double bytesPerSecond, int below,
                           double compression)
    : sums(model == ClosedForm::pipedreamCode) {
  double perByte = compression > 0 ? 2 / (bytesPerSecond * compression) : 0;
  for (std::vector<double> *factors : {&share, &sync, &syncAlone, &cutBefore, &cutBehind})
    factors->resize(workers + 1);
  for (int i = 1; i <= workers; ++i) {
    double m = i;
    share[i] = 1 / m;
    if (model == ClosedForm::pipedreamCode) {
      sync[i] = 4 * (m - 1) / (bytesPerSecond * m * m);
      syncAlone[i] = sync[i] / below;
      cutBefore[i] = cutBehind[i] = perByte / m;
      continue;
    }
    bool ring = model == ClosedForm::ringMax;
    sync[i] = syncAlone[i] = 2 * (m - 1) / (bytesPerSecond * m) / (ring ? m : 1);
    cutBefore[i] = perByte;
  }
}

} // namespace pdc
