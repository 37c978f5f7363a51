#pragma once

#include "compiler/onnx/Model.h"
#include "tools/pdc/Options.h"

#include "mlir/IR/BuiltinOps.h"

#include <ostream>

namespace pdc {

/// The optimizer of the command line, else the file's, whose settings are judged here. Throws Error
/// that says where they stand.
std::string optimizerOf(const Model &model, const Options &options);

/// Its kind alone, as in adamw.
std::string optimizerKind(const Model &model, const Options &options);

/// Checks loss, parameters and optimizer of the command line against the model before any long
/// work, and where `print` is set says what will be trained: the loss and the list of parameters.
void describeTraining(const Model &model, const Options &options, std::ostream &out, bool print);

/// Names the inputs that have no row for each sample: not all may be meant so.
void describeSharedInputs(mlir::ModuleOp module, std::ostream &out);

} // namespace pdc
