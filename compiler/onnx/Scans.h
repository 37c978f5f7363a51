#pragma once

#include "compiler/onnx/Branches.h"

namespace pdc {

/// A Scan as the specification writes it from operator set 9 on, with its body.
bool hasScannedBody(const onnx::NodeProto &node, int64_t opset);

/// A Scan as the Loop over the length of what it scans.
struct ScanAsLoop {
  std::vector<onnx::NodeProto> before; ///< of operator set 13
  onnx::NodeProto loop;
  std::vector<onnx::NodeProto> after; ///< of operator set 13
};

/// `rename` gives names that nothing has. Throws Error where inputs, outputs, axes and the body do
/// not fit (ONNX Scan, opset 9 to 28).
ScanAsLoop loopOfScan(const onnx::NodeProto &scan, const Renaming &rename);

} // namespace pdc
