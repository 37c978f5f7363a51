#include "compiler/devices/LibraryAnswer.h"
#include "compiler/devices/UnitReader.h"
#include "runtime/kernels/MatrixProductDescription.h"

#include <algorithm>

namespace pdc {

using runtime::Fallback;

namespace {

bool hasRelu(const UnitReader &reader) { return reader.nodes.back()->op == "Relu"; }

/// A bias that broadcasts over the product's result, spelled with its rank; empty: none.
std::vector<int64_t> biasShape(const UnitReader &reader, const UnitNode &node, size_t input,
                               const std::vector<int64_t> &output) {
  std::vector<int64_t> shape = reader.inputType(node, input).shape;
  if (shape.size() > output.size())
    reader.refuse("a bias of higher rank than the product");
  shape.insert(shape.begin(), output.size() - shape.size(), 1);
  return shape;
}

/// Packing buffers of the library's blocked matrix kernels, where it cannot be asked: bounded by
/// both operands.
int64_t boundOfWorkspace(const UnitReader &reader, const TensorType &a, const TensorType &b,
                         const TensorType &y) {
  int64_t threads = reader.options.threads;
  return 2 * (a.bytes() + b.bytes()) + threads * (y.bytes() + (int64_t(1) << 20));
}

runtime::MatrixProductFields fieldsOf(const KernelChoice &choice) {
  runtime::MatrixProductFields fields;
  fields.a = choice.fields.integers("a");
  fields.alpha = choice.fields.number("alpha", 1);
  fields.b = choice.fields.integers("b");
  fields.bias = choice.fields.integers("bias");
  fields.output = choice.fields.integers("output");
  fields.relu = choice.fields.integer("relu", 0);
  fields.transA = choice.fields.integer("transA", 0);
  fields.transB = choice.fields.integer("transB", 0);
  return fields;
}

/// What the library runs for the kernel; nothing where it has no implementation.
std::optional<LibraryAnswer> ask(const UnitReader &reader, const KernelChoice &choice, bool add) {
  int64_t beside = 0;
  auto answer = askLibrary(reader.options.threads, [&] {
    runtime::MatrixProductGeometry geometry(fieldsOf(choice), reader.options.vectorWidth);
    beside = packingBytes(geometry.plainA, geometry.a) + packingBytes(geometry.plainB, geometry.b);
    if (add && geometry.rowsAddedAtOnce) {
      geometry = firstRows(geometry);
      beside += geometry.addedBytes();
      add = false;
    }
    return describeMatrixProduct(geometry, add);
  });
  if (answer)
    answer->scratchBytes += beside;
  return answer;
}

std::optional<LibraryAnswer> ask(const UnitReader &reader, const KernelChoice &choice) {
  const bool fits = choice.fields.integers("output").size() <= runtime::Dimensions::kMost;
  if (!fits || reader.options.kind != DeviceKind::cpu || !canAskLibrary(reader.options))
    return std::nullopt;
  std::optional<LibraryAnswer> answer = ask(reader, choice, false);
  if (!answer || !choice.accumulates)
    return answer;
  const std::optional<LibraryAnswer> adding = ask(reader, choice, true);
  if (!adding)
    return std::nullopt;
  return LibraryAnswer{std::max(answer->speed, adding->speed),
                       std::max(answer->scratchBytes, adding->scratchBytes)};
}

/// Without AVX-512 oneDNN 2.6 has plain products only.
void askLibrary(KernelChoice &choice, const UnitReader &reader, const TensorType &a,
                const TensorType &b, const TensorType &y) {
  const std::optional<LibraryAnswer> answer = ask(reader, choice);
  choice.workspaceBytes = answer ? answer->scratchBytes : boundOfWorkspace(reader, a, b, y);
  choice.multipliesPlain =
      reader.options.kind == DeviceKind::cpu &&
      (reader.options.vectorWidth < 16 || (answer && answer->speed == Fallback::gemm));
}

/// A factor as the kernel reads it. Matrices that lie transposed, as the channels of pixels do on
/// GPUs, are read as they lie.
struct Factor {
  std::vector<int64_t> shape;
  bool isTransposed;
  std::string layout;

  Factor(const UnitReader &reader, size_t input, std::string_view attribute) {
    const UnitNode &node = reader.node(0);
    shape = reader.inputType(node, input).shape;
    isTransposed = node.attributes->integer(attribute, 0) != 0;
    if (shape.size() != 3 || reader.options.kind != DeviceKind::cuda ||
        reader.layout(node, input) != channelsLast(3))
      return;
    layout = channelsLast(3);
    isTransposed = !isTransposed;
    std::swap(shape[1], shape[2]);
  }
};

} // namespace

/// Gemm, MatMul and FusedMatMul; with a bias (Gemm's own or an Add behind) and a relu.
KernelChoice chooseMatrixProduct(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  const TensorType &a = reader.inputType(node, 0), &b = reader.inputType(node, 1);
  const UnitNode *adds =
      reader.nodes.size() > 1 && reader.nodes[1]->op == "Add" ? reader.nodes[1] : nullptr;
  const TensorType &y = node.outputs[0];
  const Factor first(reader, 0, "transA"), second(reader, 1, "transB");
  std::vector<int64_t> shapeA = first.shape, shapeB = second.shape, output = y.shape;
  if (shapeB.size() == 1) {
    shapeB.push_back(1);
    output.push_back(1);
  }
  if (shapeA.size() == 1) {
    shapeA.insert(shapeA.begin(), 1);
    output.insert(output.end() - 1, 1);
  }
  KernelChoice choice;
  choice.kernel = "MatrixProduct";
  choice.fields = {{"a", shapeA},
                   {"alpha", node.attributes->number("alpha", 1)},
                   {"b", shapeB},
                   {"name", std::string(reader.unit.name)},
                   {"output", output},
                   {"transA", int64_t(first.isTransposed)},
                   {"transB", int64_t(second.isTransposed)}};
  setCompute(choice, reader);
  addArgument(choice, reader, node, 0, first.layout);
  addArgument(choice, reader, node, 1, second.layout);
  bool hasBias = reader.hasInput(node, 2) || adds;
  if (reader.hasInput(node, 2)) {
    if (node.attributes->number("beta", 1) != 1)
      reader.refuse("Gemm with beta other than 1 has no kernel");
    choice.fields.set("bias", biasShape(reader, node, 2, output));
    addArgument(choice, reader, node, 2);
  } else if (adds) {
    size_t side = adds->inputs[0].kind == UnitValue::Kind::operand ? 0 : 1;
    choice.fields.set("bias", biasShape(reader, *adds, side, output));
    addArgument(choice, reader, *adds, side);
  }
  if (hasRelu(reader))
    choice.fields.set("relu", int64_t(1));
  choice.accumulates = !hasBias && !hasRelu(reader) && reader.unit.isSummed;
  if (choice.accumulates) // which takes a second primitive of the library
    choice.fields.set("sums", int64_t(1));
  choice.outputLayouts = {""};
  askLibrary(choice, reader, a, b, y);
  return choice;
}

} // namespace pdc
