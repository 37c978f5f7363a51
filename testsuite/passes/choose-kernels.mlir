// RUN: pdc-opt %s -choose-kernels | FileCheck %s

// The forward kernel's layout is the weight's, and its gradient's and optimizer state's; the gradient of
// the input wants another one and gets a copy of each version.
// CHECK: pdc.memory @w weight version : tensor<32x16x3x3xf32, #pdc.layout<"ABcd16b16a">>
// CHECK-NEXT: pdc.memory @"w/packed" derived version : tensor<32x16x3x3xf32, #pdc.layout<"ABcd16a16b">>
// CHECK-NEXT: pdc.memory @"w/gradient" gradient update : tensor<32x16x3x3xf32, #pdc.layout<"ABcd16b16a">>
// CHECK-NEXT: pdc.memory @"w/momentum" optimizer update : tensor<32x16x3x3xf32, #pdc.layout<"ABcd16b16a">>
pdc.memory @w weight version : tensor<32x16x3x3xf32>
pdc.memory @"w/gradient" gradient update : tensor<32x16x3x3xf32>
pdc.memory @"w/momentum" optimizer update : tensor<32x16x3x3xf32>
pdc.memory @x input microbatch : tensor<2x16x8x8xf32>
pdc.memory @dy input microbatch : tensor<2x32x4x4xf32>
pdc.memory @y metric update : tensor<2x512xf32>
pdc.memory @dx metric update : tensor<2x16x8x8xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK: %[[P:.*]] = pdc.unit "w/reorder" origin "/conv" prepare version
  // CHECK-SAME: kernel = #pdc.kernel<"Reorder"
  // CHECK: pdc.write %[[P]] to @"w/packed"
  // CHECK: %[[W:.*]] = pdc.weight_version @w latest : tensor<32x16x3x3xf32, #pdc.layout<"ABcd16b16a">>
  %x = pdc.read @x : tensor<2x16x8x8xf32>
  %dy = pdc.read @dy : tensor<2x32x4x4xf32>
  %w = pdc.weight_version @w latest : tensor<32x16x3x3xf32>
  // CHECK: %[[X:.*]] = pdc.unit "x/reorder" origin "/conv" forward
  // CHECK: %[[C:.*]] = pdc.unit "/conv" origin "/conv" forward microbatch (%{{.*}} = %[[X]] : tensor<2x16x8x8xf32, #pdc.layout<"aBcd16b">>, %{{.*}} = %[[W]] :
  // CHECK-SAME: kernel = #pdc.kernel<"Convolution"
  %c = pdc.unit "/conv" origin "/conv" forward microbatch (%a = %x : tensor<2x16x8x8xf32>, %b = %w : tensor<32x16x3x3xf32>) -> (tensor<2x32x4x4xf32>) {
    %0 = pdc.node "Conv" "/conv"(%a, %b) {kernel_shape = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x16x8x8xf32>, tensor<32x16x3x3xf32>) -> tensor<2x32x4x4xf32>
    pdc.yield %0 : tensor<2x32x4x4xf32>
  }
  // A loop takes its input as it comes, and may overwrite it.
  // CHECK: %[[R:.*]] = pdc.unit "/relu" origin "/relu" forward microbatch (%{{.*}} = %[[C]] : tensor<2x32x4x4xf32, #pdc.layout<"aBcd16b">>)
  // CHECK-SAME: in_place = array<i64: 0, 0>
  %r = pdc.unit "/relu" origin "/relu" forward microbatch (%a = %c : tensor<2x32x4x4xf32>) -> (tensor<2x32x4x4xf32>) {
    %0 = pdc.node "Relu" "/relu"(%a) {} : (tensor<2x32x4x4xf32>) -> tensor<2x32x4x4xf32>
    pdc.yield %0 : tensor<2x32x4x4xf32>
  }
  // A view needs row-major order, and is no kernel.
  // CHECK: %[[F:.*]] = pdc.unit "/relu/reorder" origin "/flatten" forward microbatch (%{{.*}} = %[[R]]
  // CHECK: pdc.unit "/flatten" origin "/flatten" forward microbatch (%{{.*}} = %[[F]] : tensor<2x32x4x4xf32>) -> (tensor<2x512xf32>) {
  %f = pdc.unit "/flatten" origin "/flatten" forward microbatch (%a = %r : tensor<2x32x4x4xf32>) -> (tensor<2x512xf32>) {
    %0 = pdc.node "Flatten" "/flatten"(%a) {} : (tensor<2x32x4x4xf32>) -> tensor<2x512xf32>
    pdc.yield %0 : tensor<2x512xf32>
  }
  pdc.accumulate %f into @y : tensor<2x512xf32>
  // CHECK: %[[DY:.*]] = pdc.unit "dy/reorder" origin "/conv" backward_input
  // CHECK: %[[PACKED:.*]] = pdc.weight_version @"w/packed" latest
  // CHECK: pdc.unit "/conv/grad/i" {{.*}} = %[[DY]] : {{.*}} = %[[PACKED]] :
  %i = pdc.unit "/conv/grad/i" origin "/conv" backward_input microbatch (%a = %dy : tensor<2x32x4x4xf32>, %b = %w : tensor<32x16x3x3xf32>) -> (tensor<2x16x8x8xf32>) {
    %0 = pdc.node "ConvInputGrad" "/conv/grad/i"(%a, %b) {input_shape = array<i64: 2, 16, 8, 8>, kernel_shape = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x32x4x4xf32>, tensor<32x16x3x3xf32>) -> tensor<2x16x8x8xf32>
    pdc.yield %0 : tensor<2x16x8x8xf32>
  }
  pdc.accumulate %i into @dx : tensor<2x16x8x8xf32>
  // Units of one origin share what is reordered already.
  // CHECK: %[[G:.*]] = pdc.unit "/conv/grad/w" {{.*}} = %[[DY]] : {{.*}} = %[[X]] :
  // CHECK: pdc.accumulate %[[G]] into @"w/gradient" : tensor<32x16x3x3xf32, #pdc.layout<"ABcd16b16a">>
  %g = pdc.unit "/conv/grad/w" origin "/conv" backward_weight microbatch (%a = %dy : tensor<2x32x4x4xf32>, %b = %x : tensor<2x16x8x8xf32>) -> (tensor<32x16x3x3xf32>) {
    %0 = pdc.node "ConvWeightGrad" "/conv/grad/w"(%a, %b) {kernel_shape = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x32x4x4xf32>, tensor<2x16x8x8xf32>) -> tensor<32x16x3x3xf32>
    pdc.yield %0 : tensor<32x16x3x3xf32>
  }
  pdc.accumulate %g into @"w/gradient" : tensor<32x16x3x3xf32>
  return
}
// CHECK-LABEL: func.func @evaluate
func.func @evaluate() {
  %x = pdc.read @x : tensor<2x16x8x8xf32>
  %w = pdc.weight_version @w latest : tensor<32x16x3x3xf32>
  // CHECK: pdc.unit "/conv" origin "/conv" evaluate
  // CHECK-SAME: tensor<32x16x3x3xf32, #pdc.layout<"ABcd16b16a">>
  %c = pdc.unit "/conv" origin "/conv" evaluate microbatch (%a = %x : tensor<2x16x8x8xf32>, %b = %w : tensor<32x16x3x3xf32>) -> (tensor<2x32x4x4xf32>) {
    %0 = pdc.node "Conv" "/conv"(%a, %b) {kernel_shape = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x16x8x8xf32>, tensor<32x16x3x3xf32>) -> tensor<2x32x4x4xf32>
    pdc.yield %0 : tensor<2x32x4x4xf32>
  }
  %f = pdc.unit "/flatten" origin "/flatten" evaluate microbatch (%a = %c : tensor<2x32x4x4xf32>) -> (tensor<2x512xf32>) {
    %0 = pdc.node "Flatten" "/flatten"(%a) {} : (tensor<2x32x4x4xf32>) -> tensor<2x512xf32>
    pdc.yield %0 : tensor<2x512xf32>
  }
  pdc.accumulate %f into @y : tensor<2x512xf32>
  return
}
