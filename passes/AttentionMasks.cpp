#include "passes/Composites.h"

#include "compiler/operators/AttentionShape.h"

#include <algorithm>
#include <limits>

using namespace mlir;

namespace pdc {

namespace {

/// Which keys a constant mask lets be seen: true, 0, or a number that hides.
enum class Seen { yes, no, other };

Seen seenBy(const Tensor &mask, double element) {
  if (mask.type.element == ElementType::boolean)
    return element != 0 ? Seen::yes : Seen::no;
  return element == 0 ? Seen::yes : element <= kHidden ? Seen::no : Seen::other;
}

/// By how many rows a query sees beyond its own, where a constant lets each see what is before it.
std::optional<int64_t> causalPast(const Tensor &mask) {
  const std::vector<int64_t> &shape = mask.type.shape;
  if (shape.size() < 2 || mask.type.elementCount() == 0)
    return std::nullopt;
  const int64_t queries = shape.end()[-2], keys = shape.back();
  int64_t past = -1;
  while (past + 1 < keys && seenBy(mask, mask.data[past + 1]) == Seen::yes)
    ++past;
  for (int64_t row = 0; row < mask.type.elementCount() / keys; ++row)
    for (int64_t key = 0; key < keys; ++key)
      if (seenBy(mask, mask.data[row * keys + key]) !=
          (key <= row % queries + past ? Seen::yes : Seen::no))
        return std::nullopt;
  return past >= 0 ? std::optional(past) : std::nullopt;
}

/// Whether a constant mask hides some key by a finite number that it adds.
bool hidesFinitely(const Tensor &mask) {
  return mask.type.element != ElementType::boolean && llvm::any_of(mask.data, [](double element) {
           return element <= kHidden && element != -std::numeric_limits<double>::infinity();
         });
}

/// Whether each row of a constant mask lets a key be seen.
bool everyRowSees(const Tensor &mask) {
  const int64_t size = mask.type.shape.empty() ? 1 : mask.type.shape.back();
  for (int64_t row = 0; row < mask.type.elementCount(); row += size)
    if (std::all_of(mask.data.begin() + row, mask.data.begin() + row + size,
                    [&](double element) { return seenBy(mask, element) == Seen::no; }))
      return false;
  return true;
}

bool allSeen(const Tensor &mask) {
  return llvm::all_of(mask.data,
                      [&](double element) { return seenBy(mask, element) == Seen::yes; });
}

} // namespace

const MaskFacts *ConstantMasks::find(Value mask, bool isInverted) {
  DenseElementsAttr elements = elementsOf(mask);
  if (!elements)
    return nullptr;
  auto [found, isNew] = facts.try_emplace({elements.getAsOpaquePointer(), isInverted});
  if (!isNew)
    return &found->second;
  Tensor constant = toTensor(elements);
  if (isInverted)
    for (double &element : constant.data)
      element = element == 0;
  found->second = {causalPast(constant), everyRowSees(constant), allSeen(constant),
                   hidesFinitely(constant)};
  return &found->second;
}

} // namespace pdc
