#include "testsuite/kernels/KernelMakers.h"

namespace pdc {

KernelCall makeKernel(const KernelChoice &choice, const runtime::Device &device) {
  for (auto makers : {layerMakers, lossMakers, movementMakers, updateMakers}) {
    auto table = makers();
    if (auto found = table.find(choice.kernel); found != table.end())
      return found->second(choice, device);
  }
  throw std::runtime_error("no kernel is called '" + choice.kernel + "'");
}

} // namespace pdc
