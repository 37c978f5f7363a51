#include "testsuite/cuda/HostElements.h"
#include "testsuite/cuda/HostGraphs.h"
#include "testsuite/cuda/HostStreams.h"

#include <cublasLt.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>
#include <thread>

/// What cuBLASLt computes, written as plain loops from its documentation: the runtime's
/// descriptions are executed as they stand.
using pdc::testing::load;
using pdc::testing::store;

namespace {

struct Product {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasOperation_t transA = CUBLAS_OP_N, transB = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr; ///< or what sums of a factor go into
  void *argument = nullptr;
  int64_t argumentLeading = 0;

  bool has(int parts) const { return (int(epilogue) & parts) == parts; }
  bool sumsFactor() const {
    return epilogue == CUBLASLT_EPILOGUE_BGRADA || epilogue == CUBLASLT_EPILOGUE_BGRADB;
  }
  bool isGeluGradient() const { return epilogue == CUBLASLT_EPILOGUE_DGELU; }
  bool isPlain() const {
    return !sumsFactor() && !isGeluGradient() && !has(CUBLASLT_EPILOGUE_GELU);
  }
  bool hasArgument() const { return has(CUBLASLT_EPILOGUE_GELU_AUX) || isGeluGradient(); }
};

struct Matrix {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t leading, stride = 0;
  int32_t batches = 1;
  /// Column by column.
  int64_t at(int64_t batch, int64_t row, int64_t column, bool transposed = false) const {
    return batch * stride + (transposed ? row * leading + column : column * leading + row);
  }
};

/// What a caller promises and allows.
struct Preference {
  uint32_t alignments[4] = {256, 256, 256, 256}; ///< of a, b, c and d
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
};

/// Adds up halves of a product, as the library splits long ones: in f32 where it may do nothing
/// else.
struct Algorithm {
  uint32_t alignments[4];
  /// Of the addresses that were there when it was chosen.
  uint64_t biasAlignment, argumentAlignment;
  bool roundsHalves;
  int number;
};

/// HOST_CUBLASLT_KERNELS: how many there are for each product. HOST_CUBLASLT_REFUSES: the one of
/// them that fails when it runs. HOST_CUBLASLT_PLAIN: there are none for GELU and sums of factors.
/// HOST_CUBLASLT_DROPS, HOST_CUBLASLT_STRAYS: the one that leaves out the terms which do not fill
/// 16, or adds a little more each time. HOST_CUBLASLT_BARE: nor for a bias and relu; "2": asking
/// for one is an error. HOST_CUBLASLT_SLOW: "plain" products, or those with such an "epilogue",
/// take longer than kernels that run on the host's threads.
int given(const char *name, int otherwise) {
  const char *number = std::getenv(name);
  return number ? std::atoi(number) : otherwise;
}

/// Of an address, as far as kernels care.
uint64_t alignmentOf(const void *pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer) | 256;
  return address & -address;
}

