#pragma once

#include <string_view>
#include <utility>

/// Every name of the runtime that generated sources spell. A change of runtime/Program.h or of a
/// kernel's calling convention is a change here and nowhere else in codegen.
namespace pdc::runtime_names {

inline constexpr const char kProgramHeader[] = "runtime/Program.h";
inline constexpr const char kMainHeader[] = "runtime/Main.h";
/// `runtime/kernels/<class>.h` holds a kernel.
inline constexpr const char kKernelFolder[] = "runtime/kernels/";
inline constexpr const char kNamespace[] = "pdc::runtime";
inline constexpr const char kMain[] = "pdc::runtime::main";

/// The kernel whose loop body is printed, and the free functions of its header.
inline constexpr const char kElementwiseKernel[] = "Elementwise";
inline constexpr const char kElementwise[] = "elementwise";
/// The same where operands are repeated: its fields "extents" and "strides" (of each operand in
/// turn) become template arguments.
inline constexpr const char kBroadcastKernel[] = "Broadcast";
inline constexpr const char kBroadcast[] = "broadcast";
inline constexpr const char kExtents[] = "Extents";
inline constexpr const char kStrided[] = "strided";
inline constexpr const char kPart[] = "part";
inline constexpr const char kInto[] = "into";
inline constexpr const char kAccumulate[] = "accumulate";
inline constexpr const char kResults[] = "results";
/// What loops on CPUs call in place of standard functions, which no compiler makes a vector of.
inline constexpr std::pair<std::string_view, std::string_view> kVectorFunctions[] = {
    {"std::atan(", "arcTangent("},
    {"std::cos(", "cosine("},
    {"std::erf(", "errorFunction("},
    {"std::exp(", "exponential("},
    {"std::expm1(", "exponentialLessOne("},
    {"std::log(", "logarithm("},
    {"std::log1p(", "logarithmOfOneMore("},
    {"std::pow(", "power("},
    {"std::sin(", "sine("},
    {"std::tanh(", "hyperbolicTangent("}};
/// And everywhere, where the exponent is a number in the source.
inline constexpr std::string_view kPower = "std::pow(", kKnownPower = "knownPower(";

/// CUDA: one header has all kernels, which have their own namespace; the loops' header is for .cu
/// files.
inline constexpr const char kCudaKernels[] = "runtime/cuda/Kernels.h";
inline constexpr const char kCudaDevice[] = "runtime/cuda/CudaAccelerator.h";
inline constexpr const char kCudaLoops[] = "runtime/cuda/Loop.h";
inline constexpr const char kCudaNamespace[] = "pdc::runtime::cuda";
inline constexpr const char kCudaPrefix[] = "cuda::";
inline constexpr const char kCudaSupport[] = "&cuda::support";
inline constexpr const char kCudaSupportOfEdges[] = "&cuda::supportOfEdges";
inline constexpr const char kCudaLoop[] = "loop";
inline constexpr const char kCudaNumber[] = "number";

/// Kernels that weights of a task share: these classes take the object that stands for them in
/// place of the run.
inline constexpr const char *kSharedUpdates[] = {"AdagradUpdate", "AdamUpdate", "MomentumUpdate",
                                                 "SgdUpdate"};
inline constexpr const char kUpdates[] = "updates";
inline constexpr const char kBeginUpdates[] = "cuda::Updates updates(run);";
inline constexpr const char kLaunchUpdates[] = "updates.launch();";

/// What a backward pass of a stage with replicas calls when a gradient is made.
inline constexpr const char kGradientsMade[] = "run.gradientsMade";

/// What a measured program calls when a task begins and when a unit of it ends.
inline constexpr const char kUnitTimesHeader[] = "runtime/UnitTimes.h";
inline constexpr const char kBeginTask[] = "pdc::runtime::unitTimes.begin();";
inline constexpr const char kEndUnit[] = "pdc::runtime::unitTimes.end";
inline constexpr const char kCudaUnitTimesHeader[] = "runtime/cuda/UnitTimes.h";
inline constexpr const char kCudaBeginTask[] = "cuda::MeasuredTask measured(run);";
inline constexpr const char kCudaEndUnit[] = "measured.end";

/// Members of Run, by what they give.
inline constexpr const char kFixed[] = "fixed";
inline constexpr const char kScratch[] = "scratch";
inline constexpr const char kSlot[] = "slot";
inline constexpr const char kLatest[] = "latest";
inline constexpr const char kOfMicrobatch[] = "ofMicrobatch";
inline constexpr const char kNext[] = "next";
inline constexpr const char kAddFlag[] = "!run.first()";

/// Regions of level 4 that have their own accessor; all others are slots.
inline constexpr const char kFixedRegion[] = "fixed";
inline constexpr const char kScratchRegion[] = "scratch";
inline constexpr const char kVersionsRegion[] = "versions";
inline constexpr const char kEvaluationRegion[] = "evaluation";
inline constexpr const char kSlotsPrefix[] = "slots.";

} // namespace pdc::runtime_names
