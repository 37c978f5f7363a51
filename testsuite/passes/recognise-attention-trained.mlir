// RUN: pdc-opt %s --recognise-composites --check-against=%s -o - | FileCheck %s

// Masks that are made of weights, as T5's biases, where constants choose between them and a number that hides.

pdc.memory @q input microbatch : tensor<2x2x3x4xf32>
pdc.memory @k input microbatch : tensor<2x2x3x4xf32>
pdc.memory @v input microbatch : tensor<2x2x3x4xf32>
pdc.memory @given input microbatch : tensor<1x2x3x3xf32>
pdc.memory @table weight version : tensor<4x2xf32>
pdc.memory @one metric update : tensor<2x2x3x4xf32>
pdc.memory @two metric update : tensor<2x2x3x4xf32>
pdc.memory @three metric update : tensor<2x2x3x4xf32>
pdc.memory @four metric update : tensor<2x2x3x4xf32>

// CHECK-LABEL: func.func @train
// CHECK-DAG: %[[Q:.*]] = pdc.read @q :
// CHECK-DAG: %[[V:.*]] = pdc.read @v :
// CHECK-DAG: %[[GIVEN:.*]] = pdc.read @given :
func.func @train() {
  %q = pdc.read @q : tensor<2x2x3x4xf32>
  %k = pdc.read @k : tensor<2x2x3x4xf32>
  %v = pdc.read @v : tensor<2x2x3x4xf32>
  %given = pdc.read @given : tensor<1x2x3x3xf32>
  %table = pdc.weight_version @table latest : tensor<4x2xf32>
  %kt = pdc.node "Transpose" "kt"(%k) {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x2x3x4xf32>) -> tensor<2x2x4x3xf32>
  %low = pdc.node "Constant" "low"() {value = dense<-3.40282347E+38> : tensor<f32>} : () -> tensor<f32>
  %never = pdc.node "Constant" "never"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
  %all = pdc.node "Constant" "all"() {value = dense<true> : tensor<2x1x3x3xi1>} : () -> tensor<2x1x3x3xi1>
  %lower = pdc.node "Constant" "lower"() {value = dense<[[[[true, false, false], [true, true, false], [true, true, true]]]]> : tensor<1x1x3x3xi1>} : () -> tensor<1x1x3x3xi1>
  %whole = pdc.node "Constant" "whole"() {value = dense<[2, 1, 3, 3]> : tensor<4xi64>} : () -> tensor<4xi64>
  %before = pdc.node "Expand" "before"(%lower, %whole) {} : (tensor<1x1x3x3xi1>, tensor<4xi64>) -> tensor<2x1x3x3xi1>
  %buckets = pdc.node "Constant" "buckets"() {value = dense<[[0, 1, 2], [3, 0, 1], [2, 3, 0]]> : tensor<3x3xi64>} : () -> tensor<3x3xi64>
  %front = pdc.node "Constant" "front"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %found = pdc.node "Gather" "found"(%table, %buckets) {axis = 0 : i64} : (tensor<4x2xf32>, tensor<3x3xi64>) -> tensor<3x3x2xf32>
  %turned = pdc.node "Transpose" "turned"(%found) {perm = array<i64: 2, 0, 1>} : (tensor<3x3x2xf32>) -> tensor<2x3x3xf32>
  // CHECK: %[[BIAS:.*]] = pdc.node "Unsqueeze" "bias"
  %bias = pdc.node "Unsqueeze" "bias"(%turned, %front) {} : (tensor<2x3x3xf32>, tensor<1xi64>) -> tensor<1x2x3x3xf32>

  // All is seen: the bias alone, which is the same for all samples.
  // CHECK: pdc.node "SoftmaxAttention" "encoder"(%[[Q]], %{{[0-9a-z]*}}, %[[V]], %[[BIAS]]) {rows_first
  %m1 = pdc.node "Where" "m1"(%all, %bias, %low) {} : (tensor<2x1x3x3xi1>, tensor<1x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %s1 = pdc.node "MatMul" "s1"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %a1 = pdc.node "Add" "a1"(%s1, %m1) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p1 = pdc.node "Softmax" "p1"(%a1) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %encoder = pdc.node "MatMul" "encoder"(%p1, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %encoder into @one : tensor<2x2x3x4xf32>

  // What comes before is an attribute beside it.
  // CHECK: pdc.node "SoftmaxAttention" "decoder"(%[[Q]], %{{[0-9a-z]*}}, %[[V]], %[[BIAS]]) {is_causal = 1 : i64, past = 0 : i64, rows_first
  %m2 = pdc.node "Where" "m2"(%before, %bias, %low) {} : (tensor<2x1x3x3xi1>, tensor<1x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %s2 = pdc.node "MatMul" "s2"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %a2 = pdc.node "Add" "a2"(%s2, %m2) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p2 = pdc.node "Softmax" "p2"(%a2) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %decoder = pdc.node "MatMul" "decoder"(%p2, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %decoder into @two : tensor<2x2x3x4xf32>

  // Data may hide all that a finite number does not: then a row has shares of what comes later, too.
  // CHECK: %[[CHOSEN:.*]] = pdc.node "Where" "m3"
  // CHECK: pdc.node "SoftmaxAttention" "finite"(%[[Q]], %{{[0-9a-z]*}}, %[[V]], %[[CHOSEN]]) {rows_first
  %m3 = pdc.node "Where" "m3"(%before, %given, %low) {} : (tensor<2x1x3x3xi1>, tensor<1x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %s3 = pdc.node "MatMul" "s3"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %a3 = pdc.node "Add" "a3"(%s3, %m3) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p3 = pdc.node "Softmax" "p3"(%a3) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %finite = pdc.node "MatMul" "finite"(%p3, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %finite into @three : tensor<2x2x3x4xf32>

  // An infinite number hides for good, whatever is added.
  // CHECK: pdc.node "SoftmaxAttention" "infinite"(%[[Q]], %{{[0-9a-z]*}}, %[[V]], %[[GIVEN]]) {is_causal = 1 : i64, past = 0 : i64, rows_first
  %m4 = pdc.node "Where" "m4"(%before, %given, %never) {} : (tensor<2x1x3x3xi1>, tensor<1x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %s4 = pdc.node "MatMul" "s4"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %a4 = pdc.node "Add" "a4"(%s4, %m4) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p4 = pdc.node "Softmax" "p4"(%a4) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %infinite = pdc.node "MatMul" "infinite"(%p4, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %infinite into @four : tensor<2x2x3x4xf32>
  return
}
