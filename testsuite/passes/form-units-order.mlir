// RUN: pdc-opt %s -form-units | FileCheck %s

// The running statistics were written between the two nodes that become one unit: the writes follow it.
pdc.memory @x input microbatch : tensor<2x4x3x3xf32>
pdc.memory @scale weight version : tensor<4xf32>
pdc.memory @mean state microbatch : tensor<4xf32>
pdc.memory @variance state microbatch : tensor<4xf32>
pdc.memory @y metric update : tensor<2x4x3x3xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  %x = pdc.read @x : tensor<2x4x3x3xf32>
  %s = pdc.weight_version @scale latest : tensor<4xf32>
  %m = pdc.read @mean : tensor<4xf32>
  %v = pdc.read @variance : tensor<4xf32>
  // CHECK: %[[U:.*]]:3 = pdc.unit "/norm+/relu"
  // CHECK: pdc.yield
  // CHECK-NEXT: }
  // CHECK-NEXT: pdc.write %[[U]]#0 to @mean
  // CHECK-NEXT: pdc.write %[[U]]#1 to @variance
  // CHECK-NEXT: pdc.accumulate %[[U]]#2 into @y
  %n:5 = pdc.node "BatchNormInternal" "/norm"(%x, %s, %s, %m, %v) {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64} phase forward rate microbatch : (tensor<2x4x3x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x3x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  pdc.write %n#1 to @mean : tensor<4xf32>
  pdc.write %n#2 to @variance : tensor<4xf32>
  %r = pdc.node "Relu" "/relu"(%n#0) {} phase forward rate microbatch : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  pdc.accumulate %r into @y : tensor<2x4x3x3xf32>
  return
}
