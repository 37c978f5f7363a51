// RUN: pdc-opt %s -choose-kernels="device=cuda precision=tf32" -estimate-cost=device=cuda | FileCheck --check-prefixes=CHECK,TF32 %s
// RUN: pdc-opt %s -choose-kernels="device=cuda precision=fp32" -estimate-cost=device=cuda | FileCheck --check-prefixes=CHECK,FP32 %s
// RUN: not pdc-opt %s -choose-kernels=precision=tf32 2>&1 | FileCheck --check-prefix=CPU %s
// CPU: error: precision tf32 is not available for device cpu; there is fp32
// RUN: not pdc-opt %s -choose-kernels="device=cuda precision=half" 2>&1 | FileCheck --check-prefix=NAME %s
// NAME: error: expected one of fp32, tf32, bf16, fp16, found 'half'

pdc.memory @sums metric update : tensor<1024x1024xf32>
pdc.memory @images metric update : tensor<1x2x4x4xf32>
pdc.memory @x input microbatch : tensor<1024x1024xf32>
pdc.memory @w weight version : tensor<1024x1024xf32>
pdc.memory @image input microbatch : tensor<1x2x4x4xf32>
pdc.memory @k weight version : tensor<2x2x1x1xf32>
func.func @train() {
  %x = pdc.read @x : tensor<1024x1024xf32>
  %w = pdc.weight_version @w latest : tensor<1024x1024xf32>
  // Only kernels that multiply say what in, and are as fast as the device is in it: 2 * 1024^3 flops at
  // 495 or at 67 Tflop/s, and 3 us to start.
  // CHECK: pdc.unit "/fc"
  // TF32-SAME: kernel = #pdc.kernel<"MatrixProduct", {{.*}}compute = "tf32"
  // TF32-SAME: seconds = 7.338{{[0-9]*}}E-6
  // FP32-NOT: compute
  // FP32-SAME: seconds = 3.505{{[0-9]*}}E-5
  %y = pdc.unit "/fc" origin "/fc" forward microbatch (%a = %x : tensor<1024x1024xf32>, %b = %w : tensor<1024x1024xf32>) -> (tensor<1024x1024xf32>) {
    %0 = pdc.node "MatMul" "/fc"(%a, %b) {} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    pdc.yield %0 : tensor<1024x1024xf32>
  }
  // CHECK: pdc.unit "/sqrt"
  // CHECK-NOT: compute
  // CHECK-SAME: seconds =
  %s = pdc.unit "/sqrt" origin "/sqrt" forward microbatch (%a = %y : tensor<1024x1024xf32>) -> (tensor<1024x1024xf32>) {
    %0 = pdc.node "Sqrt" "/sqrt"(%a) {} : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    pdc.yield %0 : tensor<1024x1024xf32>
  }
  pdc.accumulate %s into @sums : tensor<1024x1024xf32>
  %i = pdc.read @image : tensor<1x2x4x4xf32>
  %k = pdc.weight_version @k latest : tensor<2x2x1x1xf32>
  // TF32: kernel = #pdc.kernel<"Convolution", {compute = "tf32"
  // FP32: kernel = #pdc.kernel<"Convolution", {dilations
  %c = pdc.unit "/conv" origin "/conv" forward microbatch (%a = %i : tensor<1x2x4x4xf32>, %b = %k : tensor<2x2x1x1xf32>) -> (tensor<1x2x4x4xf32>) {
    %0 = pdc.node "Conv" "/conv"(%a, %b) {kernel_shape = array<i64: 1, 1>} : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
    pdc.yield %0 : tensor<1x2x4x4xf32>
  }
  pdc.accumulate %c into @images : tensor<1x2x4x4xf32>
  return
}
