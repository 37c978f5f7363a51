#include "passes/SharedStates.h"

#include "llvm/ADT/MapVector.h"

#include <numeric>
#include <set>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

class Grouping {
public:
  Grouping(ArrayRef<UnitOp> units, llvm::function_ref<bool(ReadOp)> isState)
      : units(units), readers(units.size()), sources(units.size()), parents(units.size()),
        states(units.size()) {
    std::iota(parents.begin(), parents.end(), 0);
    for (auto [number, unit] : llvm::enumerate(units))
      numbers[unit] = static_cast<int>(number);
    for (auto [number, unit] : llvm::enumerate(units))
      for (Operation *user : unit->getUsers())
        if (auto reader = numbers.find(user); reader != numbers.end()) {
          readers[number].push_back(reader->second);
          sources[reader->second].push_back(static_cast<int>(number));
        }
    joinUses(isState);
    while (joinCycles()) {
    }
  }

  std::vector<UnitGroup> inOrder() const;

private:
  using Links = std::vector<std::vector<int>>;

  void joinUses(llvm::function_ref<bool(ReadOp)> isState);
  bool joinCycles();
  std::vector<std::set<int>> linksOfGroups(const Links &links) const;
  static std::vector<bool> reached(ArrayRef<int> from, const Links &links);

  int root(int unit) const {
    while (parents[unit] != unit)
      unit = parents[unit];
    return unit;
  }
  /// The first unit of a group is its root.
  void join(int a, int b) {
    a = root(a), b = root(b);
    parents[std::max(a, b)] = std::min(a, b);
    if (std::string &state = states[std::min(a, b)]; state.empty())
      state = states[std::max(a, b)];
  }

  ArrayRef<UnitOp> units;
  llvm::DenseMap<Operation *, int> numbers;
  Links readers, sources;
  std::vector<int> parents;
  std::vector<std::string> states; ///< by the first unit of a group
};

std::vector<bool> Grouping::reached(ArrayRef<int> from, const Links &links) {
  std::vector<bool> found(links.size());
  SmallVector<int> open(from);
  while (!open.empty()) {
    const int unit = open.pop_back_val();
    if (found[unit])
      continue;
    found[unit] = true;
    open.append(links[unit].begin(), links[unit].end());
  }
  return found;
}

void Grouping::joinUses(llvm::function_ref<bool(ReadOp)> isState) {
  llvm::MapVector<StringRef, std::set<int>> uses;
  for (auto [number, unit] : llvm::enumerate(units))
    for (Value operand : unit->getOperands())
      if (auto read = operand.getDefiningOp<ReadOp>(); read && isState(read))
        uses[read.getMemory()].insert(static_cast<int>(number));
  for (const auto &[state, users] : uses) {
    if (users.size() < 2)
      continue;
    const SmallVector<int> all(users.begin(), users.end());
    const std::vector<bool> behind = reached(all, readers), before = reached(all, sources);
    if (std::string &known = states[root(all[0])]; known.empty())
      known = state.str();
    for (size_t unit = 0; unit < units.size(); ++unit)
      if (behind[unit] && before[unit])
        join(all[0], static_cast<int>(unit));
  }
}

std::vector<std::set<int>> Grouping::linksOfGroups(const Links &links) const {
  std::vector<std::set<int>> ofGroups(units.size());
  for (size_t unit = 0; unit < units.size(); ++unit)
    for (int other : links[unit])
      if (int from = root(static_cast<int>(unit)), to = root(other); from != to)
        ofGroups[from].insert(to);
  return ofGroups;
}

/// What is neither before nor behind all cycles of groups becomes one: layers that are used in one
/// order here and in the other there. False where there is none.
bool Grouping::joinCycles() {
  std::vector<std::set<int>> to = linksOfGroups(readers), from = linksOfGroups(sources);
  std::set<int> left;
  for (size_t unit = 0; unit < units.size(); ++unit)
    left.insert(root(static_cast<int>(unit)));
  for (bool peels = true; peels;) {
    peels = false;
    for (auto group = left.begin(); group != left.end();) {
      if (!to[*group].empty() && !from[*group].empty()) {
        ++group;
        continue;
      }
      for (int reader : to[*group])
        from[reader].erase(*group);
      for (int source : from[*group])
        to[source].erase(*group);
      group = left.erase(group);
      peels = true;
    }
  }
  for (int group : left)
    join(*left.begin(), group);
  return !left.empty();
}

std::vector<UnitGroup> Grouping::inOrder() const {
  std::vector<std::set<int>> to = linksOfGroups(readers), from = linksOfGroups(sources);
  std::vector<UnitGroup> members(units.size());
  std::set<int> ready;
  for (size_t unit = 0; unit < units.size(); ++unit) {
    const int group = root(static_cast<int>(unit));
    members[group].units.push_back(units[unit]);
    if (from[group].empty())
      ready.insert(group);
  }
  std::vector<UnitGroup> ordered;
  while (!ready.empty()) {
    const int group = *ready.begin();
    ready.erase(ready.begin());
    members[group].state = states[group];
    ordered.push_back(std::move(members[group]));
    for (int reader : to[group]) {
      from[reader].erase(group);
      if (from[reader].empty())
        ready.insert(reader);
    }
  }
  return ordered;
}

} // namespace

std::vector<UnitGroup> groupByStates(ArrayRef<UnitOp> units,
                                     llvm::function_ref<bool(ReadOp)> isState) {
  return Grouping(units, isState).inOrder();
}

} // namespace pdc
