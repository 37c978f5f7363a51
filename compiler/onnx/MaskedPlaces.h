#pragma once

#include "compiler/onnx/Model.h"

namespace pdc {

/// Exporters write `data[mask] = value` and `data.masked_scatter(mask, source)` by the places of
/// the mask's elements, whose number only data tell. Those forms become pdc.MaskedScatter, of known
/// shapes.
void replaceMaskedPlaces(Model &model);

} // namespace pdc
