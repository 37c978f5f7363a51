#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>

namespace pdc {

/// Names that are taken; makes new ones beside them.
class Names {
public:
  bool contains(const std::string &name) const { return taken.contains(name); }
  /// False when it was taken already.
  bool insert(const std::string &name) { return taken.insert(name).second; }

  /// `wanted`, or `wanted_2`, `wanted_3`, ... when that is taken.
  std::string fresh(const std::string &wanted) {
    if (insert(wanted))
      return wanted;
    size_t &number = next.try_emplace(wanted, 2).first->second;
    for (;;) {
      std::string candidate = wanted + "_" + std::to_string(number++);
      if (insert(candidate))
        return candidate;
    }
  }

private:
  std::unordered_set<std::string> taken;
  std::unordered_map<std::string, size_t> next;
};

} // namespace pdc
