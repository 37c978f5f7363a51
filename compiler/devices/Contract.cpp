#include "compiler/devices/Contract.h"

#include "runtime/Program.h"

namespace pdc {

int contractVersion() { return runtime::kContractVersion; }

} // namespace pdc
