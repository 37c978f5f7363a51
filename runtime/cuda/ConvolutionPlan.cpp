#include "runtime/cuda/ConvolutionPlan.h"

#include "runtime/Error.h"
#include "runtime/ShapeText.h"
#include "runtime/cuda/OperationGraph.h"

#include <sstream>

namespace pdc::runtime::cuda {

namespace {

using Tensor = OperationGraph::Tensor;

/// [n][c][w] is [n][c][1][w] to the library.
std::vector<int64_t> withTwoDimensions(const Dimensions &given) {
  std::vector<int64_t> shape(given.begin(), given.end());
  if (shape.size() == 3)
    shape.insert(shape.begin() + 2, 1);
  return shape;
}
std::vector<int64_t> perDimension(const Dimensions &given, int64_t missing) {
  std::vector<int64_t> values(given.begin(), given.end());
  if (values.size() == 1)
    values.insert(values.begin(), missing);
  return values;
}

/// Elements from one index to the next where dimension 1 is the innermost.
std::vector<int64_t> channelsLastStrides(const std::vector<int64_t> &shape) {
  std::vector<int64_t> strides(shape.size());
  strides[1] = 1;
  int64_t step = shape[1];
  for (size_t d = shape.size(); d-- > 2; step *= shape[d])
    strides[d] = step;
  strides[0] = step;
  return strides;
}

Descriptor describeWindow(const ConvolutionFields &f) {
  Descriptor window(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, f.name);
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  window.setRaw(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  window.setRaw(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  auto set = [&](cudnnBackendAttributeName_t name, const Dimensions &values, int64_t missing) {
    window.set(name, CUDNN_TYPE_INT64, perDimension(values, missing));
  };
  window.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS,
             static_cast<int64_t>(perDimension(f.strides, 1).size()));
  set(CUDNN_ATTR_CONVOLUTION_DILATIONS, f.dilations, 1);
  set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, f.strides, 1);
  set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, f.padsBegin, 0);
  set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, f.padsEnd, 0);
  window.finish();
  return window;
}

/// The attributes of one of the three operations, which differ in their names only.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t window, image, weight, result, alpha, beta;
};

Names namesOf(ConvolutionUse use) {
  switch (use) {
  case ConvolutionUse::forward:
  case ConvolutionUse::sums:
  case ConvolutionUse::finished:
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  case ConvolutionUse::inputGradient:
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
  case ConvolutionUse::weightGradient:
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
  throw Error("unknown use of a convolution");
}

} // namespace

std::string ConvolutionPlan::problemOf(const ConvolutionFields &f, ConvolutionUse use) {
  constexpr const char *uses[] = {
      "convolution", "gradient of a convolution's input", "gradient of a convolution's weight",
      "convolution with sums of its channels", "convolution with its bias"};
  const bool rectifies = use == ConvolutionUse::finished && f.relu;
  std::ostringstream text;
  text << uses[size_t(use)] << (rectifies ? " and relu" : "") << " in " << f.compute << ": "
       << shapeText(f.input) << " with " << shapeText(f.weight) << " to " << shapeText(f.output)
       << ", strides " << shapeText(f.strides) << ", dilations " << shapeText(f.dilations)
       << ", pads " << shapeText(f.padsBegin) << " and " << shapeText(f.padsEnd);
  return text.str();
}

ConvolutionPlan::ConvolutionPlan(const PlanTarget &target, const KernelRules &rules,
                                 const ConvolutionFields &fields, ConvolutionUse use, bool adds,
                                 Tuning *tuning)
    : fields(fields), use(use), adds(adds), room(rules.workspace),
      factors(factorsOf(fields.compute, fields.name)) {
  plan.emplace(describeGraph(target), target, rules, this->fields.name, tuning,
               problemOf(fields, use) + (adds ? ", added" : ""));
  if (!*plan)
    throw Error("unit '", fields.name,
                "': no kernel of cuDNN's that sums in f32 and a fixed order convolves ",
                shapeText(fields.input), " with ", shapeText(fields.weight), " to ",
                shapeText(fields.output), " within ", rules.workspace, " bytes of workspace (of ",
                plan->describeCandidates(), "); try a microbatch of another size");
}

std::shared_ptr<ConvolutionPlan> ConvolutionPlan::shared(const KernelRules &rules,
                                                         const ConvolutionFields &fields,
                                                         ConvolutionUse use, bool adds,
                                                         Tuning *tuning) {
  auto make = [&] {
    return std::make_shared<ConvolutionPlan>(PlanTarget{networkHandle(), nullptr}, rules, fields,
                                             use, adds, tuning);
  };
  const std::string problem = problemOf(fields, use) + (adds ? ", added" : "");
  auto known = sharedPlan<ConvolutionPlan>(tuning, problem, make);
  if (known->room <= rules.workspace)
    return known;
  return sharedPlan<ConvolutionPlan>(
      tuning, problem + ", within " + std::to_string(rules.workspace) + " bytes", make);
}

