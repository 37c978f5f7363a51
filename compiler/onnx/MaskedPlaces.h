#pragma once

#include "compiler/onnx/Model.h"

namespace pdc {

/// Exporters write `data[mask] = value` and `data.masked_scatter(mask, source)` by the places of
/// the mask's elements, whose number only data tell. Those forms become pdc.MaskedScatter, of known
/// shapes. Where the mask is not known when it is compiled,
/// `data[mask]` becomes pdc.SelectedRows, and what NonZero makes of it otherwise pdc.SelectedPlaces.
void replaceMaskedPlaces(Model &model);

} // namespace pdc
