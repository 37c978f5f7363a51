#include "compiler/onnx/KnownAttributes.h"

#include "compiler/Error.h"
#include "compiler/onnx/FlattenFunctions.h"
#include "compiler/onnx/TrainingInfo.h"
#include "compiler/operators/Rules.h"

#include <onnx/defs/schema.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string_view>

namespace pdc {

namespace {

using KnownNames = std::set<std::string, std::less<>>;

/// What an operator set behind the ONNX library's newest one has done to an operator.
struct Change {
  int opset;
  std::string_view op;
  std::string_view attribute; ///< "": none of a new operator
  bool isRemoved = false;     ///< it is an input from then on
};

/// To operator set 28, but for new operators that are not supported.
std::span<const Change> changes() {
  static constexpr Change changes[] = {
      {18, "CenterCropPad", "axes"},
      {18, "Col2Im", "dilations"},
      {18, "Col2Im", "pads"},
      {18, "Col2Im", "strides"},
      {18, "GroupNormalization", "epsilon"},
      {18, "GroupNormalization", "num_groups"},
      {18, "LpPool", "ceil_mode"},
      {18, "LpPool", "dilations"},
      {18, "Mish", ""},
      {18, "Resize", "antialias"},
      {18, "Resize", "axes"},
      {18, "Resize", "keep_aspect_ratio_policy"},
      {18, "Split", "num_outputs"},
      {19, "AveragePool", "dilations"},
      {19, "Cast", "saturate"},
      {19, "CastLike", "saturate"},
      {19, "QuantizeLinear", "saturate"},
      {20, "AffineGrid", "align_corners"},
      {20, "DFT", "axis", true},
      {20, "Gelu", "approximate"},
      {21, "DequantizeLinear", "block_size"},
      {21, "GroupNormalization", "stash_type"},
      {21, "QuantizeLinear", "block_size"},
      {21, "QuantizeLinear", "output_dtype"},
      {23, "Attention", "is_causal"},
      {23, "Attention", "kv_num_heads"},
      {23, "Attention", "q_num_heads"},
      {23, "Attention", "qk_matmul_output_mode"},
      {23, "Attention", "scale"},
      {23, "Attention", "softcap"},
      {23, "Attention", "softmax_precision"},
      {23, "DequantizeLinear", "output_dtype"},
      {23, "QuantizeLinear", "precision"},
      {23, "RMSNormalization", "axis"},
      {23, "RMSNormalization", "epsilon"},
      {23, "RMSNormalization", "stash_type"},
      {23, "RotaryEmbedding", "interleaved"},
      {23, "RotaryEmbedding", "num_heads"},
      {23, "RotaryEmbedding", "rotary_embedding_dim"},
      {24, "Cast", "round_mode"},
      {24, "CastLike", "round_mode"},
      {24, "Swish", "alpha"},
      {24, "TensorScatter", "axis"},
      {24, "TensorScatter", "mode"},
      {25, "Attention", "left_window_size"},
      {25, "Attention", "right_window_size"},
      {26, "CumProd", "exclusive"},
      {26, "CumProd", "reverse"},
      {27, "CausalConvWithState", "activation"},
      {27, "LinearAttention", "chunk_size"},
      {27, "LinearAttention", "kv_num_heads"},
      {27, "LinearAttention", "q_num_heads"},
      {27, "LinearAttention", "scale"},
      {27, "LinearAttention", "update_rule"},
      {27, "Range", "stash_type"},
      {28, "SpaceToDepth", "mode"},
      {28, "SwiGLU", "alpha"},
  };
  return changes;
}

/// All reductions follow ReduceSum, which did so in operator set 13.
constexpr int kReductionsByInput = 18;

/// ONNX Runtime marks nodes of files that it has optimised, such as "__backwardpass".
constexpr const char *kMark = "__";

int newestOpsetOfLibrary(const std::string &domain) {
  const auto &versions = onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
  const auto range = versions.find(domain);
  return range == versions.end() ? 0 : range->second.second;
}

/// Nothing where they are not known.
std::optional<KnownNames> attributesOf(const onnx::NodeProto &node, int64_t opset) {
  const std::string &op = node.op_type();
  const auto asked =
      static_cast<int>(std::min<int64_t>(opset, newestOpsetOfLibrary(node.domain())));
  KnownNames names;
  const onnx::OpSchema *schema = onnx::OpSchemaRegistry::Schema(op, asked, node.domain());
  bool isKnown = schema != nullptr;
  if (schema)
    for (const auto &[name, attribute] : schema->attributes())
      names.insert(name);
  if (opset >= kReductionsByInput && op.starts_with("Reduce")) {
    names.erase("axes");
    names.insert("noop_with_empty_axes");
  }
  for (const Change &change : changes())
    if (change.op == op && change.opset <= opset && node.domain().empty()) {
      isKnown = true;
      if (change.isRemoved)
        names.erase(std::string(change.attribute));
      else if (!change.attribute.empty())
        names.emplace(change.attribute);
    }
  return isKnown ? std::optional(names) : std::nullopt;
}

std::string listOf(const KnownNames &names) {
  std::string list;
  for (const std::string &name : names)
    list += (list.empty() ? "'" : ", '") + name + "'";
  return list.empty() ? "none" : list;
}

} // namespace

void checkAttributesKnown(const onnx::NodeProto &node, int64_t opset) {
  for (const onnx::AttributeProto &attribute : node.attribute())
    if (!attribute.ref_attr_name().empty())
      throw Error(describe(node) + ": attribute '" + attribute.name() + "' is attribute '" +
                  attribute.ref_attr_name() + "' of a function, and the node is in none");
  const bool isOnnx = node.domain().empty() && opset <= kLastOpset;
  if (node.attribute().empty() || (!isOnnx && node.domain() != trainingDomain))
    return;
  const std::optional<KnownNames> known = attributesOf(node, opset);
  if (!known)
    return;
  for (const onnx::AttributeProto &attribute : node.attribute())
    if (!known->contains(attribute.name()) && !attribute.name().starts_with(kMark))
      throw Error(describe(node) + ": attribute '" + attribute.name() + "' is unknown in opset " +
                  std::to_string(opset) + ", expected " + listOf(*known));
}

} // namespace pdc
