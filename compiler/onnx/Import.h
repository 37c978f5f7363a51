#pragma once

#include "compiler/ir/Pdc.h"
#include "compiler/onnx/Parameters.h"

namespace pdc {

struct ImportOptions {
  /// For a named first dimension of the inputs; 0 when the file fixes it.
  int64_t microbatchSize = 0;
  /// `--bind`: numbers for other named dimensions.
  std::map<std::string, int64_t> dimensions;
  /// `--loss`, see chooseLoss.
  std::string loss;
  ParameterPatterns parameters;
};

/// The level-1 module of a model: its memories, @train and @evaluate with the forward nodes and the
/// loss. Node results have no shape yet. The module has the attributes `pdc.model` (the file's
/// name) and `pdc.microbatch_size`. Throws Error.
mlir::OwningOpRef<mlir::ModuleOp> importModel(mlir::MLIRContext &context, const Model &model,
                                              const ImportOptions &options);

/// The forward pass alone, as the file says it: @train computes the outputs of the model, whose
/// dimensions are all numbers, and writes each into a state named `output NAME`. Nothing is trained
/// and there is no @evaluate. Throws Error.
mlir::OwningOpRef<mlir::ModuleOp> importForward(mlir::MLIRContext &context, const Model &model);

/// The state that holds an output of a module of `importForward`.
std::string forwardOutput(const std::string &output);

} // namespace pdc
