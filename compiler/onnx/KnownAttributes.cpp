#include "compiler/onnx/KnownAttributes.h"

#include "compiler/Error.h"
#include "compiler/onnx/FlattenFunctions.h"

#include <onnx/defs/schema.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

namespace pdc {

namespace {

using KnownNames = std::set<std::string, std::less<>>;

/// The attributes that operator sets behind the ONNX library's newest one, up to 23, have brought:
/// of operators that it knows the additional ones, of new operators all.
struct NewerAttributes {
  std::string_view op;
  bool isNew;
  std::vector<std::string_view> names;
};

const std::vector<NewerAttributes> &newerAttributes() {
  static const std::vector<NewerAttributes> newer = {
      {"Attention",
       true,
       {"is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "scale", "softcap",
        "softmax_precision"}},
      {"AveragePool", false, {"dilations"}},
      {"Cast", false, {"saturate"}},
      {"CastLike", false, {"saturate"}},
      {"Col2Im", true, {"dilations", "pads", "strides"}},
      {"DequantizeLinear", false, {"block_size", "output_dtype"}},
      {"Gelu", true, {"approximate"}},
      {"GroupNormalization", true, {"epsilon", "num_groups", "stash_type"}},
      {"LpPool", false, {"ceil_mode", "dilations"}},
      {"Mish", true, {}},
      {"QuantizeLinear", false, {"block_size", "output_dtype", "precision", "saturate"}},
      {"RMSNormalization", true, {"axis", "epsilon", "stash_type"}},
      {"Resize", false, {"antialias", "axes", "keep_aspect_ratio_policy"}},
      {"RotaryEmbedding", true, {"interleaved", "num_heads", "rotary_embedding_dim"}},
      {"Split", false, {"num_outputs"}},
  };
  return newer;
}

/// ONNX Runtime marks nodes of files that it has optimised, such as "__backwardpass".
constexpr const char *kMark = "__";

int newestOpsetOfLibrary() {
  return onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map().at("").second;
}

/// Nothing where they are not known.
std::optional<KnownNames> attributesOf(const std::string &op, int64_t opset) {
  static const int newest = newestOpsetOfLibrary();
  const auto asked = static_cast<int>(std::min<int64_t>(opset, newest));
  KnownNames names;
  const onnx::OpSchema *schema = onnx::OpSchemaRegistry::Schema(op, asked, "");
  if (schema)
    for (const auto &[name, attribute] : schema->attributes())
      names.insert(name);
  if (opset <= newest)
    return schema ? std::optional(names) : std::nullopt;
  if (op.starts_with("Reduce"))
    names.insert("noop_with_empty_axes");
  const auto newer = std::ranges::find(newerAttributes(), op, &NewerAttributes::op);
  if (newer != newerAttributes().end())
    names.insert(newer->names.begin(), newer->names.end());
  return schema || (newer != newerAttributes().end() && newer->isNew) ? std::optional(names)
                                                                      : std::nullopt;
}

std::string listOf(const KnownNames &names) {
  std::string list;
  for (const std::string &name : names)
    list += (list.empty() ? "'" : ", '") + name + "'";
  return list.empty() ? "none" : list;
}

} // namespace

void checkAttributesKnown(const onnx::NodeProto &node, int64_t opset) {
  const std::optional<KnownNames> known =
      node.domain().empty() ? attributesOf(node.op_type(), opset) : std::nullopt;
  if (!known)
    return;
  for (const onnx::AttributeProto &attribute : node.attribute())
    if (!known->contains(attribute.name()) && !attribute.name().starts_with(kMark))
      throw Error(describe(node) + ": attribute '" + attribute.name() + "' is unknown in opset " +
                  std::to_string(opset) + ", expected " + listOf(*known));
}

} // namespace pdc
