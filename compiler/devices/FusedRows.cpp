#include "compiler/devices/FusedRows.h"
#include "compiler/devices/Rules.h"
#include "runtime/kernels/LayerNormalizationFields.h"

namespace pdc {

namespace {

bool has(const KernelChoice &choice, const char *field) {
  return choice.fields.integer(field, 0) != 0;
}

/// Each of so many first arguments may give its place to a sum of them or to what is made of it.
KernelChoice fused(KernelChoice choice, int terms, size_t results) {
  choice.outputLayouts.assign(results, "");
  choice.workspaceBytes = cudaWorkspaceBytes(choice);
  choice.inPlace.clear();
  const int made = choice.fields.integer("keepsSum", 0) ? 2 : 1;
  for (int term = 0; term < terms; ++term)
    for (int result = 0; result < made; ++result)
      choice.inPlace.push_back({term, result});
  return choice;
}

} // namespace

std::optional<KernelChoice> addBefore(const KernelChoice &normalisation, bool isKept) {
  if (normalisation.kernel != "LayerNormalization" || has(normalisation, "addend"))
    return std::nullopt;
  KernelChoice choice = normalisation;
  choice.fields.set("addend", int64_t(1));
  if (isKept)
    choice.fields.set("keepsSum", int64_t(1));
  return fused(choice, 2, normalisation.outputLayouts.size() + isKept);
}

std::optional<KernelChoice> addArriving(const KernelChoice &gradient, size_t terms, bool isKept) {
  if (gradient.kernel != "LayerNormalizationInputGradient" || has(gradient, "addend") ||
      gradient.fields.integer("terms", 1) != 1 ||
      terms > size_t(runtime::LayerNormalizationFields::kMostTerms))
    return std::nullopt;
  KernelChoice choice = gradient;
  choice.fields.set("terms", static_cast<int64_t>(terms));
  if (isKept)
    choice.fields.set("keepsSum", int64_t(1));
  return fused(choice, static_cast<int>(terms), 1 + isKept);
}

std::optional<KernelChoice> addBehind(const KernelChoice &gradient) {
  if (gradient.kernel != "LayerNormalizationInputGradient" || has(gradient, "addend"))
    return std::nullopt;
  const int terms = static_cast<int>(gradient.fields.integer("terms", 1)), addend = terms + 4;
  KernelChoice choice = gradient;
  choice.fields.set("addend", int64_t(1));
  choice = fused(choice, terms, gradient.outputLayouts.size());
  choice.inPlace.push_back({addend, static_cast<int>(gradient.outputLayouts.size()) - 1});
  return choice;
}

std::optional<KernelChoice> sumBias(const KernelChoice &gradient, const KernelChoice &sum) {
  const std::vector<int64_t> rows = {gradient.fields.integer("rows", 0),
                                     gradient.fields.integer("size", 0)};
  if (gradient.kernel != "LayerNormalizationScaleGradient" || has(gradient, "sumsBias") ||
      sum.kernel != "ColumnSum" || sum.fields.has("pitch") ||
      !sum.fields.string("layout", "").empty() || sum.fields.integers("input") != rows)
    return std::nullopt;
  KernelChoice choice = gradient;
  choice.fields.set("sumsBias", int64_t(1));
  choice.outputLayouts.assign(2, "");
  choice.workspaceBytes = cudaWorkspaceBytes(choice);
  return choice;
}

std::optional<KernelChoice> sumRectified(const KernelChoice &sum) {
  if (sum.kernel != "ColumnSum" || sum.fields.has("pitch"))
    return std::nullopt;
  KernelChoice choice = sum;
  choice.kernel = "ReluGradientSum";
  choice.addsToLast = true;
  choice.outputLayouts = {sum.fields.string("layout", ""), ""};
  choice.inPlace = {{0, 0}, {1, 0}};
  choice.workspaceBytes = cudaWorkspaceBytes(choice);
  return choice;
}

} // namespace pdc
