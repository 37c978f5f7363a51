// RUN: pdc-opt %s -estimate-cost=device=h100 | FileCheck %s

pdc.memory @x input microbatch : tensor<32x512x7x7xf16>
pdc.memory @w weight version : tensor<512x512x3x3xf16>
pdc.memory @scale weight version : tensor<512xf32>
pdc.memory @y metric update : tensor<32x512x7x7xf16>
pdc.memory @z metric update : tensor<32x512x7x7xf16>
func.func @train() {
  %x = pdc.read @x : tensor<32x512x7x7xf16>
  %w = pdc.weight_version @w latest : tensor<512x512x3x3xf16>
  %scale = pdc.weight_version @scale latest : tensor<512xf32>
  // 3 us to start, 7.5 us for 7.4 Gflop at 989 Tflop/s, and 1 us for two images of 1.6 MB at 3.35 TB/s.
  // CHECK: pdc.unit "/conv+/norm"
  // CHECK-SAME: seconds = 1.144{{[0-9]*}}E-5
  %r:2 = pdc.unit "/conv+/norm" origin "/conv+/norm" forward microbatch (%a = %x : tensor<32x512x7x7xf16>, %b = %w : tensor<512x512x3x3xf16>, %c = %scale : tensor<512xf32>) -> (tensor<32x512x7x7xf16>, tensor<32x512x7x7xf16>) attributes {kernel = #pdc.kernel<"NormalisedConvolution", {compute = "fp16"}, workspace = 0, accumulates = false>} {
    %0 = pdc.node "Conv" "/conv"(%a, %b) {pads = array<i64: 1, 1, 1, 1>} : (tensor<32x512x7x7xf16>, tensor<512x512x3x3xf16>) -> tensor<32x512x7x7xf16>
    %1:5 = pdc.node "BatchNormInternal" "/norm"(%0, %c, %c, %c, %c) {} : (tensor<32x512x7x7xf16>, tensor<512xf32>, tensor<512xf32>, tensor<512xf32>, tensor<512xf32>) -> (tensor<32x512x7x7xf16>, tensor<512xf32>, tensor<512xf32>, tensor<512xf32>, tensor<512xf32>)
    pdc.yield %0, %1#0 : tensor<32x512x7x7xf16>, tensor<32x512x7x7xf16>
  }
  pdc.accumulate %r#0 into @y : tensor<32x512x7x7xf16>
  pdc.accumulate %r#1 into @z : tensor<32x512x7x7xf16>
  return
}
