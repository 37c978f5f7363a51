// RUN: pdc-opt %s --recognise-composites --check-against=%s -o - | FileCheck %s

// Scores that each head multiplies by a number of its own, as Swin v2 does: its queries are. Channels of an image that attend to one
// another stay products, of which scores are few.

pdc.memory @rows input microbatch : tensor<2x3x2x4xf32>
pdc.memory @k input microbatch : tensor<2x2x3x4xf32>
pdc.memory @v input microbatch : tensor<2x2x3x4xf32>
pdc.memory @bias input microbatch : tensor<2x3x3xf32>
pdc.memory @heads input microbatch : tensor<2x1x1xf32>
pdc.memory @channels input microbatch : tensor<2x2x3x130xf32>
pdc.memory @one metric update : tensor<2x2x3x4xf32>
pdc.memory @two metric update : tensor<2x2x3x4xf32>
pdc.memory @three metric update : tensor<2x2x3x4xf32>
pdc.memory @four metric update : tensor<2x2x3x130xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK: %[[ROWS:.*]] = pdc.read @rows
  %rows = pdc.read @rows : tensor<2x3x2x4xf32>
  // CHECK: %[[K:.*]] = pdc.read @k
  %k = pdc.read @k : tensor<2x2x3x4xf32>
  // CHECK: %[[V:.*]] = pdc.read @v
  %v = pdc.read @v : tensor<2x2x3x4xf32>
  // CHECK: %[[BIAS:.*]] = pdc.read @bias
  %bias = pdc.read @bias : tensor<2x3x3xf32>
  // CHECK: %[[HEADS:.*]] = pdc.read @heads
  %heads = pdc.read @heads : tensor<2x1x1xf32>
  %channels = pdc.read @channels : tensor<2x2x3x130xf32>
  %q = pdc.node "Transpose" "q"(%rows) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x2x4xf32>) -> tensor<2x2x3x4xf32>
  %kt = pdc.node "Transpose" "kt"(%k) {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x2x3x4xf32>) -> tensor<2x2x4x3xf32>

  // Rows before heads, with a bias behind.
  // CHECK: %[[TEMPERATURE:.*]] = pdc.node "Reshape" "one/temperature"(%[[HEADS]], %{{.*}}) {} : (tensor<2x1x1xf32>, tensor<4xi64>) -> tensor<1x1x2x1xf32>
  // CHECK: %[[SCALED:.*]] = pdc.node "Mul" "one/scaled"(%[[ROWS]], %[[TEMPERATURE]])
  // CHECK: pdc.node "SoftmaxAttention" "one"(%[[SCALED]], %[[K]], %[[V]], %[[BIAS]]) {rows_first = array<i64: 1, 0, 0, 0>, scale = 1.000000e+00 : f64}
  %qk1 = pdc.node "MatMul" "qk1"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %s1 = pdc.node "Mul" "s1"(%qk1, %heads) {} : (tensor<2x2x3x3xf32>, tensor<2x1x1xf32>) -> tensor<2x2x3x3xf32>
  %b1 = pdc.node "Add" "b1"(%s1, %bias) {} : (tensor<2x2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p1 = pdc.node "Softmax" "p1"(%b1) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %one = pdc.node "MatMul" "one"(%p1, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %one into @one : tensor<2x2x3x4xf32>

  // A bias that is multiplied, too.
  // CHECK: pdc.node "MatMul" "two"
  %qk2 = pdc.node "MatMul" "qk2"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %b2 = pdc.node "Add" "b2"(%qk2, %bias) {} : (tensor<2x2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %s2 = pdc.node "Mul" "s2"(%heads, %b2) {} : (tensor<2x1x1xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p2 = pdc.node "Softmax" "p2"(%s2) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %two = pdc.node "MatMul" "two"(%p2, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %two into @two : tensor<2x2x3x4xf32>

  // Queries whose heads come first.
  // CHECK: pdc.node "Reshape" "three/temperature"({{.*}} -> tensor<1x2x1x1xf32>
  // CHECK: pdc.node "Mul" "three/scaled"(%[[K]], %
  // CHECK: pdc.node "SoftmaxAttention" "three"({{.*}} {rows_first = array<i64: 0, 0, 0, 0>, scale = 1.000000e+00 : f64}
  %qk3 = pdc.node "MatMul" "qk3"(%k, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %s3 = pdc.node "Mul" "s3"(%heads, %qk3) {} : (tensor<2x1x1xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p3 = pdc.node "Softmax" "p3"(%s3) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %three = pdc.node "MatMul" "three"(%p3, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %three into @three : tensor<2x2x3x4xf32>

  // CHECK: pdc.node "MatMul" "four"
  %ct = pdc.node "Transpose" "ct"(%channels) {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x2x3x130xf32>) -> tensor<2x2x130x3xf32>
  %qk4 = pdc.node "MatMul" "qk4"(%channels, %ct) {} : (tensor<2x2x3x130xf32>, tensor<2x2x130x3xf32>) -> tensor<2x2x3x3xf32>
  %p4 = pdc.node "Softmax" "p4"(%qk4) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %four = pdc.node "MatMul" "four"(%p4, %channels) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x130xf32>) -> tensor<2x2x3x130xf32>
  pdc.accumulate %four into @four : tensor<2x2x3x130xf32>
  return
}
