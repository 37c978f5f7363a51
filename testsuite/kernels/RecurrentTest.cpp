#include "testsuite/kernels/EitherDevice.h"

#include <gtest/gtest.h>

namespace pdc {

TEST(Kernels, RecurrentCells) { expectRecurrentCells<UnitCase>(); }

} // namespace pdc
