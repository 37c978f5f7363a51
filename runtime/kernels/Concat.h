#pragma once

#include "runtime/Program.h"

#include <vector>

namespace pdc::runtime {

struct ConcatFields {
  std::vector<int64_t> blockBytes; ///< of each operand, per outer index
  int64_t outer = 1;
};

/// Operands, then the result: blocks of the operands in turn, for each outer index.
class Concat {
public:
  Concat(const Device &device, const ConcatFields &fields)
      : fields(fields), threads(device.threads) {}
  template <class... Pointers> void operator()(const Run &, Pointers *...pointers) const {
    const void *const all[] = {pointers...};
    call(all);
  }

private:
  void call(std::span<const void *const> pointers) const;
  ConcatFields fields;
  int threads;
};

} // namespace pdc::runtime
