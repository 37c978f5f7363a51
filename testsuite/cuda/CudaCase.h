#pragma once

#include "testsuite/kernels/UnitCase.h"

namespace pdc {

/// A unit as choose-kernels makes it for GPUs: patterns, layouts, workspace bounds and kernels.
struct CudaCase : UnitCase {
  CudaCase() { options.kind = DeviceKind::cuda; }
};

/// Builds a unit and runs it.
template <class Build> void expectReference(Build build, double tolerance = 2e-6) {
  CudaCase unit;
  build(unit);
  unit.check(tolerance);
}

} // namespace pdc
