#include "compiler/devices/Rules.h"

/// Attention of 16 bits on GPUs is cuDNN's fused one where it has one, else a kernel of the runtime
/// that does the same without tensor cores. What it has was asked of cuDNN 9.19 for sm_90.
namespace pdc {

namespace {

/// Why cuDNN does not compute an attention; empty where it does. `fields` are those of its kernel.
std::string whyNotFused(const Attributes &fields, bool isGradient) {
  const int64_t width = fields.integer("width", 1);
  if (fields.has("ratio"))
    return "drops shares, and pdc's random numbers are not cuDNN's";
  if (width != fields.integer("valueWidth", 1) || width % 8 != 0 || width > 256)
    return "has heads of " + std::to_string(width) + " and " +
           std::to_string(fields.integer("valueWidth", 1)) +
           " numbers, and cuDNN wants them equal, a multiple of 8, and 256 at most";
  if (fields.has("boolean"))
    return "has a mask of booleans, and cuDNN adds masks of numbers";
  if (fields.integer("past", 0) != 0)
    return "is causal behind a past, and cuDNN's is so from the first key on";
  if (isGradient && fields.integers("results") != std::vector<int64_t>{0, 1, 2})
    return "wants other gradients than those of queries, keys and values together";
  return "";
}

void fuse(KernelChoice &choice, const UnitReader &reader, size_t first) {
  const UnitNode &node = reader.node(0);
  if (bytesPerElement(reader.inputType(node, first).element) != 2)
    return;
  if (std::string why = whyNotFused(choice.fields, first == 1); !why.empty()) {
    choice.remark = "attention" + std::string(first == 1 ? "'s gradient " : " ") + why +
                    ": it runs on a kernel without tensor cores";
    return;
  }
  choice.fields.set("compute", std::string(toString(reader.options.precision)));
  choice.fields.set("name", std::string(reader.unit.name));
  choice.fields.set("results", reader.resultSlots(node));
}

} // namespace

KernelChoice chooseCudaAttention(const UnitReader &reader) {
  KernelChoice choice = chooseAttention(reader);
  fuse(choice, reader, 0);
  return choice;
}

KernelChoice chooseCudaAttentionGradient(const UnitReader &reader) {
  KernelChoice choice = chooseAttentionGradient(reader);
  fuse(choice, reader, 1);
  return choice;
}

} // namespace pdc
