// A convolution of fp16 is one unit with the normalisation behind it, which makes its sums, and is read
// by the backward pass as well.
// RUN: pdc-opt %s -form-units="device=cuda precision=fp16" | FileCheck --check-prefixes=CHECK,FUSED %s
// RUN: pdc-opt %s -form-units="device=cuda precision=fp16" -choose-kernels="device=cuda precision=fp16" | FileCheck --check-prefix=KERNEL %s
// RUN: pdc-opt %s -form-units="device=cuda precision=fp16 exact" | FileCheck --check-prefixes=CHECK,APART %s
// RUN: sed -e s/8x3x3x/20x3x3x/g -e s/2x8x4x4x/2x20x4x4x/g %s | pdc-opt -form-units="device=cuda precision=fp16" | FileCheck --check-prefixes=CHECK,APART %s
// RUN: sed -e s/f16/bf16/g %s | pdc-opt -form-units="device=cuda precision=bf16" | FileCheck --check-prefixes=CHECK,APART %s
// RUN: sed -e s/8x3x3x/4x3x3x/g -e 's/"\/conv"(%x, %w) {/&group = 2 : i64, /' %s | pdc-opt -form-units="device=cuda precision=fp16" | FileCheck --check-prefixes=CHECK,APART %s
// RUN: sed -e 's/"\/conv"(%x, %w)/"\/conv"(%x, %w, %bias)/' -e '/"\/conv"/s/16x8x3x3xf16>) ->/16x8x3x3xf16>, tensor<16xf32>) ->/' %s | pdc-opt -form-units="device=cuda precision=fp16" | FileCheck --check-prefixes=CHECK,APART %s

pdc.memory @x input microbatch : tensor<2x8x4x4xf16>
pdc.memory @w weight version : tensor<16x8x3x3xf16>
pdc.memory @scale weight version : tensor<16xf32>
pdc.memory @bias weight version : tensor<16xf32>
pdc.memory @mean state microbatch : tensor<16xf32>
pdc.memory @variance state microbatch : tensor<16xf32>
pdc.memory @"scale/gradient" gradient update : tensor<16xf32>
pdc.memory @y metric update : tensor<2x16x4x4xf16>

// CHECK-LABEL: func.func @train
func.func @train() {
  %x = pdc.read @x : tensor<2x8x4x4xf16>
  %w = pdc.weight_version @w latest : tensor<16x8x3x3xf16>
  %scale = pdc.weight_version @scale latest : tensor<16xf32>
  %bias = pdc.weight_version @bias latest : tensor<16xf32>
  %mean = pdc.read @mean : tensor<16xf32>
  %variance = pdc.read @variance : tensor<16xf32>
  // FUSED: %[[UNIT:.*]]:6 = pdc.unit "/conv+/norm+/relu" origin "/conv+/norm+/relu" forward microbatch
  // FUSED-NEXT: %[[Y:.*]] = pdc.node "Conv" "/conv"
  // FUSED-NEXT: %[[N:.*]]:5 = pdc.node "BatchNormInternal" "/norm"
  // FUSED-NEXT: %[[Z:.*]] = pdc.node "Relu" "/relu"
  // FUSED-NEXT: pdc.yield %[[Y]], %[[N]]#1, %[[N]]#2, %[[N]]#3, %[[N]]#4, %[[Z]]
  // FUSED: pdc.write %[[UNIT]]#1 to @mean
  // APART: %[[Y:.*]] = pdc.unit "/conv" origin "/conv" forward
  // APART: pdc.unit "/norm+/relu" origin "/norm+/relu" forward
  // Result 0 of the normalisation is the last of the unit; the running ones take the old ones' place.
  // KERNEL: pdc.unit "/conv+/norm+/relu"
  // KERNEL-SAME: in_place = array<i64: 4, 1, 5, 2>, kernel = #pdc.kernel<"NormalisedConvolution", {compute = "fp16",
  // KERNEL-SAME: epsilon = 1.000000e-05 : f64, groups = 1 : i64, input = array<i64: 2, 8, 4, 4>, momentum = 8.000000e-01 : f64
  // KERNEL-SAME: output = array<i64: 2, 16, 4, 4>, {{.*}} relu = 1 : i64, results = array<i64: 1, 2, 3, 4, 0>, strides
  %y = pdc.node "Conv" "/conv"(%x, %w) {kernel_shape = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>} phase forward rate microbatch : (tensor<2x8x4x4xf16>, tensor<16x8x3x3xf16>) -> tensor<2x16x4x4xf16>
  %n:5 = pdc.node "BatchNormInternal" "/norm"(%y, %scale, %bias, %mean, %variance) {momentum = 0.8 : f64} phase forward rate microbatch : (tensor<2x16x4x4xf16>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x16x4x4xf16>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
  pdc.write %n#1 to @mean : tensor<16xf32>
  pdc.write %n#2 to @variance : tensor<16xf32>
  %z = pdc.node "Relu" "/relu"(%n#0) {} phase forward rate microbatch : (tensor<2x16x4x4xf16>) -> tensor<2x16x4x4xf16>
  pdc.accumulate %z into @y : tensor<2x16x4x4xf16>
  // What belongs to either is planned with the unit.
  // FUSED: pdc.unit "/norm/grad" origin "/conv+/norm+/relu" backward_input
  // APART: pdc.unit "/norm/grad" origin "/norm+/relu" backward_input
  %d:3 = pdc.node "BatchNormalizationGrad" "/norm/grad"(%z, %y, %scale, %n#3, %n#4) {} origin "/norm" phase backward_input rate microbatch : (tensor<2x16x4x4xf16>, tensor<2x16x4x4xf16>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x16x4x4xf16>, tensor<16xf32>, tensor<16xf32>)
  pdc.accumulate %d#1 into @"scale/gradient" : tensor<16xf32>
  return
}

// An evaluation normalises by the running statistics, which no convolution makes.
// CHECK-LABEL: func.func @evaluate
func.func @evaluate() {
  %x = pdc.read @x : tensor<2x8x4x4xf16>
  %w = pdc.weight_version @w latest : tensor<16x8x3x3xf16>
  %scale = pdc.weight_version @scale latest : tensor<16xf32>
  %bias = pdc.weight_version @bias latest : tensor<16xf32>
  %mean = pdc.read @mean : tensor<16xf32>
  %variance = pdc.read @variance : tensor<16xf32>
  // FUSED: pdc.unit "/conv" origin "/conv+/norm+/relu" evaluate
  // FUSED: pdc.unit "/norm+/relu" origin "/conv+/norm+/relu" evaluate
  // APART: pdc.unit "/conv" origin "/conv" evaluate
  // APART: pdc.unit "/norm+/relu" origin "/norm+/relu" evaluate
  %y = pdc.node "Conv" "/conv"(%x, %w) {kernel_shape = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>} phase evaluate rate microbatch : (tensor<2x8x4x4xf16>, tensor<16x8x3x3xf16>) -> tensor<2x16x4x4xf16>
  %n = pdc.node "BatchNormalization" "/norm"(%y, %scale, %bias, %mean, %variance) {} phase evaluate rate microbatch : (tensor<2x16x4x4xf16>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<2x16x4x4xf16>
  %z = pdc.node "Relu" "/relu"(%n) {} phase evaluate rate microbatch : (tensor<2x16x4x4xf16>) -> tensor<2x16x4x4xf16>
  pdc.accumulate %z into @y : tensor<2x16x4x4xf16>
  return
}
