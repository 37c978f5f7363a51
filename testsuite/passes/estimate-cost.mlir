// RUN: pdc-opt %s -estimate-cost | FileCheck %s

pdc.memory @x input microbatch : tensor<4x6xf32>
pdc.memory @w weight version : tensor<8x6xf32>
pdc.memory @labels input microbatch : tensor<4xi64>
func.func @train() {
  %x = pdc.read @x : tensor<4x6xf32>
  %w = pdc.weight_version @w latest : tensor<8x6xf32>
  // Two per multiplication and one per element of the Relu; x, w and the result, but not the value between.
  // CHECK: pdc.unit "/fc+/relu"
  // CHECK-SAME: bytes = 4.160000e+02 : f64, flops = 4.160000e+02 : f64
  // CHECK-SAME: seconds =
  %y = pdc.unit "/fc+/relu" origin "/fc+/relu" forward microbatch (%a = %x : tensor<4x6xf32>, %b = %w : tensor<8x6xf32>) -> (tensor<4x8xf32>) attributes {kernel = #pdc.kernel<"MatrixProduct", {}, workspace = 0, accumulates = false>} {
    %0 = pdc.node "Gemm" "/fc"(%a, %b) {transB = 1 : i64} : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
    %1 = pdc.node "Relu" "/relu"(%0) {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    pdc.yield %1 : tensor<4x8xf32>
  }
  // A unit without kernel is a view and costs nothing.
  // CHECK: pdc.unit "/flatten"
  // CHECK-SAME: bytes = 0.000000e+00 : f64, flops = 0.000000e+00 : f64, seconds = 0.000000e+00 : f64
  %f = pdc.unit "/flatten" origin "/flatten" forward microbatch (%a = %y : tensor<4x8xf32>) -> (tensor<4x8xf32>) {
    %0 = pdc.node "Flatten" "/flatten"(%a) {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    pdc.yield %0 : tensor<4x8xf32>
  }
  // Scores, labels, the loss and two numbers of each row; not the logarithms of probabilities, which nobody reads.
  %labels = pdc.read @labels : tensor<4xi64>
  // CHECK: pdc.unit "loss"
  // CHECK-SAME: bytes = 1.960000e+02 : f64
  %l:2 = pdc.unit "loss" origin "loss" forward microbatch (%a = %f : tensor<4x8xf32>, %b = %labels : tensor<4xi64>) -> (tensor<f32>, tensor<4x2xf32>) attributes {kernel = #pdc.kernel<"SoftmaxCrossEntropy", {}, workspace = 0, accumulates = false>} {
    %0:3 = pdc.node "SoftmaxCrossEntropyLoss" "loss"(%a, %b) {reduction = "sum"} : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4x8xf32>, tensor<4x2xf32>)
    pdc.yield %0#0, %0#2 : tensor<f32>, tensor<4x2xf32>
  }
  return
}
