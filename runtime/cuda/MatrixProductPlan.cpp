#include "runtime/cuda/MatrixProductPlan.h"
#include "runtime/cuda/Epilogue.h"

#include "runtime/Error.h"
#include "runtime/ShapeText.h"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

namespace pdc::runtime::cuda {

namespace {

/// Where each tensor begins at a multiple of.
constexpr uint32_t kTensorAlignment = 64;

/// A matrix like the result, which the library's kernels add as they add to one.
bool isAddend(const MatrixProductFields &f) {
  return !isColumnBias(f.bias, f.output) && f.pitchY == 0 && std::ranges::equal(f.bias, f.output);
}

cudaDataType_t typeOf(Factors factors) {
  return factors == Factors::bf16   ? CUDA_R_16BF
         : factors == Factors::fp16 ? CUDA_R_16F
                                    : CUDA_R_32F;
}
int64_t bytesOf(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

} // namespace

const char *toString(ProductEpilogue epilogue) {
  constexpr const char *names[] = {"plain",         "gelu",      "gelu of what is kept",
                                   "gelu gradient", "sums of a", "sums of b"};
  return names[size_t(epilogue)];
}

MatrixProductPlan::MatrixProductPlan(const Device &device, const MatrixProductFields &f,
                                     ProductEpilogue epilogue)
    : fields(f), epilogue(epilogue), batches(f),
      workspace(std::min<size_t>(workspaceRoom(device), kMatrixWorkspaceBytes)),
      factors(factorsOf(f.compute, f.name)), read(typeOf(factors)),
      stored(std::string_view(f.result) == "fp32" ? CUDA_R_32F : read), exact(device.exact),
      tuning(device.tuning) {
  describe();
  findAlgorithms();
}

bool MatrixProductPlan::addsColumnBias() const {
  return finishes && read == stored && isColumnBias(fields.bias, fields.output);
}

bool MatrixProductPlan::addsAddend() const { return read == stored && isAddend(fields); }

void MatrixProductPlan::describe() {
  const auto compute = factors == Factors::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  require(cublasLtMatmulDescCreate(&description.object, compute, CUDA_R_32F),
          "cublasLtMatmulDescCreate", fields.name);
  set(CUBLASLT_MATMUL_DESC_TRANSA, fields.transB ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, fields.transA ? CUBLAS_OP_T : CUBLAS_OP_N);
  describeEpilogue();
  const int64_t m = batches.columns, n = batches.rows, k = batches.inner;
  describeLayout(first, read, fields.transB ? k : m, fields.transB ? m : k, batches.pitchB,
                 batches.strideB);
  describeLayout(second, read, fields.transA ? n : k, fields.transA ? k : n, batches.pitchA,
                 batches.strideA);
  describeLayout(result, stored, m, n, batches.pitchY, batches.strideY);
}

/// Pointers say how a bias and what GELU is of lie to the library, which reads none while it
/// chooses.
void MatrixProductPlan::describeEpilogue() {
  if (epilogue != ProductEpilogue::none && (batches.count != 1 || batches.starts.size() != 1))
    throw Error("unit '", fields.name, "': several products have no common epilogue");
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, libraryEpilogue());
  const auto aligned = reinterpret_cast<void *>(uintptr_t(kTensorAlignment));
  if (hasArgument())
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, batches.pitchY);
  point(aligned, aligned);
}

cublasLtEpilogue_t MatrixProductPlan::libraryEpilogue() const {
  const bool bias = addsColumnBias();
  switch (epilogue) {
  case ProductEpilogue::gelu:
    return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  case ProductEpilogue::geluKept:
    return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  case ProductEpilogue::geluGradient:
    return CUBLASLT_EPILOGUE_DGELU;
  case ProductEpilogue::sumsOfA:
    return CUBLASLT_EPILOGUE_BGRADB;
  case ProductEpilogue::sumsOfB:
    return CUBLASLT_EPILOGUE_BGRADA;
  case ProductEpilogue::none:
    break;
  }
  return bias            ? isRectified() ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS
         : isRectified() ? CUBLASLT_EPILOGUE_RELU
                         : CUBLASLT_EPILOGUE_DEFAULT;
}

/// By the library.
bool MatrixProductPlan::isRectified() const {
  return finishes && fields.relu && (addsBias() || fields.bias.empty());
}

