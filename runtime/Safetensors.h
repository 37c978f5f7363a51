#pragma once

#include "runtime/FileBytes.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pdc::runtime {

enum class Scalar : uint8_t { u8, i8, i16, i32, i64, f32, f64, f16, bf16, flag, u16, u32, u64 };
int64_t scalarBytes(Scalar type);
/// As safetensors files spell it.
const char *scalarName(Scalar type);
/// Of such a name; nothing where it is none.
std::optional<Scalar> scalarNamed(std::string_view name);

/// A tensor inside a file, row-major. `bigEndian` only where its format is (IDX).
struct TensorView {
  Scalar type = Scalar::f32;
  std::vector<int64_t> shape;
  const std::byte *data = nullptr;
  int64_t bytes = 0;
  bool bigEndian = false;
};

/// The number of elements, or -1 where a dimension is negative or the product leaves int64.
int64_t elementCount(const std::vector<int64_t> &shape);

/// Every tensor of a safetensors file; views live as long as `file`. Throws Error naming file and
/// field where something is wrong.
std::map<std::string, TensorView> readSafetensors(const FileBytes &file);

struct TensorToWrite {
  std::string name;
  Scalar type;
  std::vector<int64_t> shape;
  /// Gives the row-major elements in pieces, so that no tensor is in memory twice.
  std::function<void(const std::function<void(std::span<const std::byte>)> &)> give;
};

/// Returns the file's size. The data is on the disk when this returns.
int64_t writeSafetensors(const std::string &path, const std::vector<TensorToWrite> &tensors);

} // namespace pdc::runtime
