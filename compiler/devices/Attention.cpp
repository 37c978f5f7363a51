#include "compiler/devices/UnitReader.h"
#include "compiler/operators/AttentionShape.h"
#include "compiler/operators/Rules.h"
#include "runtime/kernels/AttentionFields.h"

namespace pdc {

namespace {

/// The fields of both kernels; `first` is the input that holds the queries, `mask` the mask.
KernelChoice attentionFields(const UnitReader &reader, const UnitNode &node, size_t first,
                             size_t mask) {
  const AttentionShape shape(reader.view(node), first, mask);
  const Attributes &given = *node.attributes;
  KernelChoice choice;
  choice.fields = {{"batch", shape.batch},
                   {"heads", shape.heads},
                   {"keyHeads", shape.keyHeads},
                   {"keys", shape.keys},
                   {"queries", shape.queries},
                   {"rowsFirst", shape.rowsFirst},
                   {"scale", given.number("scale", 1)},
                   {"valueWidth", shape.valueWidth},
                   {"width", shape.width}};
  if (shape.joined != 0)
    choice.fields.set("joined", shape.joined);
  if (given.integer("is_guarded", 0) && first == 0)
    choice.fields.set("guarded", int64_t(1));
  if (given.integer("is_causal", 0))
    choice.fields.set("causal", int64_t(1)), choice.fields.set("past", given.integer("past", 0));
  if (reader.hasInput(node, mask)) {
    choice.fields.set("maskStrides", shape.maskStrides);
    if (shape.masks != 0)
      choice.fields.set("masks", shape.masks);
    if (reader.inputType(node, mask).element == ElementType::boolean)
      choice.fields.set("boolean", int64_t(1));
  }
  if (reader.hasInput(node, mask + 1)) {
    choice.fields.set("key", given.integer("key", 0));
    choice.fields.set("ratio", given.number("ratio", 0.5));
    choice.fields.set("samples", given.integer("samples", 1));
  }
  for (size_t i = 0; i < mask + 2; ++i)
    addArgument(choice, reader, node,
                i < first || i > first + 2 ? i : first + shape.tensorOf(i - first));
  return choice;
}

/// What the CPU's threads work in depends on these fields alone.
runtime::AttentionFields sizes(const KernelChoice &choice) {
  runtime::AttentionFields f;
  f.keys = choice.fields.integer("keys", 1);
  f.queries = choice.fields.integer("queries", 1);
  f.valueWidth = choice.fields.integer("valueWidth", 1);
  f.width = choice.fields.integer("width", 1);
  return f;
}

} // namespace

KernelChoice chooseAttention(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  KernelChoice choice = attentionFields(reader, node, 0, 3);
  choice.kernel = "Attention";
  std::vector<int64_t> slots = reader.resultSlots(node);
  if (slots != std::vector<int64_t>{0} && slots != std::vector<int64_t>{0, 1})
    reader.refuse("the kernel makes the result alone or with the sums of its rows");
  choice.outputLayouts.assign(slots.size(), "");
  choice.workspaceBytes =
      4 * reader.options.threads * runtime::AttentionBlocks::forward(sizes(choice));
  return choice;
}

KernelChoice chooseAttentionGradient(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  KernelChoice choice = attentionFields(reader, node, 1, 6);
  choice.kernel = "AttentionGradient";
  std::vector<int64_t> slots = reader.resultSlots(node);
  const int64_t tensors = static_cast<int64_t>(AttentionShape(reader.view(node), 1, 6).tensors());
  for (int64_t &slot : slots)
    slot = slot == tensors ? 3 : slot;
  choice.fields.set("results", slots);
  choice.outputLayouts.assign(slots.size(), "");
  choice.workspaceBytes =
      4 * reader.options.threads * runtime::AttentionBlocks::backward(sizes(choice));
  return choice;
}

/// Rows of one width, whose angles are repeated: the dimensions before the width.
KernelChoice chooseRotation(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  std::vector<int64_t> shape = reader.inputType(node, 0).shape;
  std::vector<int64_t> strides = broadcastStrides(reader.inputType(node, 1).shape, shape);
  const int64_t width = shape.back();
  shape.pop_back(), strides.pop_back();
  KernelChoice choice;
  choice.kernel = "RotateHalves";
  choice.fields = {{"inverse", node.attributes->integer("inverse", 0)},
                   {"rows", shape},
                   {"strides", strides},
                   {"width", width}};
  if (node.attributes->integer("interleaved", 0))
    choice.fields.set("interleaved", int64_t(1));
  for (size_t i = 0; i < 3; ++i)
    addArgument(choice, reader, node, i);
  choice.outputLayouts = {""};
  choice.inPlace.push_back({0, 0});
  return choice;
}

} // namespace pdc
