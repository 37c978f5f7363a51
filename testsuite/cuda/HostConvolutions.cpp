#include "testsuite/cuda/HostElements.h"
#include "testsuite/cuda/HostStreams.h"

#include <cudnn.h>

#include <cstring>
#include <map>
#include <vector>

/// What cuDNN computes, written as plain loops from its documentation: the runtime's descriptions
/// are executed as they stand. Whether the library itself takes them is asked of it in CudnnTest.
using pdc::testing::load;
using pdc::testing::store;

namespace {

/// A backend descriptor: attributes as bytes, other descriptors by value.
struct Described {
  cudnnBackendDescriptorType_t type;
  std::map<int, std::vector<std::byte>> values;
  std::map<int, std::vector<Described>> parts;

  template <class T> std::vector<T> list(int name) const {
    const std::vector<std::byte> &bytes = values.at(name);
    std::vector<T> result(bytes.size() / sizeof(T));
    std::memcpy(result.data(), bytes.data(), bytes.size());
    return result;
  }
  const Described &part(int name) const { return parts.at(name).at(0); }
};

size_t sizeOf(cudnnBackendAttributeType_t type) {
  return type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_VOID_PTR || type == CUDNN_TYPE_HANDLE ? 8
         : type == CUDNN_TYPE_CHAR                                                            ? 1
                                                                                              : 4;
}

struct Network {
  cudaStream_t stream = nullptr;
};

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

std::vector<int64_t> padded(std::vector<int64_t> values, int64_t with) {
  values.resize(3, with);
  return values;
}

/// Attributes 700 to 717 name alpha, beta, window and three tensors of each operation.
void convolve(const Described &operation, const std::map<int64_t, void *> &pointers) {
  const bool isForward = operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  const bool isInput =
      operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  auto pick = [&](int forward, int input, int weight) {
    return isForward ? forward : isInput ? input : weight;
  };
  auto image = [&](int name) {
    const Described &tensor = operation.part(name);
    return Image(tensor, pointers.at(tensor.list<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)[0]));
  };
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

Described &of(cudnnBackendDescriptor_t raw) { return *static_cast<Described *>(raw); }

} // namespace

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(new Network);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete reinterpret_cast<Network *>(handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  reinterpret_cast<Network *>(handle)->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
void cudnnGetLastErrorString(char *text, size_t) { *text = 0; }
const char *cudnnGetErrorString(cudnnStatus_t) { return "an error"; }

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *raw) {
  *raw = new Described{type, {}, {}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t raw) {
  delete static_cast<Described *>(raw);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t) { return CUDNN_STATUS_SUCCESS; }

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t raw,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values) {
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    std::vector<Described> parts;
    for (int64_t i = 0; i < count; ++i)
      parts.push_back(of(static_cast<const cudnnBackendDescriptor_t *>(values)[i]));
    of(raw).parts[name] = std::move(parts);
    return CUDNN_STATUS_SUCCESS;
  }
  const auto *bytes = static_cast<const std::byte *>(values);
  of(raw).values[name].assign(bytes, bytes + count * int64_t(sizeOf(type)));
  return CUDNN_STATUS_SUCCESS;
}

/// One engine without notes; a configuration is its graph.
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t raw,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t, int64_t *count,
                                       void *values) {
  *count = 0;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    *count =
        of(raw).list<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE)[0] == CUDNN_HEUR_MODE_A;
    if (values && *count)
      of(*static_cast<cudnnBackendDescriptor_t *>(values))
          .parts[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH] =
          of(raw).parts[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH];
  } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    *static_cast<int64_t *>(values) = 0;
    *count = 1;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  const std::vector<int64_t> ids = of(pack).list<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const std::vector<void *> data = of(pack).list<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  std::map<int64_t, void *> pointers;
  for (size_t i = 0; i < ids.size(); ++i)
    pointers[ids[i]] = data[i];
  const Described &operation = of(plan)
                                   .part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
                                   .part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)
                                   .part(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  pdc::testing::enqueue(reinterpret_cast<Network *>(handle)->stream,
                        [operation, pointers] { convolve(operation, pointers); });
  return CUDNN_STATUS_SUCCESS;
}

} // extern "C"
