#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/RecurrentCellFields.h"

namespace pdc::runtime {

/// Results 0, the gradient of the gates, and 1, of the cell, from what LstmCell has read, the next
/// cell and the gradients of the state and of the next cell, either of which may be null. Results
/// may lie where gates, cell or a gradient do.
class LstmCellGradient {
public:
  LstmCellGradient(const Device &device, const RecurrentCellFields &fields)
      : fields(fields), threads(device.threads) {}
  template <class... Results>
  void operator()(const Run &run, const float *gates, const float *cell, const float *next,
                  const float *ofState, const float *ofNext, Results *...results) const {
    call(run, gates, cell, next, ofState, ofNext, cellResults(fields, {results...}));
  }

private:
  void call(const Run &run, const float *gates, const float *cell, const float *next,
            const float *ofState, const float *ofNext, const std::array<void *, 3> &results) const;
  RecurrentCellFields fields;
  int threads;
};

} // namespace pdc::runtime
