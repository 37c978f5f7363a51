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

} // namespace pdc
