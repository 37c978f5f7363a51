#pragma once

#include "runtime/Program.h"

#include <vector>

namespace pdc::runtime {

struct SplitFields {
  std::vector<int64_t> blockBytes; ///< of each part, per outer index
  int64_t outer = 1;
  std::vector<int64_t> results; ///< which part each result is; the others are read by nobody
};

/// The operand, then the results: its blocks in turn, for each outer index.
class Split {
public:
  Split(const Device &device, const SplitFields &fields)
      : fields(fields), threads(device.threads) {}
  template <class T, class... Pointers>
  void operator()(const Run &, const T *x, Pointers *...parts) const {
    void *const all[] = {parts...};
    call(x, all);
  }

private:
  void call(const void *x, std::span<void *const> parts) const;
  SplitFields fields;
  int threads;
};

} // namespace pdc::runtime