static cudnnDataType_t storedType(Factors factors) {
  return factors == Factors::bf16   ? CUDNN_DATA_BFLOAT16
         : factors == Factors::fp16 ? CUDNN_DATA_HALF
                                    : CUDNN_DATA_FLOAT;
}

static Descriptor describeConvolution(const ConvolutionFields &fields, ConvolutionUse use,
                                      bool adds, const OperationGraph &graph, Tensor image,
                                      Tensor weight, Tensor result) {
  const Names names = namesOf(use);
  Descriptor operation(names.operation, fields.name);
  operation.set(names.window, describeWindow(fields));
  operation.set(names.image, graph.at(image));
  operation.set(names.weight, graph.at(weight));
  operation.set(names.result, graph.at(result));
  operation.set(names.alpha, 1.0f);
  operation.set(names.beta, adds ? 1.0f : 0.0f);
  operation.finish();
  return operation;
}

/// Over samples and pixels.
static Descriptor describeSums(const char *unit, const OperationGraph &graph, Tensor image,
                               Tensor sums, Tensor squares) {
  const cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  Descriptor operation(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR, unit);
  operation.setRaw(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, 1, &mode);
  operation.setRaw(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  operation.set(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, graph.at(image));
  operation.set(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, graph.at(sums));
  operation.set(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, graph.at(squares));
  operation.finish();
  return operation;
}

/// The tensors in memory come first, in the order in which calls point to them.
Descriptor ConvolutionPlan::describeGraph(const PlanTarget &target) const {
  OperationGraph graph(fields.name);
  auto inMemory = [&](const Dimensions &given, cudnnDataType_t type) {
    const std::vector<int64_t> shape = withTwoDimensions(given);
    return graph.inMemory(type, shape, channelsLastStrides(shape));
  };
  auto perChannel = [&] {
    Dimensions shape = fields.output;
    for (size_t d = 0; d < shape.size(); ++d)
      shape[d] = d == 1 ? shape[d] : 1;
    return inMemory(shape, CUDNN_DATA_FLOAT);
  };
  const cudnnDataType_t stored = storedType(factors);
  const Tensor image = inMemory(fields.input, stored), weight = inMemory(fields.weight, stored),
               result = inMemory(fields.output, stored);
  auto convolve = [&](Tensor to) {
    graph.add(describeConvolution(fields, use, adds, graph, image, weight, to));
  };
  if (use == ConvolutionUse::finished) {
    const Tensor bias = perChannel();
    auto between = [&] {
      return graph.between(graph.sizesOf(result), graph.stridesOf(result), CUDNN_DATA_FLOAT);
    };
    const Tensor convolved = between(), biased = fields.relu ? between() : result;
    convolve(convolved);
    graph.apply(CUDNN_POINTWISE_ADD, {convolved, bias}, biased);
    if (fields.relu)
      graph.apply(CUDNN_POINTWISE_RELU_FWD, {biased}, result);
    return graph.finish(target);
  }
  convolve(result);
  if (use == ConvolutionUse::sums) {
    const Tensor sums = perChannel(), squares = perChannel();
    graph.add(describeSums(fields.name, graph, result, sums, squares));
  }
  return graph.finish(target);
}

/// What a call may do with the results when the plan runs first.
static FirstRun firstRunOver(std::initializer_list<const void *> tensors) {
  const void *const *all = tensors.begin();
  return firstRunWhere(all[0] != all[1] && all[1] != all[2] && all[2] != all[0]);
}

void ConvolutionPlan::run(const Run &run, std::initializer_list<const void *> tensors,
                          FirstRun first) {
  constexpr int64_t ids[] = {1, 2, 3, 4, 5};
  (*plan)(run, std::span(ids, tensors.size()), std::span(tensors.begin(), tensors.size()),
          alignedWorkspace(run), first);
}

/// A kernel that fails may have added a part of its result already.
void ConvolutionPlan::operator()(const Run &run, std::initializer_list<const void *> tensors) {
  this->run(run, tensors, adds ? FirstRun::plain : firstRunOver(tensors));
}

void ConvolutionPlan::tryOut(const Run &run, std::initializer_list<const void *> tensors) {
  if (plan->isChosen() || isRecorded(run))
    return;
  try {
    this->run(run, tensors, firstRunOver(tensors));
  } catch (const Error &) {
    // Who comes to need it is told.
  }
}

} // namespace pdc::runtime::cuda
