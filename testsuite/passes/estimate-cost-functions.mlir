// RUN: pdc-opt %s -estimate-cost | FileCheck %s

// Of 1024 elements and an exponent, 8196 bytes at 20 GB/s and the start of a kernel: 1.2098 us. A power takes half of 4.5 ns more
// for each.
pdc.memory @x input microbatch : tensor<16x64xf32>
func.func @train() {
  %x = pdc.read @x : tensor<16x64xf32>
  // A loop multiplies where the exponent is 2.
  // CHECK: pdc.unit "/square"
  // CHECK-SAME: seconds = 1.2097999{{[0-9]*}}E-6 : f64
  %y = pdc.unit "/square" origin "/square" forward microbatch (%a = %x : tensor<16x64xf32>) -> (tensor<16x64xf32>) attributes {kernel = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>} {
    %two = pdc.node "Constant" "/two"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
    %0 = pdc.node "Pow" "/pow"(%a, %two) {} : (tensor<16x64xf32>, tensor<f32>) -> tensor<16x64xf32>
    pdc.yield %0 : tensor<16x64xf32>
  }
  // CHECK: pdc.unit "/power"
  // CHECK-SAME: seconds = 3.5137999{{[0-9]*}}E-6 : f64
  %z = pdc.unit "/power" origin "/power" forward microbatch (%a = %x : tensor<16x64xf32>) -> (tensor<16x64xf32>) attributes {kernel = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>} {
    %exponent = pdc.node "Constant" "/exponent"() {value = dense<2.5> : tensor<f32>} : () -> tensor<f32>
    %0 = pdc.node "Pow" "/pow.1"(%a, %exponent) {} : (tensor<16x64xf32>, tensor<f32>) -> tensor<16x64xf32>
    pdc.yield %0 : tensor<16x64xf32>
  }
  return
}
