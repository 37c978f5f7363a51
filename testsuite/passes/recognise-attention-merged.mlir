// RUN: pdc-opt %s --recognise-composites --check-against=%s -o - | FileCheck %s

// PyTorch's nn.MultiheadAttention takes batch and heads together: they are the heads of one sample.

pdc.memory @q input microbatch : tensor<3x4x2xf32>
pdc.memory @k input microbatch : tensor<5x4x2xf32>
pdc.memory @v input microbatch : tensor<5x4x2xf32>
pdc.memory @padding input microbatch : tensor<4x1x5xf32>
pdc.memory @pdc.random input microbatch : tensor<4xi64>
pdc.memory @of_each input microbatch : tensor<6xi64>
pdc.memory @one metric update : tensor<3x4x2xf32>
pdc.memory @two metric update : tensor<4x5x2xf32>
pdc.memory @three metric update : tensor<4x3x2xf32>

// CHECK-LABEL: func.func @train
// CHECK-DAG: %[[Q:.*]] = pdc.read @q :
// CHECK-DAG: %[[K:.*]] = pdc.read @k :
// CHECK-DAG: %[[V:.*]] = pdc.read @v :
// CHECK-DAG: %[[PADDING:.*]] = pdc.read @padding :
// CHECK-DAG: %[[RANDOM:.*]] = pdc.read @pdc.random :
func.func @train() {
  %q = pdc.read @q : tensor<3x4x2xf32>
  %k = pdc.read @k : tensor<5x4x2xf32>
  %v = pdc.read @v : tensor<5x4x2xf32>
  %padding = pdc.read @padding : tensor<4x1x5xf32>
  %random = pdc.read @pdc.random : tensor<4xi64>
  %of_each = pdc.read @of_each : tensor<6xi64>
  %number = pdc.node "Constant" "number"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %root = pdc.node "Constant" "root"() {value = dense<1.41421354> : tensor<f32>} : () -> tensor<f32>
  %upper = pdc.node "Constant" "upper"() {value = dense<[[[0.0, 0xFF800000, 0xFF800000, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000, 0xFF800000, 0xFF800000], [0.0, 0.0, 0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0, 0.0, 0.0]]]> : tensor<1x5x5xf32>} : () -> tensor<1x5x5xf32>

  // Queries of a decoder ask keys and values of an encoder, some of which are padding; shares are dropped.
  // CHECK: %[[Q1:.*]] = pdc.node "Reshape" "cross/headed"(%[[Q]], {{.*}} -> tensor<1x3x4x2xf32>
  // CHECK: %[[K1:.*]] = pdc.node "Reshape" "cross/headed.1"(%[[K]], {{.*}} -> tensor<1x5x4x2xf32>
  // CHECK: %[[V1:.*]] = pdc.node "Reshape" "cross/headed.2"(%[[V]], {{.*}} -> tensor<1x5x4x2xf32>
  // CHECK: %[[Y1:.*]]:2 = pdc.node "SoftmaxAttention" "cross"(%[[Q1]], %[[K1]], %[[V1]], %[[PADDING]], %[[RANDOM]]) {key = 7 : i64, ratio = 2.500000e-01 : f64, rows_first = array<i64: 1, 1, 1, 1>, samples = 2 : i64, scale = {{0.7071.*}} : f64}
  // CHECK: pdc.node "Reshape" "cross/Reshape"(%[[Y1]]#0, {{.*}} -> tensor<3x4x2xf32>
  %q1 = pdc.node "Transpose" "q1"(%q) {perm = array<i64: 1, 0, 2>} : (tensor<3x4x2xf32>) -> tensor<4x3x2xf32>
  %q2 = pdc.node "Div" "q2"(%q1, %root) {} : (tensor<4x3x2xf32>, tensor<f32>) -> tensor<4x3x2xf32>
  %k1 = pdc.node "Transpose" "k1"(%k) {perm = array<i64: 1, 2, 0>} : (tensor<5x4x2xf32>) -> tensor<4x2x5xf32>
  %v1 = pdc.node "Transpose" "v1"(%v) {perm = array<i64: 1, 0, 2>} : (tensor<5x4x2xf32>) -> tensor<4x5x2xf32>
  %qk1 = pdc.node "MatMul" "qk1"(%q2, %k1) {} : (tensor<4x3x2xf32>, tensor<4x2x5xf32>) -> tensor<4x3x5xf32>
  %s1 = pdc.node "Mul" "s1"(%qk1, %number) {} : (tensor<4x3x5xf32>, tensor<f32>) -> tensor<4x3x5xf32>
  %m1 = pdc.node "Add" "m1"(%s1, %padding) {} : (tensor<4x3x5xf32>, tensor<4x1x5xf32>) -> tensor<4x3x5xf32>
  %p1 = pdc.node "Softmax" "p1"(%m1) {axis = -1 : i64} : (tensor<4x3x5xf32>) -> tensor<4x3x5xf32>
  %d1 = pdc.node "Dropout" "d1"(%p1, %random) {key = 7 : i64, ratio = 0.25 : f64} : (tensor<4x3x5xf32>, tensor<4xi64>) -> tensor<4x3x5xf32>
  %y1 = pdc.node "MatMul" "y1"(%d1, %v1) {} : (tensor<4x3x5xf32>, tensor<4x5x2xf32>) -> tensor<4x3x2xf32>
  %cross = pdc.node "Transpose" "cross"(%y1) {perm = array<i64: 1, 0, 2>} : (tensor<4x3x2xf32>) -> tensor<3x4x2xf32>
  pdc.accumulate %cross into @one : tensor<3x4x2xf32>

  // Each sees what is before it; the result stays heads first.
  // CHECK: pdc.node "SoftmaxAttention" "own"({{.*}}) {is_causal = 1 : i64, past = 0 : i64, rows_first = array<i64: 1, 1, 1, 0>, scale = 1.000000e+00 : f64}
  // CHECK: pdc.node "Reshape" "own/Reshape"({{.*}} -> tensor<4x5x2xf32>
  %kt = pdc.node "Transpose" "kt"(%k) {perm = array<i64: 1, 0, 2>} : (tensor<5x4x2xf32>) -> tensor<4x5x2xf32>
  %qk2 = pdc.node "MatMul" "qk2"(%kt, %k1) {} : (tensor<4x5x2xf32>, tensor<4x2x5xf32>) -> tensor<4x5x5xf32>
  %m2 = pdc.node "Add" "m2"(%upper, %qk2) {} : (tensor<1x5x5xf32>, tensor<4x5x5xf32>) -> tensor<4x5x5xf32>
  %p2 = pdc.node "Softmax" "p2"(%m2) {axis = 2 : i64} : (tensor<4x5x5xf32>) -> tensor<4x5x5xf32>
  %own = pdc.node "MatMul" "own"(%p2, %v1) {} : (tensor<4x5x5xf32>, tensor<4x5x2xf32>) -> tensor<4x5x2xf32>
  pdc.accumulate %own into @two : tensor<4x5x2xf32>

  // As many samples as heads: dropout draws for each.
  // CHECK: pdc.node "SoftmaxAttention" "y3"({{.*}}) {key = 7 : i64, ratio = 2.500000e-01 : f64, rows_first = array<i64: 1, 1, 1, 0>, samples = 4 : i64, scale = 1.000000e+00 : f64}
  %qk3 = pdc.node "MatMul" "qk3"(%q1, %k1) {} : (tensor<4x3x2xf32>, tensor<4x2x5xf32>) -> tensor<4x3x5xf32>
  %p3 = pdc.node "Softmax" "p3"(%qk3) {axis = -1 : i64} : (tensor<4x3x5xf32>) -> tensor<4x3x5xf32>
  %d3 = pdc.node "Dropout" "d3"(%p3, %of_each) {key = 7 : i64, ratio = 0.25 : f64} : (tensor<4x3x5xf32>, tensor<6xi64>) -> tensor<4x3x5xf32>
  %y3 = pdc.node "MatMul" "y3"(%d3, %v1) {} : (tensor<4x3x5xf32>, tensor<4x5x2xf32>) -> tensor<4x3x2xf32>
  pdc.accumulate %y3 into @three : tensor<4x3x2xf32>
  return
}
