#include "runtime/Error.h"
#include "runtime/cuda/NcclTransport.h"

namespace pdc::runtime::cuda {

/// Ranks are threads here.
std::unique_ptr<Transport> connectOverNccl(Accelerator &, Control &, const Program &) {
  throw Error("NCCL needs GPUs; on the host's threads use --transport local");
}

} // namespace pdc::runtime::cuda
