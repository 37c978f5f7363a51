#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/RecurrentCellFields.h"

namespace pdc::runtime {

/// Results 0 and 1, the gradients of the input's and the state's gates, and 2, of the state, from
/// what GruCell has read and the gradient of the next state. Results may lie where operands do.
class GruCellGradient {
public:
  GruCellGradient(const Device &device, const RecurrentCellFields &fields)
      : fields(fields), threads(device.threads) {}
  template <class... Results>
  void operator()(const Run &run, const float *ofInput, const float *ofState, const float *state,
                  const float *ofNext, Results *...results) const {
    call(run, ofInput, ofState, state, ofNext, cellResults(fields, {results...}));
  }

private:
  void call(const Run &run, const float *ofInput, const float *ofState, const float *state,
            const float *ofNext, const std::array<void *, 3> &results) const;
  RecurrentCellFields fields;
  int threads;
};

} // namespace pdc::runtime
