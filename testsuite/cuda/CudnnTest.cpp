#include "compiler/operators/Rules.h"
#include "runtime/Error.h"
#include "runtime/cuda/ConvolutionPlan.h"
#include "testsuite/cuda/AskedConvolutions.h"
#include "testsuite/cuda/HostDevice.h"

#include <gtest/gtest.h>

/// What cuDNN itself says to the runtime's convolutions on an H200, asked without one.
namespace pdc {

namespace {

using asked::boundOf, asked::fieldsOf, asked::kShapes, asked::Shape;
using runtime::ConvolutionFields;
using runtime::cuda::ConvolutionPlan;
using runtime::cuda::ConvolutionUse;
using runtime::cuda::Descriptor;
using runtime::cuda::PlanTarget;

/// ResNet-50's 1x1 and 3x3 layers, strided ones among them, at microbatches of 32 and 256, and the
/// fewest channels and widest windows; then what has no kernels: a stem of padded channels, other
/// channels, groups.
const Shape kSummed[] = {
    {{32, 64, 56, 56}, {64, 64, 1, 1}, {32, 64, 56, 56}, {1, 1}, {0, 0}},
    {{32, 64, 56, 56}, {64, 64, 3, 3}, {32, 64, 56, 56}, {1, 1}, {1, 1}},
    {{32, 64, 56, 56}, {256, 64, 1, 1}, {32, 256, 56, 56}, {1, 1}, {0, 0}},
    {{32, 256, 56, 56}, {64, 256, 1, 1}, {32, 64, 56, 56}, {1, 1}, {0, 0}},
    {{32, 128, 56, 56}, {128, 128, 3, 3}, {32, 128, 28, 28}, {2, 2}, {1, 1}},
    {{32, 256, 56, 56}, {512, 256, 1, 1}, {32, 512, 28, 28}, {2, 2}, {0, 0}},
    {{32, 256, 14, 14}, {256, 256, 3, 3}, {32, 256, 14, 14}, {1, 1}, {1, 1}},
    {{32, 512, 7, 7}, {2048, 512, 1, 1}, {32, 2048, 7, 7}, {1, 1}, {0, 0}},
    {{256, 64, 56, 56}, {256, 64, 1, 1}, {256, 256, 56, 56}, {1, 1}, {0, 0}},
    {{256, 512, 14, 14}, {512, 512, 3, 3}, {256, 512, 7, 7}, {2, 2}, {1, 1}},
    {{1, 8, 1, 1}, {8, 8, 1, 1}, {1, 8, 1, 1}, {1, 1}, {0, 0}},
    {{4, 8, 40, 40}, {24, 8, 4, 8}, {4, 24, 37, 33}, {1, 1}, {0, 0}},
    {{32, 8, 224, 224}, {64, 8, 7, 7}, {32, 64, 112, 112}, {2, 2}, {3, 3}},
    {{4, 64, 40, 40}, {64, 64, 5, 7}, {4, 64, 36, 34}, {1, 1}, {0, 0}},
    {{32, 20, 28, 28}, {64, 20, 3, 3}, {32, 64, 28, 28}, {1, 1}, {1, 1}},
    {{32, 64, 28, 28}, {20, 64, 3, 3}, {32, 20, 28, 28}, {1, 1}, {1, 1}},
    {{32, 64, 28, 28}, {64, 32, 3, 3}, {32, 64, 28, 28}, {1, 1}, {1, 1}, 2},
    {{8, 16, 8, 8, 8}, {16, 16, 3, 3, 3}, {8, 16, 8, 8, 8}, {1, 1, 1}, {1, 1, 1}},
};

/// Whether pdc makes one kernel of the convolution and the normalisation behind it.
bool areOneUnit(const Shape &s, Precision precision) {
  const ElementType element = storedElement(precision);
  UnitView unit;
  unit.operands = {TensorType{element, s.x}, TensorType{element, s.w}};
  UnitNode convolution{
      "Conv", "conv", nullptr, {UnitValue::operand(0), UnitValue::operand(1)}, {{element, s.y}}};
  const UnitNode normalisation{"BatchNormInternal", "norm", nullptr, {}, {{element, s.y}}};
  unit.nodes = {convolution};
  DeviceOptions options;
  options.kind = DeviceKind::cuda, options.precision = precision;
  return canPrepend(unit, convolution, normalisation, 0, true, options);
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

/// Of the convolutions that are one unit with the normalisation behind them, and of no others here:
/// kernels of fp16 that sum channels in a fixed order, as many as are ever measured, within the
/// workspace beside the sums.
TEST(Cudnn, SumsTheChannelsThatItConvolves) {
  const Descriptor properties = h200();
  for (Precision precision : {Precision::fp16, Precision::bf16, Precision::tf32})
    for (const Shape &s : kSummed) {
      const std::string compute(toString(precision));
      ConvolutionFields fields = fieldsOf(s);
      fields.compute = compute.c_str();
      const int64_t room = boundOf(s, "NormalisedConvolution") -
                           runtime::cuda::normalisationBytes(product(s.y) / s.y[1], s.y[1]) -
                           runtime::cuda::kWorkspaceAlignment;
      auto ask = [&] {
        const ConvolutionPlan plan({nullptr, &properties}, {true, true, size_t(room)}, fields,
                                   ConvolutionUse::sums, false);
        EXPECT_LE(plan.workspaceBytes(), room);
        EXPECT_GE(plan.candidates(), runtime::Tuning::kMostWays);
      };
      SCOPED_TRACE(ConvolutionPlan::problemOf(fields, ConvolutionUse::sums));
      if (areOneUnit(s, precision))
        EXPECT_NO_THROW(ask());
      else
        EXPECT_THROW(ask(), runtime::Error);
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
