#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/RecurrentCellFields.h"

namespace pdc::runtime {

/// A step of a GRU behind its matrix products (GruElement): from the gates z, r and the candidate
/// of the input and of the state, [rows, 3, width] each, and the state, [rows, width], the next
/// one, which may lie where the state does.
class GruCell {
public:
  GruCell(const Device &device, const RecurrentCellFields &fields)
      : fields(fields), threads(device.threads) {}
  void operator()(const Run &run, const float *ofInput, const float *ofState, const float *state,
                  float *next) const;

private:
  RecurrentCellFields fields;
  int threads;
};

} // namespace pdc::runtime
