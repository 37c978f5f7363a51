#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pdc {

/// Letters to insert, leave out or replace until one name is the other.
inline size_t editsBetween(std::string_view from, std::string_view to) {
  std::vector<size_t> edits(to.size() + 1);
  std::iota(edits.begin(), edits.end(), size_t{0});
  for (size_t i = 0; i < from.size(); ++i) {
    size_t diagonal = std::exchange(edits[0], i + 1);
    for (size_t j = 0; j < to.size(); ++j) {
      const size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = edits[j + 1];
      edits[j + 1] = std::min({replaced, diagonal + 1, edits[j] + 1});
    }
  }
  return edits.back();
}

/// "; the nearest is v100" behind a list of known names, where more letters of the longer name are
/// alike than differ, and three at least: a misspelling, and not another word, as cpu is beside
/// gpu.
inline std::string nearestName(std::string_view name, std::span<const std::string_view> known) {
  std::string_view nearest;
  size_t least = std::string_view::npos;
  for (std::string_view one : known) {
    const size_t edits = editsBetween(name, one), letters = std::max(name.size(), one.size());
    const size_t alike = letters - edits;
    if (alike < 3 || alike <= edits || edits >= least)
      continue;
    least = edits;
    nearest = one;
  }
  return nearest.empty() ? "" : "; the nearest is " + std::string(nearest);
}

} // namespace pdc