uint32_t bytesOf(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

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

double tangentOf(double x) { return std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)); }
double geluOf(double x) { return x * (1 + tangentOf(x)) / 2; }
double geluGradientAt(double x) {
  const double t = tangentOf(x);
  return (1 + t) / 2 + x * (1 - t * t) / 2 * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

/// What the epilogue makes of an element before it is rounded. The argument of GELU has the type of
/// the result.
float finished(const Product &p, const Matrix &md, int64_t row, int64_t column, float value) {
  const int64_t argument = column * p.argumentLeading + row;
  if (p.isGeluGradient())
    return static_cast<float>(value * geluGradientAt(load(p.argument, md.type, argument)));
  if (p.sumsFactor())
    return value;
  value += p.has(CUBLASLT_EPILOGUE_BIAS) ? load(p.bias, md.type, row) : 0;
  if (p.hasArgument())
    store(p.argument, md.type, argument, value);
  if (p.has(CUBLASLT_EPILOGUE_GELU))
    return static_cast<float>(geluOf(value));
  return p.has(CUBLASLT_EPILOGUE_RELU) && value < 0 ? 0 : value;
}

/// Over what the product adds up, for each row of a or column of b. The sums have the type of d.
void sumFactor(const Product &p, const void *a, const Matrix &ma, const void *b, const Matrix &mb,
               const Matrix &md) {
  const bool ofA = p.epilogue == CUBLASLT_EPILOGUE_BGRADA, ta = p.transA == CUBLAS_OP_T,
             tb = p.transB == CUBLAS_OP_T;
  const auto inner = int64_t(ta ? ma.rows : ma.columns);
  for (int64_t i = 0; i < int64_t(ofA ? md.rows : md.columns); ++i) {
    double sum = 0;
    for (int64_t k = inner; k-- > 0;)
      sum += ofA ? load(a, ma.type, ma.at(0, i, k, ta)) : load(b, mb.type, mb.at(0, k, i, tb));
    store(p.bias, md.type, i, static_cast<float>(sum));
  }
}

/// How one of the library's kernels adds up.
struct Sums {
  bool roundsHalves, dropsTail;
  float more;
};

void multiply(const Product &p, const Sums &sums, float alpha, const void *a, const Matrix &ma,
              const void *b, const Matrix &mb, float beta, const void *c, const Matrix &md,
              void *d) {
  const bool ta = p.transA == CUBLAS_OP_T, tb = p.transB == CUBLAS_OP_T;
  auto factor = [&](float value) {
    return double(p.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? toTf32(value) : value);
  };
  int64_t inner = int64_t(ta ? ma.rows : ma.columns);
  inner -= sums.dropsTail ? inner % 16 : 0;
  for (int64_t batch = 0; batch < md.batches; ++batch)
    for (int64_t column = 0; column < int64_t(md.columns); ++column)
      for (int64_t row = 0; row < int64_t(md.rows); ++row) {
        double sum = sums.more;
        for (int64_t k = 0; k < inner; ++k) {
          sum += factor(load(a, ma.type, ma.at(batch, row, k, ta))) *
                 factor(load(b, mb.type, mb.at(batch, k, column, tb)));
          if (sums.roundsHalves && k == inner / 2) {
            float half[1];
            store(half, md.type, 0, static_cast<float>(sum));
            sum = load(half, md.type, 0);
          }
        }
        const int64_t to = md.at(batch, row, column);
        float value = static_cast<float>(alpha * sum);
        value += beta != 0 ? beta * load(c, md.type, to) : 0;
        store(d, md.type, to, finished(p, md, row, column, value));
      }
  if (p.sumsFactor())
    sumFactor(p, a, ma, b, mb, md);
}

/// What the library asks of an epilogue: one matrix, what GELU is of in rows of whole eights.
bool canFinish(const Product &p, const Matrix &md) {
  const auto rows = int64_t(md.rows);
  return (!p.sumsFactor() || md.batches == 1) &&
         (!p.hasArgument() || (p.argumentLeading % 8 == 0 && p.argumentLeading >= rows)) &&
         (p.isPlain() || !given("HOST_CUBLASLT_PLAIN", 0)) &&
         (p.epilogue == CUBLASLT_EPILOGUE_DEFAULT || !given("HOST_CUBLASLT_BARE", 0));
}

bool isSlow(const Product &p) {
  const char *slow = std::getenv("HOST_CUBLASLT_SLOW");
  return slow && std::string_view(slow) == (p.isPlain() ? "plain" : "epilogue");
}

} // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(1);
  return pdc::testing::spoilsAny() ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
