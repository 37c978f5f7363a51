#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/RecurrentCellFields.h"

namespace pdc::runtime {

/// A step of an LSTM behind its matrix products (LstmElement): from the gates i, o, f and the
/// candidate, [rows, 4, width], and the cell, [rows, width], results 0, the state, and 1, the next
/// cell, which may lie where the cell does.
class LstmCell {
public:
  LstmCell(const Device &device, const RecurrentCellFields &fields)
      : fields(fields), threads(device.threads) {}
  template <class... Results>
  void operator()(const Run &run, const float *gates, const float *cell,
                  Results *...results) const {
    call(run, gates, cell, cellResults(fields, {results...}));
  }

private:
  void call(const Run &run, const float *gates, const float *cell,
            const std::array<void *, 3> &results) const;
  RecurrentCellFields fields;
  int threads;
};

} // namespace pdc::runtime
