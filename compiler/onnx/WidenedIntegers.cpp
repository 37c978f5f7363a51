#include "compiler/onnx/WidenedIntegers.h"

#include <algorithm>

namespace pdc {

/// Whose results may be beyond the operands' type.
static constexpr std::string_view arithmetic[] = {
    "Abs",        "Add", "CumSum", "Div",        "Einsum",    "Gemm",
    "MatMul",     "Mul", "Neg",    "Pow",        "ReduceL1",  "ReduceL2",
    "ReduceMean", "Sub", "Sum",    "ReduceProd", "ReduceSum", "ReduceSumSquare"};

/// Whose results are elements of their operands. Indices and shapes beside them are i32 or i64 by
/// the standard, and never widened.
static constexpr std::string_view movements[] = {"Clip",
                                                 "Compress",
                                                 "Concat",
                                                 "DepthToSpace",
                                                 "Expand",
                                                 "Flatten",
                                                 "Gather",
                                                 "GatherElements",
                                                 "GatherND",
                                                 "Identity",
                                                 "Max",
                                                 "Min",
                                                 "Pad",
                                                 "Range",
                                                 "ReduceMax",
                                                 "ReduceMin",
                                                 "Reshape",
                                                 "ReverseSequence",
                                                 "ScatterElements",
                                                 "ScatterND",
                                                 "Slice",
                                                 "SpaceToDepth",
                                                 "Split",
                                                 "Squeeze",
                                                 "Tile",
                                                 "TopK",
                                                 "Transpose",
                                                 "Trilu",
                                                 "Unique",
                                                 "Unsqueeze",
                                                 "Where"};

void refuseWidenedArithmetic(const Model &model) {
  std::map<std::string, const Initializer *> widened; // values, and where they come from
  for (const auto &[name, initializer] : model.initializers)
    if (!initializer.widened.empty())
      widened[name] = &initializer;
  if (widened.empty())
    return;
  for (const ModelNode &node : model.nodes) {
    auto read = std::ranges::find_if(
        node.inputs, [&](const std::string &name) { return widened.contains(name); });
    if (read == node.inputs.end())
      continue;
    const Initializer &origin = *widened[*read];
    // What is cast to its type would have to wrap, too.
    if (std::ranges::count(arithmetic, node.op) > 0 ||
        (node.op == "CastLike" && read != node.inputs.begin()))
      throw Error("node '" + node.name + "' (" + node.op + "): computes in " + origin.widened +
                  ", as '" + origin.name +
                  "' is, which may wrap; expected INT64, INT32 or a floating-point type: cast the "
                  "constant to one of them before, where the model is exported");
    if (std::ranges::count(movements, node.op) > 0)
      for (const std::string &output : node.outputs)
        widened.emplace(output, &origin);
  }
}

} // namespace pdc
