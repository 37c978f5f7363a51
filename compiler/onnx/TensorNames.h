#pragma once

#include <string>
#include <string_view>

/// What the names that exporters give to initializers say of them.
namespace pdc {

/// As layers name what they train: weight, weight_ih_l0, in_proj_bias, and kernel elsewhere.
bool isWeightName(std::string_view name);

/// As normalisations do elsewhere, and layers that scale.
bool isScaleName(std::string_view name);

/// Masks, tables of angles, and other buffers of well-known networks.
bool isBufferName(std::string_view name);

/// Of outputs of Constant nodes, under which tools that simplify graphs make initializers of them:
/// /layer/Constant_3_output_0, as PyTorch's exporter calls it.
bool isConstantName(const std::string &name);

} // namespace pdc
