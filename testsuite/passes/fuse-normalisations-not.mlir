// RUN: pdc-opt %s --fuse-normalisations -split-input-file | FileCheck %s --implicit-check-not BatchNormApply

// A relu of one operand, and normalisations of other scales, which stand in both units, are left alone.
// CHECK: pdc.unit "d" origin "d"
pdc.memory @x input microbatch : tensor<2x8x4x4xf32>
pdc.memory @s weight version : tensor<8xf32>
pdc.memory @z metric update : tensor<2x8x4x4xf32>
func.func @train() {
  %x = pdc.read @x : tensor<2x8x4x4xf32>
  %s = pdc.weight_version @s latest : tensor<8xf32>
  %d = pdc.unit "d" origin "d" backward_input microbatch (%0 = %x : tensor<2x8x4x4xf32>, %1 = %s : tensor<8xf32>) -> (tensor<2x8x4x4xf32>) {
    %r = pdc.node "ReluGrad" "r"(%0) {} phase backward_input rate microbatch : (tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
    %e:3 = pdc.node "BatchNormalizationGrad" "e"(%r, %0, %1, %1, %1) {} phase backward_input rate microbatch : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>)
    pdc.yield %e#0 : tensor<2x8x4x4xf32>
  }
  pdc.accumulate %d into @z : tensor<2x8x4x4xf32>
  return
}

// -----
// CHECK: pdc.unit "d" origin "f"
pdc.memory @x input microbatch : tensor<2x4x3x3xf32>
pdc.memory @dy input microbatch : tensor<2x4x3x3xf32>
pdc.memory @b weight version : tensor<4xf32>
pdc.memory @m state microbatch : tensor<4xf32>
pdc.memory @z metric update : tensor<2x4x3x3xf32>
func.func @train() {
  %x = pdc.read @x : tensor<2x4x3x3xf32>
  %dy = pdc.read @dy : tensor<2x4x3x3xf32>
  %b = pdc.weight_version @b latest : tensor<4xf32>
  %m = pdc.read @m : tensor<4xf32>
  %f:3 = pdc.unit "f" origin "f" forward microbatch (%0 = %x : tensor<2x4x3x3xf32>, %1 = %b : tensor<4xf32>, %2 = %m : tensor<4xf32>) -> (tensor<2x4x3x3xf32>, tensor<4xf32>, tensor<4xf32>) {
    %one = pdc.node "Constant" "one"() {value = dense<1.0> : tensor<4xf32>} phase forward rate microbatch : () -> tensor<4xf32>
    %n:5 = pdc.node "BatchNormInternal" "n"(%0, %one, %1, %2, %2) {} phase forward rate microbatch : (tensor<2x4x3x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x3x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    %r = pdc.node "Relu" "r"(%n#0) {} phase forward rate microbatch : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
    pdc.yield %r, %n#3, %n#4 : tensor<2x4x3x3xf32>, tensor<4xf32>, tensor<4xf32>
  }
  %d = pdc.unit "d" origin "f" backward_input microbatch (%0 = %x : tensor<2x4x3x3xf32>, %1 = %dy : tensor<2x4x3x3xf32>, %2 = %f#0 : tensor<2x4x3x3xf32>, %3 = %f#1 : tensor<4xf32>, %4 = %f#2 : tensor<4xf32>) -> (tensor<2x4x3x3xf32>) {
    %two = pdc.node "Constant" "two"() {value = dense<-2.0> : tensor<4xf32>} phase backward_input rate microbatch : () -> tensor<4xf32>
    %r = pdc.node "ReluGrad" "rg"(%1, %2) {} phase backward_input rate microbatch : (tensor<2x4x3x3xf32>,tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
    %e:3 = pdc.node "BatchNormalizationGrad" "e"(%r, %0, %two, %3, %4) {} phase backward_input rate microbatch : (tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x3x3xf32>, tensor<4xf32>, tensor<4xf32>)
    pdc.yield %e#0 : tensor<2x4x3x3xf32>
  }
  pdc.accumulate %d into @z : tensor<2x4x3x3xf32>
  return
}
