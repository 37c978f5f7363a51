#include "compiler/devices/FusedProducts.h"
#include "compiler/devices/Rules.h"
#include "compiler/operators/Rules.h"

/// What cuBLASLt has epilogues for. Which of them are faster than two kernels is measured where
/// they run.
namespace pdc {

namespace {

/// What GELU is of lies in rows of whole eights.
constexpr int64_t kArgumentColumns = 8;

bool hasPitch(const Attributes &fields) {
  return fields.has("pitch") || fields.has("pitchA") || fields.has("pitchB") ||
         fields.has("pitchY");
}

/// A product that the library is asked for as that of one matrix by another.
bool isOfMatrices(const UnitKernel &product) {
  const Attributes &fields = product.fields;
  if (product.name != "MatrixProduct" || hasPitch(fields) || fields.integer("relu", 0))
    return false;
  return fields.integers("b").size() == 2 && fields.integers("output").size() >= 2 &&
         (fields.integers("a").size() == 2 || !fields.integer("transA", 0));
}

/// One number per column of the result.
bool hasColumnBias(const Attributes &fields) {
  const std::vector<int64_t> bias = fields.integers("bias");
  return !bias.empty() && product(bias) == bias.back() &&
         bias.back() == fields.integers("output").back();
}

/// What stands behind the product is computed in its type.
bool canApplyGelu(const UnitKernel &product) {
  return isOfMatrices(product) && !product.fields.has("result") &&
         product.fields.integers("output").back() % kArgumentColumns == 0;
}

UnitKernel fused(std::string name, const UnitKernel &product) {
  UnitKernel kernel{std::move(name), product.fields, 0, product.accumulates};
  KernelChoice choice;
  choice.kernel = kernel.name;
  choice.fields = kernel.fields;
  kernel.workspaceBytes = cudaWorkspaceBytes(choice);
  return kernel;
}

} // namespace

std::optional<UnitKernel> fuseGelu(const UnitKernel &product, bool isKept) {
  const bool hasBias = !product.fields.integers("bias").empty();
  if (!canApplyGelu(product) || (hasBias && !hasColumnBias(product.fields)))
    return std::nullopt;
  UnitKernel kernel = fused("GeluProduct", product);
  if (isKept)
    kernel.fields.set("keepsArgument", int64_t(1));
  return kernel;
}

std::optional<UnitKernel> fuseGeluGradient(const UnitKernel &product) {
  if (!canApplyGelu(product) || !product.fields.integers("bias").empty())
    return std::nullopt;
  return fused("GeluGradientProduct", product);
}

/// A factor whose rows are what the product adds up. No document says whether a library that scales
/// a product scales such sums, too.
std::optional<UnitKernel> fuseColumnSum(const UnitKernel &product, const UnitKernel &sum,
                                        size_t factor) {
  const Attributes &fields = product.fields;
  if (!isOfMatrices(product) || sum.name != "ColumnSum" || hasPitch(sum.fields) || factor > 1)
    return std::nullopt;
  const bool isOfA = factor == 0;
  const std::vector<int64_t> summed = fields.integers(isOfA ? "a" : "b");
  const bool isStored32 =
      !fields.has("compute") || fields.has("result") || fields.string("compute", "") == "tf32";
  const bool sumsRows = isOfA ? fields.integer("transA", 0) == 1 : fields.integer("transB", 0) == 0;
  if (!isStored32 || !sumsRows || !fields.integers("bias").empty() ||
      fields.number("alpha", 1) != 1 || !product.accumulates ||
      !sum.fields.string("layout", "").empty() || summed.size() != 2 ||
      sum.fields.integers("input") != summed)
    return std::nullopt;
  UnitKernel kernel{product};
  kernel.fields.set("columnSums", std::string(isOfA ? "a" : "b"));
  return fused("SummedProduct", kernel);
}

} // namespace pdc
