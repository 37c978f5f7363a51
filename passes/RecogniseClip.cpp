#include "passes/Composites.h"

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

/// The operand beside one number, of the node's own type, and that number.
static std::optional<std::pair<Value, Value>> matchBound(NodeOp node) {
  if (!node || node.getNumOperands() != 2)
    return std::nullopt;
  for (int i : {0, 1})
    if (numberOf(node.getOperand(i)) &&
        node.getOperand(1 - i).getType() == node.getResult(0).getType())
      return std::pair(node.getOperand(1 - i), node.getOperand(i));
  return std::nullopt;
}

/// Whether the file says that a clamp was meant: of equals a Max or Min has half the gradient.
static bool isClamp(NodeOp node) { return node.getOnnxAttributes().contains("clamps"); }

namespace pdc {

std::optional<Composite> matchClip(NodeOp root) {
  const bool isLeast = root.getOp() == "Max";
  auto outer = matchBound(root);
  if (!outer)
    return std::nullopt;
  auto [x, bound] = *outer;
  if (NodeOp logarithm = isLeast && x.hasOneUse() ? maker(x, "Log") : NodeOp())
    return Composite{"LogAtLeast", {logarithm.getOperand(0), bound}};
  if (!isClamp(root))
    return std::nullopt;
  NodeOp other = x.hasOneUse() ? maker(x, isLeast ? "Min" : "Max") : NodeOp();
  if (auto inner = other && isClamp(other) ? matchBound(other) : std::nullopt) {
    Value least = isLeast ? bound : inner->second, most = isLeast ? inner->second : bound;
    if (*numberOf(least) <= *numberOf(most))
      return Composite{"Clip", {inner->first, least, most}};
  }
  return Composite{isLeast ? "AtLeast" : "AtMost", {x, bound}};
}

} // namespace pdc
