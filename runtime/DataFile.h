#pragma once

#include "runtime/Safetensors.h"

#include <memory>
#include <string>

namespace pdc::runtime {

/// A tensor, of samples or the same for all of them: IDX, NPY or safetensors, each possibly
/// gzipped, told apart by content.
struct DataFile {
  std::unique_ptr<FileBytes> file;
  TensorView tensor;
};

/// `input` names the tensor in a safetensors file that holds several. Throws Error naming file and
/// field where something is wrong.
DataFile openData(const std::string &path, const std::string &input);

/// Numbers without a header, in this machine's order, gzipped where the name ends in .gz: as many
/// rows of `shape`, whose first dimension they set, as there are behind those that are skipped.
DataFile openNumbers(const std::string &path, Scalar type, int64_t skipped,
                     std::vector<int64_t> shape);

} // namespace pdc::runtime
