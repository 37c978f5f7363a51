#include "testsuite/kernels/KernelCalls.h"

#include "compiler/devices/LibraryAnswer.h"
#include "compiler/operators/Operator.h"
#include "runtime/kernels/Layouts.h"
#include "runtime/kernels/Library.h"

#include <gtest/gtest.h>

/// The rules of compiler/devices against what the library answers when asked.
namespace pdc {

namespace {

struct Shape {
  int64_t batch, in, size, out, kernel, stride, pad;
  int64_t output() const { return (size + 2 * pad - kernel) / stride + 1; }
};

std::vector<Shape> sweep() {
  struct Window {
    int64_t kernel, stride, pad, size;
  };
  std::vector<Shape> shapes;
  for (int64_t in : {1, 2, 3, 4, 6, 8, 12, 16, 17, 30, 32, 48, 64, 100, 128, 256, 512})
    for (int64_t out : {1, 6, 10, 16, 20, 32, 48, 64, 100, 256, 512})
      for (Window w : {Window{5, 1, 0, 28},
                       {5, 1, 2, 28},
                       {3, 1, 1, 32},
                       {3, 1, 1, 8},
                       {3, 1, 1, 4},
                       {3, 1, 1, 2},
                       {3, 1, 1, 1},
                       {3, 2, 1, 32},
                       {1, 1, 0, 16},
                       {1, 2, 0, 16},
                       {1, 2, 0, 56},
                       {7, 2, 3, 32},
                       {11, 4, 2, 64},
                       {2, 2, 0, 8}})
        shapes.push_back({w.size >= 28 ? 4 : 32, in, w.size, out, w.kernel, w.stride, w.pad});
  return shapes;
}

enum class Use { forward, inputGradient, weightGradient };

KernelChoice choose(const Shape &s, Use use, const DeviceOptions &options) {
  TensorType x{ElementType::f32, {s.batch, s.in, s.size, s.size}};
  TensorType w{ElementType::f32, {s.out, s.in, s.kernel, s.kernel}};
  TensorType y{ElementType::f32, {s.batch, s.out, s.output(), s.output()}};
  Attributes attributes = {{"kernel_shape", std::vector<int64_t>{s.kernel, s.kernel}},
                           {"strides", std::vector<int64_t>{s.stride, s.stride}},
                           {"pads", std::vector<int64_t>(4, s.pad)},
                           {"input_shape", x.shape}};
  UnitView unit;
  unit.name = "swept";
  unit.operands = use == Use::forward         ? std::vector<std::optional<TensorType>>{x, w}
                  : use == Use::inputGradient ? std::vector<std::optional<TensorType>>{y, w}
                                              : std::vector<std::optional<TensorType>>{y, x};
  std::string_view op = use == Use::forward         ? "Conv"
                        : use == Use::inputGradient ? "ConvInputGrad"
                                                    : "ConvWeightGrad";
  unit.nodes = {{op,
                 op,
                 &attributes,
                 {UnitValue::operand(0), UnitValue::operand(1)},
                 {use == Use::forward         ? y
                  : use == Use::inputGradient ? x
                                              : w}}};
  unit.results = {UnitValue::node(0)};
  return chooseKernel(unit, options);
}

/// A kernel's constructor refuses slow implementations in blocked layouts and too little workspace.
/// (Asked on a machine whose library has kernels of this width.)
void expectRuns(const Shape &s, Use use, const DeviceOptions &options) {
  if (!canAskLibrary(options))
    return;
  KernelChoice choice = choose(s, use, options);
  EXPECT_FALSE(options.vectorWidth == 16 && choice.fields.has("fallback"));
  EXPECT_NO_THROW(makeKernel(choice, {options.threads, choice.workspaceBytes}))
      << "threads " << options.threads << " width " << options.vectorWidth;
}

} // namespace

TEST(LibrarySweep, KernelsRunWithinTheirWorkspace) {
  for (const Shape &s : sweep())
    for (Use use : {Use::forward, Use::inputGradient, Use::weightGradient}) {
      expectRuns(s, use, {true, 1, 16});
      expectRuns(s, use, {true, 2, 8});
      expectRuns(s, use, {false, 2, 16});
      if (HasFailure())
        return;
    }
}

TEST(LibrarySweep, ManyThreads) {
  for (const Shape &s : sweep())
    if (s.in >= 16 && s.out >= 16 && s.size >= 4)
      for (Use use : {Use::forward, Use::inputGradient, Use::weightGradient})
        expectRuns(s, use, {false, 8, 16});
}

/// Where the library may choose it takes what the rules say. (With 4 to 15 input channels it
/// prefers row-major images or its AVX2 kernels; the rules pad them, which needs no reorders. It
/// refuses its own choice for a few channels of one pixel.)
TEST(LibrarySweep, LayoutsAreTheLibrarysOwn) {
  using Descriptor = dnnl::memory::desc;
  auto any = [](const std::vector<int64_t> &shape) {
    return Descriptor(shape, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any);
  };
  if (!__builtin_cpu_supports("avx512vl"))
    GTEST_SKIP() << "needs AVX-512";
  for (const Shape &s : sweep()) {
    if ((s.in > 3 && s.in < 16) || (s.in <= 3 && s.size == 1))
      continue;
    std::vector<int64_t> x = {s.batch, s.in, s.size, s.size}, w = {s.out, s.in, s.kernel, s.kernel},
                         y = {s.batch, s.out, s.output(), s.output()};
    dnnl::memory::dims strides = {s.stride, s.stride}, pads = {s.pad, s.pad};
    dnnl::convolution_forward::primitive_desc forward({dnnl::prop_kind::forward_training,
                                                       dnnl::algorithm::convolution_direct, any(x),
                                                       any(w), any(y), strides, pads, pads},
                                                      runtime::libraryEngine());
    KernelChoice choice = choose(s, Use::forward, {true, 1, 16});
    EXPECT_EQ(forward.src_desc(), runtime::describe(x, choice.inputLayouts[0]));
    EXPECT_EQ(forward.weights_desc(), runtime::describe(w, choice.inputLayouts[1]));
    EXPECT_EQ(forward.dst_desc(), runtime::describe(y, choice.outputLayouts[0]));

    dnnl::convolution_backward_data::primitive_desc backward(
        {dnnl::algorithm::convolution_direct, any(x), any(w), any(y), strides, pads, pads},
        runtime::libraryEngine(), forward);
    choice = choose(s, Use::inputGradient, {true, 1, 16});
    EXPECT_EQ(backward.diff_src_desc(), runtime::describe(x, choice.outputLayouts[0]));
    EXPECT_EQ(backward.weights_desc(), runtime::describe(w, choice.inputLayouts[1]));

    dnnl::convolution_backward_weights::primitive_desc gradient(
        {dnnl::algorithm::convolution_direct, any(x), any(w), any(y), strides, pads, pads},
        runtime::libraryEngine(), forward);
    choice = choose(s, Use::weightGradient, {true, 1, 16});
    EXPECT_EQ(gradient.src_desc(), runtime::describe(x, choice.inputLayouts[1]));
    EXPECT_EQ(gradient.diff_weights_desc(), runtime::describe(w, choice.outputLayouts[0]));
    ASSERT_FALSE(HasFailure()) << s.in << "->" << s.out << " " << s.kernel << "x" << s.kernel
                               << " @" << s.size;
  }
}

/// The library keeps the positions of maxima in a byte or in four.
TEST(LibrarySweep, PositionsTakeTheLibrarysOwnBytes) {
  for (auto [height, width] : {std::pair<int64_t, int64_t>{2, 2}, {15, 17}, {16, 16}, {1, 257}}) {
    TensorType x{ElementType::f32, {1, 16, height + 2, width + 2}};
    TensorType y{ElementType::f32, {1, 16, 3, 3}}, positions{ElementType::i64, y.shape};
    Attributes attributes = {{"kernel_shape", std::vector<int64_t>{height, width}}};
    UnitView unit;
    unit.name = "pooled";
    unit.operands = {x};
    unit.nodes = {{"MaxPool", "pooled", &attributes, {UnitValue::operand(0)}, {y, positions}}};
    unit.results = {UnitValue::node(0), UnitValue::node(0, 1)};
    KernelChoice choice = chooseKernel(unit, {true, 1, 16});
    dnnl::pooling_forward::primitive_desc asked({dnnl::prop_kind::forward_training,
                                                 dnnl::algorithm::pooling_max,
                                                 runtime::describe(x.shape, choice.inputLayouts[0]),
                                                 runtime::describe(y.shape, choice.inputLayouts[0]),
                                                 {1, 1},
                                                 {height, width},
                                                 {0, 0},
                                                 {0, 0}},
                                                runtime::libraryEngine());
    EXPECT_EQ(static_cast<size_t>(bytesInLayout(positions, choice.outputLayouts[1])),
              asked.workspace_desc().get_size())
        << height << "x" << width;
  }
}

} // namespace pdc
