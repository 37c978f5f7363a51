#include "testsuite/cuda/HostStreams.h"

#include <cublasLt.h>
#include <cudnn.h>

#include <cstring>
#include <map>
#include <memory>
#include <vector>

/// What cuBLASLt and cuDNN compute, written as plain loops from their documentation: the runtime's
/// descriptions are executed as they stand. Whether the libraries themselves take them is asked of
/// cuDNN in ConvolutionPlanTest.

// cuBLASLt.

namespace {

struct Product {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasOperation_t transA = CUBLAS_OP_N, transB = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const float *bias = nullptr;
};

struct Matrix {
  uint64_t rows, columns;
  int64_t leading, stride = 0;
  int32_t batches = 1;
  /// Column by column.
  int64_t at(int64_t batch, int64_t row, int64_t column, bool transposed = false) const {
    return batch * stride + (transposed ? row * leading + column : column * leading + row);
  }
};

template <class T> T copied(const void *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// TF32 keeps 10 of the 23 bits of an f32's fraction.
float toTf32(float value) {
  uint32_t bits = copied<uint32_t>(&value);
  bits = (bits + 0xfff + (bits >> 13 & 1)) & ~uint32_t(0x1fff);
  return copied<float>(&bits);
}

void multiply(const Product &p, float alpha, const float *a, const Matrix &ma, const float *b,
              const Matrix &mb, float beta, const Matrix &md, float *d) {
  const bool ta = p.transA == CUBLAS_OP_T, tb = p.transB == CUBLAS_OP_T;
  auto factor = [&](float value) {
    return double(p.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? toTf32(value) : value);
  };
  const int64_t inner = int64_t(ta ? ma.rows : ma.columns);
  const bool hasBias =
      p.epilogue == CUBLASLT_EPILOGUE_BIAS || p.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
  const bool hasRelu =
      p.epilogue == CUBLASLT_EPILOGUE_RELU || p.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
  for (int64_t batch = 0; batch < md.batches; ++batch)
    for (int64_t column = 0; column < int64_t(md.columns); ++column)
      for (int64_t row = 0; row < int64_t(md.rows); ++row) {
        double sum = 0;
        for (int64_t k = 0; k < inner; ++k)
          sum += factor(a[ma.at(batch, row, k, ta)]) * factor(b[mb.at(batch, k, column, tb)]);
        float &to = d[md.at(batch, row, column)];
        float value = static_cast<float>(alpha * sum) + (beta != 0 ? beta * to : 0);
        value += hasBias ? p.bias[row] : 0;
        to = hasRelu && value < 0 ? 0 : value;
      }
}

} // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(1);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
const char *cublasLtGetStatusString(cublasStatus_t) { return "an error"; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *description,
                                        cublasComputeType_t compute, cudaDataType_t) {
  *description = reinterpret_cast<cublasLtMatmulDesc_t>(new Product{compute});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete reinterpret_cast<Product *>(description);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t) {
  auto *p = reinterpret_cast<Product *>(description);
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    p->transA = copied<cublasOperation_t>(value);
    break;
  case CUBLASLT_MATMUL_DESC_TRANSB:
    p->transB = copied<cublasOperation_t>(value);
    break;
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    p->epilogue = copied<cublasLtEpilogue_t>(value);
    break;
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    p->bias = copied<const float *>(value);
    break;
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Matrix{rows, columns, leading});
  return leading >= int64_t(rows) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<Matrix *>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t) {
  auto *m = reinterpret_cast<Matrix *>(layout);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    m->batches = copied<int32_t>(value);
  else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    m->stride = copied<int64_t>(value);
  else
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(1);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void *, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

/// Refuses shapes that do not fit each other, as the library does.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t, int,
                                              cublasLtMatmulHeuristicResult_t[], int *count) {
  const auto *p = reinterpret_cast<Product *>(description);
  const auto &ma = *reinterpret_cast<Matrix *>(a), &mb = *reinterpret_cast<Matrix *>(b),
             &md = *reinterpret_cast<Matrix *>(d);
  const bool ta = p->transA == CUBLAS_OP_T, tb = p->transB == CUBLAS_OP_T;
  const bool fits = (ta ? ma.columns : ma.rows) == md.rows &&
                    (tb ? mb.rows : mb.columns) == md.columns &&
                    (ta ? ma.rows : ma.columns) == (tb ? mb.columns : mb.rows);
  *count = fits;
  return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t layoutA, const void *b,
                              cublasLtMatrixLayout_t layoutB, const void *beta, const void *,
                              cublasLtMatrixLayout_t, void *d, cublasLtMatrixLayout_t layoutD,
                              const cublasLtMatmulAlgo_t *, void *workspace, size_t,
                              cudaStream_t stream) {
  if (reinterpret_cast<uintptr_t>(workspace) % 256 != 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  pdc::testing::enqueue(
      stream,
      [p = *reinterpret_cast<Product *>(description), ma = *reinterpret_cast<Matrix *>(layoutA),
       mb = *reinterpret_cast<Matrix *>(layoutB), md = *reinterpret_cast<Matrix *>(layoutD),
       factor = copied<float>(alpha), kept = copied<float>(beta), a, b, d] {
        multiply(p, factor, static_cast<const float *>(a), ma, static_cast<const float *>(b), mb,
                 kept, md, static_cast<float *>(d));
      });
  return CUBLAS_STATUS_SUCCESS;
}

} // extern "C"

// cuDNN.

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

/// An image with two or three spatial dimensions, by its strides.
struct Image {
  std::vector<int64_t> sizes, strides;
  float *data;
  Image(const Described &tensor, void *data)
      : sizes(tensor.list<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)),
        strides(tensor.list<int64_t>(CUDNN_ATTR_TENSOR_STRIDES)), data(static_cast<float *>(data)) {
    sizes.resize(5, 1);
    strides.resize(5, 0);
  }
  int64_t elements() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3] * sizes[4]; }
  float &at(int64_t n, int64_t c, const int64_t *p) const {
    return data[n * strides[0] + c * strides[1] + p[0] * strides[2] + p[1] * strides[3] +
                p[2] * strides[4]];
  }
  void scale(float by) const {
    for (int64_t i = 0; i < elements(); ++i)
      data[i] = by == 0 ? 0 : data[i] * by;
  }
};

struct Convolved {
  Image x, w, y;
  std::vector<int64_t> strides, dilations, pads;

  /// visit(x element, w element, y element) for every product of the convolution.
  template <class Visit> void forEach(Visit visit) const {
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
  (isForward ? all.y : isInput ? all.x : all.w).scale(beta);
  all.forEach([&](float &x, float &w, float &y) {
    if (isForward)
      y += x * w;
    else if (isInput)
      x += y * w;
    else
      w += x * y;
  });
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
