#include "compiler/devices/FusedProducts.h"
#include "compiler/devices/Rules.h"
#include "runtime/kernels/MatrixProductFields.h"

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
bool isOfMatrices(const KernelChoice &product) {
  const Attributes &fields = product.fields;
  if (product.kernel != "MatrixProduct" || hasPitch(fields) || fields.integer("relu", 0))
    return false;
  return fields.integers("b").size() == 2 && fields.integers("output").size() >= 2 &&
         (fields.integers("a").size() == 2 || !fields.integer("transA", 0));
}

/// What stands behind the product is computed in its type.
bool canApplyGelu(const KernelChoice &product) {
  return isOfMatrices(product) && !product.fields.has("result") &&
         product.fields.integers("output").back() % kArgumentColumns == 0;
}

KernelChoice fused(std::string kernel, KernelChoice product, size_t results) {
  product.kernel = std::move(kernel);
  product.outputLayouts.assign(results, "");
  product.workspaceBytes = cudaWorkspaceBytes(product);
  return product;
}

} // namespace

std::optional<KernelChoice> fuseGelu(const KernelChoice &product, bool isKept) {
  const std::vector<int64_t> bias = product.fields.integers("bias");
  if (!canApplyGelu(product) ||
      (!bias.empty() && !runtime::isColumnBias(bias, product.fields.integers("output"))))
    return std::nullopt;
  KernelChoice kernel = fused("GeluProduct", product, isKept ? 2 : 1);
  if (isKept)
    kernel.fields.set("keepsArgument", int64_t(1));
  return kernel;
}

std::optional<KernelChoice> fuseGeluGradient(const KernelChoice &product) {
  if (!canApplyGelu(product) || !product.fields.integers("bias").empty())
    return std::nullopt;
  return fused("GeluGradientProduct", product, 1);
}

/// A factor whose rows are what the product adds up. No document says whether a library that scales
/// a product scales such sums, too.
std::optional<KernelChoice> fuseColumnSum(const KernelChoice &product, const KernelChoice &sum,
                                          size_t factor) {
  const Attributes &fields = product.fields;
  if (!isOfMatrices(product) || sum.kernel != "ColumnSum" || hasPitch(sum.fields) || factor > 1)
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
  KernelChoice kernel = product;
  kernel.fields.set("columnSums", std::string(isOfA ? "a" : "b"));
  return fused("SummedProduct", std::move(kernel), 2);
}

} // namespace pdc