/// The library writes sums of a factor where it reads a bias.
void MatrixProductPlan::point(const void *bias, void *beside) {
  if (hasArgument())
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, beside);
  if (addsColumnBias() || sumsColumns())
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, sumsColumns() ? beside : bias);
}

void MatrixProductPlan::describeLayout(Layout &layout, cudaDataType_t type, int64_t rows,
                                       int64_t columns, int64_t pitch, int64_t stride) {
  require(
      cublasLtMatrixLayoutCreate(&layout.object, type, uint64_t(rows), uint64_t(columns), pitch),
      "cublasLtMatrixLayoutCreate", fields.name);
  const auto count = static_cast<int32_t>(batches.count);
  require(cublasLtMatrixLayoutSetAttribute(layout.object, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                           &count, sizeof count),
          "cublasLtMatrixLayoutSetAttribute", fields.name);
  require(cublasLtMatrixLayoutSetAttribute(
              layout.object, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
          "cublasLtMatrixLayoutSetAttribute", fields.name);
}

/// Some versions have no kernel with a bias or relu for what they multiply without.
void MatrixProductPlan::findAlgorithms() {
  cublasStatus_t status = askForAlgorithms();
  if (algorithms.empty() && epilogue == ProductEpilogue::none &&
      (addsColumnBias() || isRectified())) {
    if (addsColumnBias())
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void *>(nullptr));
    finishes = false;
    describeEpilogue();
    status = askForAlgorithms();
  }
  if (algorithms.empty())
    throw Error("unit '", fields.name, "': cuBLASLt has no kernel (",
                status == CUBLAS_STATUS_SUCCESS ? "none fits" : cublasLtGetStatusString(status),
                ") for ", problem());
}

/// What the library has within the workspace, best first; the same for a sum, whose beta is 1.
cublasStatus_t MatrixProductPlan::askForAlgorithms() {
  Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference;
  require(cublasLtMatmulPreferenceCreate(&preference.object), "cublasLtMatmulPreferenceCreate",
          fields.name);
  auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    require(
        cublasLtMatmulPreferenceSetAttribute(preference.object, attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute", fields.name);
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(workspace));
  // Long products may be summed in parts, which are rounded to 16 bits nowhere.
  if (stored != CUDA_R_32F)
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  const auto [ofA, ofB, ofResult] = alignments();
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, ofB);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, ofA);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, ofResult);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, ofResult);
  constexpr int kAsked = Tuning::kMostWays;
  cublasLtMatmulHeuristicResult_t found[kAsked];
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      matrixHandle(), description.object, first.object, second.object, result.object, result.object,
      preference.object, kAsked, found, &count);
  for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; ++i)
    if (found[i].state == CUBLAS_STATUS_SUCCESS)
      algorithms.push_back(found[i].algo);
  return status;
}

std::string MatrixProductPlan::problem() const {
  const MatrixProductFields &f = fields;
  std::ostringstream text;
  text << "cuBLASLt " << cublasLtGetVersion() << ", product in " << f.compute << ": "
       << shapeText(f.a) << (f.transA ? " transposed" : "") << " by " << shapeText(f.b)
       << (f.transB ? " transposed" : "") << " to " << shapeText(f.output) << " in "
       << (stored == CUDA_R_32F ? "fp32" : f.compute) << ", pitches " << batches.pitchA << ", "
       << batches.pitchB << " and " << batches.pitchY << ", aligned to ";
  for (const uint32_t alignment : alignments())
    text << alignment << ", ";
  text << (addsColumnBias() ? "bias, "
           : addsAddend()   ? "addend, "
                            : "")
       << (f.relu ? "relu, " : "") << (finishes ? "" : "finished apart, ") << workspace
       << " bytes of workspace, " << algorithms.size() << " kernels";
  if (epilogue != ProductEpilogue::none)
    text << ", " << toString(epilogue);
  return text.str();
}

/// Of a, b and y.
std::array<uint32_t, 3> MatrixProductPlan::alignments() const {
  return {alignmentOf(&MatrixBatches::Start::a, read), alignmentOf(&MatrixBatches::Start::b, read),
          alignmentOf(&MatrixBatches::Start::y, stored)};
}

/// Bytes that all products of an operand begin at multiples of, where its leading dimensions are
/// walked.
uint32_t MatrixProductPlan::alignmentOf(int64_t MatrixBatches::Start::*operand,
                                        cudaDataType_t type) const {
  uint64_t bits = kTensorAlignment;
  for (const MatrixBatches::Start &start : batches.starts)
    bits |= uint64_t(start.*operand * bytesOf(type));
  return uint32_t(bits & -bits);
}

