#include "runtime/cuda/Libraries.h"

#include "runtime/Error.h"

#include <cstdio>

namespace pdc::runtime::cuda {

void require(cudaError_t code, const char *call) {
  if (code != cudaSuccess)
    throw Error(call, " failed: ", cudaGetErrorString(code), " (", cudaGetErrorName(code), ")");
}

bool isRecorded(const Run &run) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  require(cudaStreamIsCapturing(streamOf(run), &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

void require(cublasStatus_t status, const char *call, const char *unit) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error("unit '", unit, "': ", call, " failed: ", cublasLtGetStatusString(status));
}

void require(cudnnStatus_t status, const char *call, const char *unit) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw Error("unit '", unit, "': ", call, " failed: ", reasonOf(status));
}

std::string reasonOf(cudnnStatus_t status) {
  char why[512] = "";
  cudnnGetLastErrorString(why, sizeof why);
  return std::string(cudnnGetErrorString(status)) + (why[0] ? ": " : "") + why;
}

void tellReplaced(const char *library, const char *unit, const std::string &why) {
  std::fprintf(stderr,
               "warning: unit '%s': a kernel of %s's does not run (%s); another takes its place\n",
               unit, library, why.c_str());
}

Factors factorsOf(std::string_view compute, const char *unit) {
  constexpr std::string_view names[] = {"fp32", "tf32", "bf16", "fp16"};
  for (const std::string_view &name : names)
    if (name == compute)
      return static_cast<Factors>(&name - names);
  throw Error("unit '", unit, "': multiplies in ", compute,
              ", which the kernels for GPUs do not; run pdc again with --precision fp32, tf32, "
              "bf16 or fp16");
}

namespace {

struct MatrixLibrary {
  cublasLtHandle_t handle = nullptr;
  MatrixLibrary() { require(cublasLtCreate(&handle), "cublasLtCreate", "start-up"); }
  ~MatrixLibrary() { cublasLtDestroy(handle); }
};

struct NetworkLibrary {
  cudnnHandle_t handle = nullptr;
  NetworkLibrary() { require(cudnnCreate(&handle), "cudnnCreate", "start-up"); }
  ~NetworkLibrary() { cudnnDestroy(handle); }
};

} // namespace

cublasLtHandle_t matrixHandle() {
  thread_local MatrixLibrary library;
  return library.handle;
}

cudnnHandle_t networkHandle() {
  thread_local NetworkLibrary library;
  return library.handle;
}

} // namespace pdc::runtime::cuda
