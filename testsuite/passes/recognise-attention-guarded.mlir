// RUN: pdc-opt %s --recognise-composites --check-against=%s -o - | FileCheck %s

// PyTorch's scaled_dot_product_attention by its newer exporter: masks of flags are added as 0 or minus infinity, and
// rows that see no key, whose softmax is no number, become zeros.

pdc.memory @q input microbatch : tensor<2x2x3x4xf32>
pdc.memory @k input microbatch : tensor<2x2x3x4xf32>
pdc.memory @v input microbatch : tensor<2x2x3x4xf32>
pdc.memory @seen input microbatch : tensor<2x1x1x3xi1>
pdc.memory @pdc.random input microbatch : tensor<4xi64>
pdc.memory @one metric update : tensor<2x2x3x4xf32>
pdc.memory @two metric update : tensor<2x2x3x4xf32>
pdc.memory @three metric update : tensor<2x2x3x4xf32>
pdc.memory @four metric update : tensor<2x2x3x4xf32>
pdc.memory @shares metric update : tensor<2x2x3x3xf32>

// CHECK-LABEL: func.func @train
// CHECK-DAG: %[[Q:.*]] = pdc.read @q
// CHECK-DAG: %[[K:.*]] = pdc.read @k
// CHECK-DAG: %[[V:.*]] = pdc.read @v
// CHECK-DAG: %[[SEEN:.*]] = pdc.read @seen
// CHECK-DAG: %[[RANDOM:.*]] = pdc.read @pdc.random
func.func @train() {
  %q = pdc.read @q : tensor<2x2x3x4xf32>
  %k = pdc.read @k : tensor<2x2x3x4xf32>
  %v = pdc.read @v : tensor<2x2x3x4xf32>
  %seen = pdc.read @seen : tensor<2x1x1x3xi1>
  %random = pdc.read @pdc.random : tensor<4xi64>
  %zero = pdc.node "Constant" "zero"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %never = pdc.node "Constant" "never"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
  %lower = pdc.node "Constant" "lower"() {value = dense<[[[[true, false, false], [true, true, false], [true, true, true]]]]> : tensor<1x1x3x3xi1>} : () -> tensor<1x1x3x3xi1>
  %all = pdc.node "Constant" "all"() {value = dense<true> : tensor<1x1x3x1xi1>} : () -> tensor<1x1x3x1xi1>
  %repeated = pdc.node "Constant" "repeated"() {value = dense<[2, 1, 3, 3]> : tensor<4xi64>} : () -> tensor<4xi64>
  %kt = pdc.node "Transpose" "kt"(%k) {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x2x3x4xf32>) -> tensor<2x2x4x3xf32>

  // Each sees what is before it: no row is empty.
  // CHECK: pdc.node "SoftmaxAttention" "causal"(%[[Q]], %[[K]], %[[V]]) {is_causal = 1 : i64, past = 0 : i64, rows_first = array<i64: 0, 0, 0, 0>, scale = 1.000000e+00 : f64}
  %e1 = pdc.node "Expand" "e1"(%lower, %repeated) {} : (tensor<1x1x3x3xi1>, tensor<4xi64>) -> tensor<2x1x3x3xi1>
  %m1 = pdc.node "Where" "m1"(%e1, %zero, %never) {} : (tensor<2x1x3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x3x3xf32>
  %qk1 = pdc.node "MatMul" "qk1"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %s1 = pdc.node "Add" "s1"(%qk1, %m1) {} : (tensor<2x2x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p1 = pdc.node "Softmax" "p1"(%s1) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %n1 = pdc.node "IsNaN" "n1"(%p1) {} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xi1>
  %g1 = pdc.node "Where" "g1"(%n1, %zero, %p1) {} : (tensor<2x2x3x3xi1>, tensor<f32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %causal = pdc.node "MatMul" "causal"(%g1, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %causal into @one : tensor<2x2x3x4xf32>

  // Padding, too, behind which the first rows may be empty.
  // CHECK: pdc.node "SoftmaxAttention" "padded"(%[[Q]], %[[K]], %[[V]], %[[SEEN]], %[[RANDOM]]) {is_causal = 1 : i64, is_guarded = 1 : i64, key = 7 : i64, past = 0 : i64, ratio = 2.500000e-01 : f64, rows_first = array<i64: 0, 0, 0, 0>, samples = 2 : i64, scale = 1.000000e+00 : f64}
  %a2 = pdc.node "And" "a2"(%lower, %seen) {} : (tensor<1x1x3x3xi1>, tensor<2x1x1x3xi1>) -> tensor<2x1x3x3xi1>
  %e2 = pdc.node "Expand" "e2"(%a2, %repeated) {} : (tensor<2x1x3x3xi1>, tensor<4xi64>) -> tensor<2x1x3x3xi1>
  %m2 = pdc.node "Where" "m2"(%e2, %zero, %never) {} : (tensor<2x1x3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x3x3xf32>
  %qk2 = pdc.node "MatMul" "qk2"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %s2 = pdc.node "Add" "s2"(%qk2, %m2) {} : (tensor<2x2x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p2 = pdc.node "Softmax" "p2"(%s2) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %n2 = pdc.node "IsNaN" "n2"(%p2) {} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xi1>
  %g2 = pdc.node "Where" "g2"(%n2, %zero, %p2) {} : (tensor<2x2x3x3xi1>, tensor<f32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %d2 = pdc.node "Dropout" "d2"(%g2, %random) {key = 7 : i64, ratio = 0.25 : f64} : (tensor<2x2x3x3xf32>, tensor<4xi64>) -> tensor<2x2x3x3xf32>
  %padded = pdc.node "MatMul" "padded"(%d2, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %padded into @two : tensor<2x2x3x4xf32>

  // A mask that hides nothing is none.
  // CHECK: pdc.node "SoftmaxAttention" "seen"(%[[Q]], %[[K]], %[[V]]) {rows_first = array<i64: 0, 0, 0, 0>, scale = 1.000000e+00 : f64}
  %e3 = pdc.node "Expand" "e3"(%all, %repeated) {} : (tensor<1x1x3x1xi1>, tensor<4xi64>) -> tensor<2x1x3x3xi1>
  %m3 = pdc.node "Where" "m3"(%e3, %zero, %never) {} : (tensor<2x1x3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x3x3xf32>
  %qk3 = pdc.node "MatMul" "qk3"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %s3 = pdc.node "Add" "s3"(%qk3, %m3) {} : (tensor<2x2x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p3 = pdc.node "Softmax" "p3"(%s3) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %n3 = pdc.node "IsNaN" "n3"(%p3) {} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xi1>
  %g3 = pdc.node "Where" "g3"(%n3, %zero, %p3) {} : (tensor<2x2x3x3xi1>, tensor<f32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %seen3 = pdc.node "MatMul" "seen"(%g3, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %seen3 into @three : tensor<2x2x3x4xf32>

  // Another reads the shares before the guard.
  // CHECK: pdc.node "Softmax" "p5"
  %qk5 = pdc.node "MatMul" "qk5"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %p5 = pdc.node "Softmax" "p5"(%qk5) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %n5 = pdc.node "IsNaN" "n5"(%p5) {} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xi1>
  %g5 = pdc.node "Where" "g5"(%n5, %zero, %p5) {} : (tensor<2x2x3x3xi1>, tensor<f32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %read = pdc.node "MatMul" "read"(%g5, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %read into @four : tensor<2x2x3x4xf32>
  pdc.accumulate %p5 into @shares : tensor<2x2x3x3xf32>
  return
}