void MatrixProductPlan::operator()(const Run &run, const void *a, const void *b, const void *bias,
                                   void *y, bool add, void *beside) {
  if (add && addsAddend())
    throw Error("unit '", fields.name,
                "': a product is added to its result and to a matrix: the "
                "library adds one of them");
  point(bias, beside);
  const Operands operands{a, b, add ? y : addsAddend() ? bias : nullptr, y};
  // Measured, or replaced, is what may be written again: no sum, and no operand.
  const bool isApart = !add && y != a && y != b && y != bias && y != beside;
  if (tuning && isApart && !isRecorded(run))
    tune(run, operands);
  else
    runTaken(run, operands, isApart);
  isFinal = true;
  const bool isAdded = !bias || addsBias();
  if (!isAdded || (fields.relu && !isRectified()))
    finishHere(run, isAdded ? nullptr : bias, y);
}

/// After an error of the device itself all others fail, too, and the first one is told.
void MatrixProductPlan::runTaken(const Run &run, const Operands &operands, bool isApart) {
  const cublasStatus_t status = multiply(run, operands, algorithms[taken]);
  if (status == CUBLAS_STATUS_SUCCESS)
    return;
  if (isFinal || exact || !isApart || isRecorded(run) || !replace(run, operands))
    require(status, "cublasLtMatmul", fields.name);
  tellReplaced("cuBLASLt", fields.name, cublasLtGetStatusString(status));
}

/// What the one that failed has put into the queue, the next one writes over.
bool MatrixProductPlan::replace(const Run &run, const Operands &operands) {
  for (size_t way = taken + 1; way < algorithms.size(); ++way)
    if (multiply(run, operands, algorithms[way]) == CUBLAS_STATUS_SUCCESS) {
      taken = way;
      return true;
    }
  return false;
}

void MatrixProductPlan::tune(const Run &run, const Operands &operands) {
  cublasStatus_t failure = CUBLAS_STATUS_SUCCESS; // the last one
  auto start = [&](size_t way) {
    const cublasStatus_t status = multiply(run, operands, algorithms[way]);
    failure = status == CUBLAS_STATUS_SUCCESS ? failure : status;
    return status == CUBLAS_STATUS_SUCCESS;
  };
  const std::optional<size_t> fastest =
      std::exchange(tuning, nullptr)->choose(problem(), algorithms.size(), start);
  if (!fastest)
    require(failure, "cublasLtMatmul", fields.name);
  taken = *fastest;
}

cublasStatus_t MatrixProductPlan::multiply(const Run &run, const Operands &operands,
                                           const cublasLtMatmulAlgo_t &algorithm) {
  const auto &[a, b, added, y] = operands;
  const float alpha = static_cast<float>(fields.alpha), beta = added ? 1 : 0;
  for (const MatrixBatches::Start &start : batches.starts) {
    const int64_t offset = start.y * bytesOf(stored);
    void *to = static_cast<std::byte *>(y) + offset;
    const void *from = added ? static_cast<const std::byte *>(added) + offset : to;
    const cublasStatus_t status =
        cublasLtMatmul(matrixHandle(), description.object, &alpha, at(b, start.b), first.object,
                       at(a, start.a), second.object, &beta, from, result.object, to, result.object,
                       &algorithm, alignedWorkspace(run), workspace, streamOf(run));
    if (status != CUBLAS_STATUS_SUCCESS)
      return status;
  }
  return CUBLAS_STATUS_SUCCESS;
}

const void *MatrixProductPlan::at(const void *factor, int64_t element) const {
  return static_cast<const std::byte *>(factor) + element * bytesOf(read);
}

/// Where the library adds no bias of that shape or type, or has no kernel that rectifies.
void MatrixProductPlan::finishHere(const Run &run, const void *bias, void *y) const {
  asStored(factors, bias, [&](auto *added) {
    using Bias = std::remove_cv_t<std::remove_pointer_t<decltype(added)>>;
    auto addTo = [&](auto *result) {
      addBias(run, fields.output, bias ? fields.bias : Dimensions(), added, fields.relu != 0,
              result, fields.pitchY);
    };
    stored == CUDA_R_32F ? addTo(static_cast<float *>(y)) : addTo(static_cast<Bias *>(y));
  });
}

} // namespace pdc::runtime::cuda
