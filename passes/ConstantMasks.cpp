#include "passes/Composites.h"

#include "compiler/operators/AttentionShape.h"

#include <algorithm>
#include <limits>

using namespace mlir;

namespace pdc {

namespace {

/// Which keys a constant mask lets be seen: true, 0, or a number that hides; `low` are numbers that
/// are not far enough from these to be seen beside them.
enum class Seen { yes, no, low, other };

/// Gathers what is asked of a mask, row by row.
class MaskReader {
public:
  MaskReader(ElementType element, const std::vector<int64_t> &shape, bool isInverted)
      : isFlag(isInverted || element == ElementType::boolean), isInverted(isInverted),
        hasQueries(shape.size() > 1), keys(shape.empty() ? 1 : shape.back()) {}

  void read(const Runs &row, int64_t query) {
    int64_t seen = keys; // keys that are seen before the first that is not
    bool hidesRest = true, sees = false;
    const int64_t own = std::min(query, keys - 1);
    for (size_t i = 0; i < row.size(); ++i) {
      const int64_t end = i + 1 < row.size() ? row[i + 1].begin : keys;
      const Seen run = readRun(row[i], end);
      sees |= run == Seen::yes || run == Seen::other;
      if (row[i].begin <= own && own < end)
        facts.seesOwn &=
            readElement(row[i].first + row[i].step * double(own - row[i].begin)) == Seen::yes;
      facts.hidesLater &= run == Seen::no || end <= query + 1;
      if (run != Seen::yes)
        seen = std::min(seen, row[i].begin);
      hidesRest &= run == Seen::no || seen == keys;
    }
    facts.everyRowSees &= sees;
    facts.allSeen &= seen == keys;
    if (isFirst)
      facts.past = seen - 1;
    isFirst = false;
    isCausal &= hidesRest && seen == std::min(keys, query + 1 + *facts.past);
  }

  MaskFacts found() const {
    MaskFacts result = facts;
    if (isFirst || !isCausal || !hasQueries || *facts.past < 0)
      result.past.reset();
    result.hidesLater &= hasQueries;
    result.seesOwn &= hasQueries;
    return result;
  }

private:
  Seen readRun(const Run &run, int64_t end) {
    if (run.step == 0)
      return readElement(run.first);
    // Numbers that go on in steps show no more than one key as it is.
    const Seen first = readElement(run.first);
    const Seen last = readElement(run.first + run.step * double(end - 1 - run.begin));
    return first == Seen::no && last == Seen::no ? Seen::no : Seen::other;
  }

  Seen readElement(double element) {
    if (isFlag)
      return (element != 0) != isInverted ? Seen::yes : Seen::no;
    if (element == 0)
      return Seen::yes;
    facts.hidesFinitely |=
        element <= kHidden && element != -std::numeric_limits<double>::infinity();
    return element <= kHidden ? Seen::no : element <= kHidden / 2 ? Seen::low : Seen::other;
  }

  const bool isFlag, isInverted, hasQueries;
  const int64_t keys;
  bool isFirst = true, isCausal = true;
  MaskFacts facts{.everyRowSees = true, .allSeen = true, .hidesLater = true, .seesOwn = true};
};

/// Of a constant of any numbers, one row after another.
MaskFacts factsOf(const Tensor &mask, bool isInverted) {
  const std::vector<int64_t> &shape = mask.type.shape;
  const int64_t keys = shape.empty() ? 1 : shape.back();
  const int64_t queries = shape.size() < 2 ? 1 : shape.end()[-2];
  MaskReader reader(mask.type.element, shape, isInverted);
  for (int64_t row = 0; keys > 0 && row < mask.type.elementCount() / keys; ++row)
    reader.read(runsOf(mask, row * keys, keys), row % queries);
  return reader.found();
}

MaskFacts factsOf(const RunRows &mask, bool isInverted) {
  MaskReader reader(mask.element, mask.shape, isInverted);
  const int64_t queries = mask.held.empty() ? 1 : mask.held.back();
  for (size_t row = 0; row < mask.rows.size(); ++row)
    reader.read(mask.rows[row], int64_t(row) % queries);
  MaskFacts facts = reader.found();
  if (mask.shape.size() > 1 && mask.shape.end()[-2] != queries)
    facts.past.reset(), facts.hidesLater = facts.seesOwn = false; // all queries see the same
  return facts;
}

} // namespace

const MaskFacts *ConstantMasks::find(Value mask, bool isInverted) {
  DenseElementsAttr elements = elementsOf(mask);
  const RunRows *runs = elements ? nullptr : rows.find(mask);
  if (!elements && !runs)
    return nullptr;
  const void *address = elements ? elements.getAsOpaquePointer() : runs;
  auto [found, isNew] = facts.try_emplace({address, isInverted});
  if (isNew)
    found->second = elements ? factsOf(toTensor(elements), isInverted) : factsOf(*runs, isInverted);
  return &found->second;
}

} // namespace pdc
