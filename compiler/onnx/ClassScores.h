#pragma once

#include "compiler/onnx/Loss.h"

namespace pdc {

/// Puts the scores of classes in the place of what an output makes of them, a Softmax or LogSoftmax
/// (of bce_with_logits a Sigmoid), and says which of their dimensions holds the classes. Throws
/// Error where the output cannot be what the loss expects.
void chooseScores(const Model &model, Loss &loss);

} // namespace pdc
