#include "runtime/cuda/ConvolutionPlan.h"
#include "testsuite/cuda/AskedConvolutions.h"
#include "testsuite/cuda/HostDevice.h"

#include <gtest/gtest.h>

#include <string_view>

/// What cuDNN itself says to convolutions with their bias and relu on an H200, asked without one:
/// it compiles those kernels, which a driver without a device (HostDriver.cpp) takes.
namespace pdc {

namespace {

using runtime::cuda::ConvolutionPlan;
using runtime::cuda::ConvolutionUse;

size_t kernelsOf(const asked::Shape &shape, const char *compute, bool relu,
                 const runtime::cuda::Descriptor &properties) {
  runtime::ConvolutionFields fields = asked::fieldsOf(shape);
  fields.bias = 1, fields.compute = compute, fields.relu = relu;
  const size_t room = size_t(asked::boundOf(shape) - runtime::cuda::kWorkspaceAlignment);
  try {
    const ConvolutionPlan plan({nullptr, &properties}, {true, true, room}, fields,
                               ConvolutionUse::finished, false);
    EXPECT_LE(plan.workspaceBytes(), int64_t(room));
    return plan.candidates();
  } catch (const std::exception &) {
    return 0;
  }
}

} // namespace

/// Every shape has one in every type within the planned workspace, but groups of one channel in
/// bf16: the runtime then takes two kernels.
TEST(CudnnFinished, HasKernelsWithinTheWorkspace) {
  const runtime::cuda::Descriptor properties = h200();
  for (const char *compute : {"tf32", "bf16", "fp16"})
    for (const asked::Shape &shape : asked::kShapes) {
      const bool none = shape.groups > 1 && shape.w[1] == 1 && std::string_view(compute) == "bf16";
      EXPECT_EQ(kernelsOf(shape, compute, true, properties) == 0, none)
          << compute << ", " << shape.x[1] << " channels of " << shape.x.back() << " pixels to "
          << shape.y[1] << ", " << shape.groups << " groups";
    }
}

TEST(CudnnFinished, HasKernelsWithoutRelu) {
  const runtime::cuda::Descriptor properties = h200();
  for (const char *compute : {"tf32", "bf16", "fp16"})
    EXPECT_GT(kernelsOf(asked::kShapes[4], compute, false, properties), 0u) << compute;
}

} // namespace pdc
