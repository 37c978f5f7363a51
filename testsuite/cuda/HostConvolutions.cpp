#include "testsuite/cuda/HostElements.h"
#include "testsuite/cuda/HostNetworks.h"

namespace pdc::testing {

namespace {

/// An image with two or three spatial dimensions, by its strides; in f32 while it is worked on.
struct Image {
  std::vector<int64_t> sizes, strides;
  void *data;
  cudaDataType_t type = CUDA_R_32F;
  std::vector<float> values;

  Image(const Described &tensor, void *data)
      : sizes(tensor.list<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)),
        strides(tensor.list<int64_t>(CUDNN_ATTR_TENSOR_STRIDES)), data(data) {
    sizes.resize(5, 1);
    strides.resize(5, 0);
    const auto stored = tensor.list<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)[0];
    if (stored != CUDNN_DATA_FLOAT)
      type = stored == CUDNN_DATA_HALF ? CUDA_R_16F : CUDA_R_16BF;
    values.resize(static_cast<size_t>(sizes[0] * sizes[1] * sizes[2] * sizes[3] * sizes[4]));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = load(data, type, int64_t(i));
  }
  float &at(int64_t n, int64_t c, const int64_t *p) {
    return values[size_t(n * strides[0] + c * strides[1] + p[0] * strides[2] + p[1] * strides[3] +
                         p[2] * strides[4])];
  }
  void scale(float by) {
    for (float &value : values)
      value = by == 0 ? 0 : value * by;
  }
  void keep() const {
    for (size_t i = 0; i < values.size(); ++i)
      store(data, type, int64_t(i), values[i]);
  }
};

struct Convolved {
  Image x, w, y;
  std::vector<int64_t> strides, dilations, pads;

  /// visit(x element, w element, y element) for every product of the convolution.
  template <class Visit> void forEach(Visit visit) {
    const int64_t groups = x.sizes[1] / w.sizes[1], perGroup = y.sizes[1] / groups;
    int64_t o[3], t[3], i[3];
    for (int64_t n = 0; n < y.sizes[0]; ++n)
      for (int64_t k = 0; k < y.sizes[1]; ++k)
        for (o[0] = 0; o[0] < y.sizes[2]; ++o[0])
          for (o[1] = 0; o[1] < y.sizes[3]; ++o[1])
            for (o[2] = 0; o[2] < y.sizes[4]; ++o[2])
              for (t[0] = 0; t[0] < w.sizes[2]; ++t[0])
                for (t[1] = 0; t[1] < w.sizes[3]; ++t[1])
                  for (t[2] = 0; t[2] < w.sizes[4]; ++t[2]) {
                    bool inside = true;
                    for (int d = 0; d < 3; ++d) {
                      i[d] = o[d] * strides[d] - pads[d] + t[d] * dilations[d];
                      inside = inside && i[d] >= 0 && i[d] < x.sizes[d + 2];
                    }
                    for (int64_t c = 0; inside && c < w.sizes[1]; ++c)
                      visit(x.at(n, k / perGroup * w.sizes[1] + c, i), w.at(k, c, t),
                            y.at(n, k, o));
                  }
  }
};

Image imageOf(const Described &tensor, const Pointers &pointers) {
  return Image(tensor, pointers.at(tensor.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)));
}

std::vector<int64_t> padded(std::vector<int64_t> values, int64_t with) {
  values.resize(3, with);
  return values;
}

} // namespace

/// Attributes 700 to 717 name alpha, beta, window and three tensors of each operation.
void convolve(const Described &operation, const Pointers &pointers) {
  const bool isForward = operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  const bool isInput =
      operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  auto pick = [&](int forward, int input, int weight) {
    return isForward ? forward : isInput ? input : weight;
  };
  auto image = [&](int name) { return imageOf(operation.part(name), pointers); };
  const Described &window =
      operation.part(pick(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC));
  Convolved all{image(pick(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X)),
                image(pick(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW)),
                image(pick(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY)),
                padded(window.list<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES), 1),
                padded(window.list<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS), 1),
                padded(window.list<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS), 0)};
  const float beta = operation.list<float>(pick(
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA))[0];
  Image &result = isForward ? all.y : isInput ? all.x : all.w;
  result.scale(beta);
  all.forEach([&](float &x, float &w, float &y) {
    if (isForward)
      y += x * w;
    else if (isInput)
      x += y * w;
    else
      w += x * y;
  });
  result.keep();
}

void sumChannels(const Described &operation, const Pointers &pointers) {
  auto image = [&](int name) { return imageOf(operation.part(name), pointers); };
  Image x = image(CUDNN_ATTR_OPERATION_GENSTATS_XDESC),
        sums = image(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC),
        squares = image(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC);
  sums.scale(0), squares.scale(0);
  int64_t p[3];
  constexpr int64_t first[3] = {};
  for (int64_t n = 0; n < x.sizes[0]; ++n)
    for (int64_t c = 0; c < x.sizes[1]; ++c)
      for (p[0] = 0; p[0] < x.sizes[2]; ++p[0])
        for (p[1] = 0; p[1] < x.sizes[3]; ++p[1])
          for (p[2] = 0; p[2] < x.sizes[4]; ++p[2]) {
            const float value = x.at(n, c, p);
            sums.at(0, c, first) += value;
            squares.at(0, c, first) += value * value;
          }
  sums.keep(), squares.keep();
}

} // namespace pdc::testing
