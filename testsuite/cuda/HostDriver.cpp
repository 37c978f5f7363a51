/// A driver of CUDA without a device, which takes what cuDNN compiles while it makes a plan: so
/// much of it the library asks for before it says how much workspace the plan needs. Nothing runs.
extern "C" {

constexpr int kSuccess = 0, kNoDevice = 100;

int cuInit(unsigned) { return kNoDevice; }
int cuDeviceGetCount(int *count) {
  *count = 0;
  return kNoDevice;
}
int cuGetErrorString(int, const char **text) {
  *text = "there is no device";
  return kSuccess;
}

static char something; ///< what handles point to

int cuLibraryLoadData(void **library, const void *, void *, void *, unsigned, void *, void *,
                      unsigned) {
  *library = &something;
  return kSuccess;
}
int cuLibraryUnload(void *) { return kSuccess; }
int cuLibraryGetKernel(void **kernel, void *, const char *) {
  *kernel = &something;
  return kSuccess;
}

// What the library looks for by name before it asks for any of the above.
#define PDC_ABSENT(name)                                                                           \
  int name() { return kNoDevice; }
PDC_ABSENT(cuCtxGetCurrent)
PDC_ABSENT(cuCtxGetDevice)
PDC_ABSENT(cuCtxGetLimit)
PDC_ABSENT(cuCtxPopCurrent)
PDC_ABSENT(cuCtxPushCurrent)
PDC_ABSENT(cuDeviceGet)
PDC_ABSENT(cuDeviceGetAttribute)
PDC_ABSENT(cuDevicePrimaryCtxRelease)
PDC_ABSENT(cuDevicePrimaryCtxReset)
PDC_ABSENT(cuDevicePrimaryCtxRetain)
PDC_ABSENT(cuDriverGetVersion)
PDC_ABSENT(cuFuncGetAttribute)
PDC_ABSENT(cuFuncSetAttribute)
PDC_ABSENT(cuGetErrorName)
PDC_ABSENT(cuKernelGetAttribute)
PDC_ABSENT(cuKernelGetFunction)
PDC_ABSENT(cuKernelSetAttribute)
PDC_ABSENT(cuLaunchCooperativeKernel)
PDC_ABSENT(cuLaunchKernel)
PDC_ABSENT(cuLaunchKernelEx)
PDC_ABSENT(cuLibraryLoadFromFile)
PDC_ABSENT(cuLinkAddData)
PDC_ABSENT(cuLinkAddData_v2)
PDC_ABSENT(cuLinkAddFile_v2)
PDC_ABSENT(cuLinkComplete)
PDC_ABSENT(cuLinkCreate)
PDC_ABSENT(cuLinkCreate_v2)
PDC_ABSENT(cuLinkDestroy)
PDC_ABSENT(cuMemcpyDtoH_v2)
PDC_ABSENT(cuModuleGetFunction)
PDC_ABSENT(cuModuleGetGlobal_v2)
PDC_ABSENT(cuModuleLoadData)
PDC_ABSENT(cuModuleLoadDataEx)
PDC_ABSENT(cuModuleLoadFatBinary)
PDC_ABSENT(cuModuleUnload)
PDC_ABSENT(cuOccupancyMaxActiveBlocksPerMultiprocessor)
PDC_ABSENT(cuOccupancyMaxPotentialClusterSize)
PDC_ABSENT(cuStreamGetCtx)
PDC_ABSENT(cuStreamSynchronize)
PDC_ABSENT(cuTensorMapEncodeIm2col)
PDC_ABSENT(cuTensorMapEncodeTiled)

} // extern "C"