const char *cublasLtGetStatusString(cublasStatus_t) { return "an error"; }
size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

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
    p->bias = copied<void *>(value);
    break;
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    p->argument = copied<void *>(value);
    break;
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    p->argumentLeading = copied<int64_t>(value);
    break;
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Matrix{type, rows, columns, leading});
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
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<Preference *>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t) {
  auto &p = *reinterpret_cast<Preference *>(preference);
  if (attribute >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
      attribute <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
    p.alignments[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES] = copied<uint32_t>(value);
  else if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
    p.reductions = copied<uint32_t>(value);
  else if (attribute != CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

/// Refuses shapes that do not fit each other, as the library does, and has no kernel for addresses
/// between two elements, nor for 65536 products. Of several results the first says that it is none.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int asked,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int *count) {
  const auto *p = reinterpret_cast<Product *>(description);
  const auto &ma = *reinterpret_cast<Matrix *>(a), &mb = *reinterpret_cast<Matrix *>(b),
             &md = *reinterpret_cast<Matrix *>(d);
  const bool ta = p->transA == CUBLAS_OP_T, tb = p->transB == CUBLAS_OP_T;
  const bool fits = (ta ? ma.columns : ma.rows) == md.rows &&
                    (tb ? mb.rows : mb.columns) == md.columns &&
                    (ta ? ma.rows : ma.columns) == (tb ? mb.columns : mb.rows);
  const auto &wanted = *reinterpret_cast<Preference *>(preference);
  const uint32_t ofResult =
      CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  Algorithm algorithm{
      {}, alignmentOf(p->bias), alignmentOf(p->argument), (wanted.reductions & ofResult) != 0, 0};
  std::ranges::copy(wanted.alignments, algorithm.alignments);
  const uint32_t elements[] = {bytesOf(ma.type), bytesOf(mb.type), bytesOf(md.type),
                               bytesOf(md.type)};
  const bool lies = std::ranges::equal(wanted.alignments, elements, std::greater_equal());
  *count = fits && lies && md.batches < 65536 && canFinish(*p, md)
               ? std::min(asked, 1 + given("HOST_CUBLASLT_KERNELS", 1))
               : 0;
  for (int i = 0; i < *count; ++i) {
    results[i] = {};
    algorithm.number = i - 1;
    std::memcpy(&results[i].algo, &algorithm, sizeof algorithm);
    results[i].state = i == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
  }
  if (p->epilogue != CUBLASLT_EPILOGUE_DEFAULT && given("HOST_CUBLASLT_BARE", 0) == 2)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t layoutA, const void *b,
                              cublasLtMatrixLayout_t layoutB, const void *beta, const void *c,
                              cublasLtMatrixLayout_t, void *d, cublasLtMatrixLayout_t layoutD,
                              const cublasLtMatmulAlgo_t *chosen, void *workspace, size_t bytes,
                              cudaStream_t stream) {
  const auto algorithm = copied<Algorithm>(chosen);
  const Product p = *reinterpret_cast<Product *>(description);
  auto lies = [](const void *pointer, uint32_t alignment) {
    return reinterpret_cast<uintptr_t>(pointer) % alignment == 0;
  };
  if (!lies(workspace, 256) || !lies(a, algorithm.alignments[0]) ||
      !lies(b, algorithm.alignments[1]) || !lies(c, algorithm.alignments[2]) ||
      !lies(d, algorithm.alignments[3]) || alignmentOf(p.bias) < algorithm.biasAlignment ||
      alignmentOf(p.argument) < algorithm.argumentAlignment)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!pdc::testing::isHere(stream) || algorithm.number == given("HOST_CUBLASLT_REFUSES", -1))
    return CUBLAS_STATUS_EXECUTION_FAILED;
  static int strays = 0;
  const bool isStray = algorithm.number == given("HOST_CUBLASLT_STRAYS", -1);
  const Sums sums{algorithm.roundsHalves, algorithm.number == given("HOST_CUBLASLT_DROPS", -1),
                  isStray ? 0.01f * static_cast<float>(++strays) : 0};
  pdc::testing::enqueue(
      stream, [workspace, bytes, sums, p, ma = *reinterpret_cast<Matrix *>(layoutA),
               mb = *reinterpret_cast<Matrix *>(layoutB), md = *reinterpret_cast<Matrix *>(layoutD),
               factor = copied<float>(alpha), kept = copied<float>(beta), a, b, c, d] {
        if (isSlow(p))
          std::this_thread::sleep_for(std::chrono::milliseconds(40));
        std::memset(workspace, 0xff, std::min<size_t>(bytes, 4096));
        multiply(p, sums, factor, a, ma, b, mb, kept, c, md, d);
      });
  return CUBLAS_STATUS_SUCCESS;
}

} // extern "C"
