#pragma once

#include "compiler/plan/Search.h"

#include <numeric>

namespace pdc {

/// best = min(best, max(before, price)), element by element.
void improveRow(double *best, const double *before, double price, int count);

/// A(i, j, m) of a level for some sources i, ascending, and j up to `target`.
struct Search::Table {
  Table(int level, double depth, std::span<const int> sources, int target, int workers)
      : level(level), depth(depth), first(sources.front()), target(target), workers(workers),
        count(static_cast<int>(sources.size())), sourcesBefore(target + 2),
        values(static_cast<size_t>(target + 1) * workers * sources.size(), kNever) {
    for (int source : sources)
      ++sourcesBefore[source + 1];
    std::partial_sum(sourcesBefore.begin(), sourcesBefore.end(), sourcesBefore.begin());
  }

  double *row(int to, int used) {
    return &values[(static_cast<size_t>(to) * workers + used - 1) * count];
  }
  bool isSource(int cut) const { return sourcesBefore[cut + 1] > sourcesBefore[cut]; }

  int level;
  double depth;
  int first, target, workers, count;
  std::vector<int> sourcesBefore; ///< by cut
  std::vector<double> values;
  StoredPrices *stored = nullptr;
};

/// Prices of all spans of a level as later stages, in the order of `inside`.
struct Search::StoredPrices {
  std::vector<size_t> starts; ///< by cut: the first entry of the spans that end there
  size_t width = 0; ///< entries of a span: by replicas, and by workers used if they matter
  std::vector<double> values;
};

} // namespace pdc
