#pragma once

#include "compiler/devices/Rules.h"
#include "runtime/kernels/ConvolutionFields.h"

#include <cstdint>
#include <vector>

/// Convolutions that cuDNN itself is asked for.
namespace pdc::asked {

struct Shape {
  std::vector<int64_t> x, w, y, strides, pads;
  int64_t groups = 1;
};

/// LeNet, VGG, ResNet's stem, its 3x3, strided and 1x1 layers, groups, one and three dimensions.
inline const Shape kShapes[] = {
    {{8, 1, 28, 28}, {6, 1, 5, 5}, {8, 6, 28, 28}, {1, 1}, {2, 2}},
    {{8, 6, 14, 14}, {16, 6, 5, 5}, {8, 16, 10, 10}, {1, 1}, {0, 0}},
    {{4, 3, 32, 32}, {64, 3, 3, 3}, {4, 64, 32, 32}, {1, 1}, {1, 1}},
    {{32, 3, 224, 224}, {64, 3, 7, 7}, {32, 64, 112, 112}, {2, 2}, {3, 3}},
    {{32, 64, 56, 56}, {64, 64, 3, 3}, {32, 64, 56, 56}, {1, 1}, {1, 1}},
    {{32, 128, 56, 56}, {128, 128, 3, 3}, {32, 128, 28, 28}, {2, 2}, {1, 1}},
    {{32, 64, 56, 56}, {128, 64, 1, 1}, {32, 128, 28, 28}, {2, 2}, {0, 0}},
    {{32, 512, 7, 7}, {2048, 512, 1, 1}, {32, 2048, 7, 7}, {1, 1}, {0, 0}},
    {{8, 32, 16, 16}, {32, 1, 3, 3}, {8, 32, 16, 16}, {1, 1}, {1, 1}, 32},
    {{8, 16, 100}, {32, 16, 3}, {8, 32, 100}, {1}, {1}},
    {{2, 8, 16, 16, 16}, {8, 8, 3, 3, 3}, {2, 8, 16, 16, 16}, {1, 1, 1}, {1, 1, 1}},
};

inline runtime::ConvolutionFields fieldsOf(const Shape &s) {
  runtime::ConvolutionFields fields;
  fields.name = "asked";
  fields.input = s.x, fields.weight = s.w, fields.output = s.y;
  fields.strides = s.strides, fields.padsBegin = fields.padsEnd = s.pads;
  fields.dilations = std::vector<int64_t>(s.strides.size(), 1);
  fields.groups = s.groups;
  return fields;
}

/// The workspace that the compiler plans.
inline int64_t boundOf(const Shape &s, const char *kernel = "Convolution") {
  KernelChoice choice;
  choice.kernel = kernel;
  choice.fields = {{"input", s.x}, {"output", s.y}, {"weight", s.w}};
  return cudaWorkspaceBytes(choice);
}

} // namespace pdc::asked
