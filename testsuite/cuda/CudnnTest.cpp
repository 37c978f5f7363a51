#include "compiler/devices/Rules.h"
#include "runtime/cuda/ConvolutionPlan.h"
#include "testsuite/cuda/HostDevice.h"

#include <gtest/gtest.h>

/// What cuDNN itself says to the runtime's convolutions on an H200, asked without one.
namespace pdc {

namespace {

using runtime::ConvolutionFields;
using runtime::cuda::ConvolutionPlan;
using runtime::cuda::ConvolutionUse;
using runtime::cuda::Descriptor;
using runtime::cuda::PlanTarget;

struct Shape {
  std::vector<int64_t> x, w, y, strides, pads;
  int64_t groups = 1;
};

/// LeNet, VGG, ResNet's stem, its 3x3, strided and 1x1 layers, groups, one and three dimensions.
const Shape kShapes[] = {
    {{8, 1, 28, 28}, {6, 1, 5, 5}, {8, 6, 28, 28}, {1, 1}, {2, 2}},
    {{8, 6, 14, 14}, {16, 6, 5, 5}, {8, 16, 10, 10}, {1, 1}, {0, 0}},
    {{4, 3, 32, 32}, {64, 3, 3, 3}, {4, 64, 32, 32}, {1, 1}, {1, 1}},
    {{32, 3, 224, 224}, {64, 3, 7, 7}, {32, 64, 112, 112}, {2, 2}, {3, 3}},
    {{32, 64, 56, 56}, {64, 64, 3, 3}, {32, 64, 56, 56}, {1, 1}, {1, 1}},
    {{32, 128, 56, 56}, {128, 128, 3, 3}, {32, 128, 28, 28}, {2, 2}, {1, 1}},
    {{32, 64, 56, 56}, {128, 64, 1, 1}, {32, 128, 28, 28}, {2, 2}, {0, 0}},
    {{32, 512, 7, 7}, {2048, 512, 1, 1}, {32, 2048, 7, 7}, {1, 1}, {0, 0}},
    {{8, 32, 16, 16}, {32, 1, 3, 3}, {8, 32, 16, 16}, {1, 1}, {1, 1}, 32},
    {{8, 16, 100}, {32, 16, 3}, {8, 32, 100}, {1}, {1}},
    {{2, 8, 16, 16, 16}, {8, 8, 3, 3, 3}, {2, 8, 16, 16, 16}, {1, 1, 1}, {1, 1, 1}},
};

ConvolutionFields fieldsOf(const Shape &s) {
  ConvolutionFields fields;
  fields.name = "asked";
  fields.input = s.x, fields.weight = s.w, fields.output = s.y;
  fields.strides = s.strides, fields.padsBegin = fields.padsEnd = s.pads;
  fields.dilations = std::vector<int64_t>(s.strides.size(), 1);
  fields.groups = s.groups;
  return fields;
}

int64_t boundOf(const Shape &s) {
  KernelChoice choice;
  choice.kernel = "Convolution";
  choice.fields = {{"input", s.x}, {"output", s.y}, {"weight", s.w}};
  return cudaWorkspaceBytes(choice);
}

} // namespace

/// Every product of every shape has a kernel in plain f32 with sums in fixed order, also with
/// --exact, within the workspace that the compiler plans; weight gradients also as sums.
TEST(Cudnn, HasKernelsWithinTheWorkspace) {
  const Descriptor properties = h200();
  for (const Shape &s : kShapes)
    for (auto use :
         {ConvolutionUse::forward, ConvolutionUse::inputGradient, ConvolutionUse::weightGradient})
      for (bool adds : {false, true})
        for (bool exact : {false, true}) {
          if (adds && use != ConvolutionUse::weightGradient)
            continue;
          const size_t room = size_t(boundOf(s) - runtime::cuda::kWorkspaceAlignment);
          const ConvolutionPlan plan({nullptr, &properties}, {false, !exact, room}, fieldsOf(s),
                                     use, adds);
          EXPECT_GT(plan.candidates(), 0u);
          EXPECT_LE(plan.workspaceBytes(), int64_t(room));
        }
}

/// In TF32 there are more kernels to choose from, the workspace is enough for one of them too, and
/// none converts its factors to 16 bits.
TEST(Cudnn, HasTf32KernelsWithinTheWorkspace) {
  const Descriptor properties = h200();
  size_t plain = 0, tf32 = 0;
  for (const Shape &s : kShapes)
    for (auto use :
         {ConvolutionUse::forward, ConvolutionUse::inputGradient, ConvolutionUse::weightGradient}) {
      const size_t room = size_t(boundOf(s) - runtime::cuda::kWorkspaceAlignment);
      const PlanTarget target{nullptr, &properties};
      const ConvolutionPlan plan(target, {true, true, room}, fieldsOf(s), use, false);
      EXPECT_LE(plan.workspaceBytes(), int64_t(room));
      tf32 += plan.candidates();
      plain += ConvolutionPlan(target, {false, true, room}, fieldsOf(s), use, false).candidates();
    }
  EXPECT_GT(tf32, plain);
}

/// Images of 16 bits have kernels too, which sum in f32; weight gradients come in 16 bits.
TEST(Cudnn, HasNarrowKernelsWithinTheWorkspace) {
  const Descriptor properties = h200();
  for (const char *compute : {"bf16", "fp16"})
    for (const Shape &s : kShapes)
      for (auto use : {ConvolutionUse::forward, ConvolutionUse::inputGradient,
                       ConvolutionUse::weightGradient}) {
        ConvolutionFields fields = fieldsOf(s);
        fields.compute = compute;
        const size_t room = size_t(boundOf(s) - runtime::cuda::kWorkspaceAlignment);
        const ConvolutionPlan plan({nullptr, &properties}, {true, true, room}, fields, use, false);
        EXPECT_LE(plan.workspaceBytes(), int64_t(room));
      }
}

/// What the library does not take is an error that names the unit.
TEST(Cudnn, RefusesShapesThatDoNotMeet) {
  const Descriptor properties = h200();
  ConvolutionFields fields = fieldsOf(kShapes[3]);
  fields.output[3] = 57;
  try {
    ConvolutionPlan plan({nullptr, &properties}, {false, true, size_t(1) << 30}, fields,
                         ConvolutionUse::forward, false);
    FAIL() << "a plan of " << plan.workspaceBytes() << " bytes was made";
  } catch (const std::exception &error) {
    EXPECT_NE(std::string(error.what()).find("unit 'asked'"), std::string::npos) << error.what();
  }
}

} // namespace pdc
