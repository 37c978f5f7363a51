// RUN: pdc-opt %s --recognise-composites --check-against=%s -o - | FileCheck %s

// Constant masks that hide by several finite numbers: for good where each query sees its own key.

pdc.memory @q input microbatch : tensor<2x2x3x4xf32>
pdc.memory @k input microbatch : tensor<2x2x3x4xf32>
pdc.memory @v input microbatch : tensor<2x2x3x4xf32>
pdc.memory @one metric update : tensor<2x2x3x4xf32>
pdc.memory @two metric update : tensor<2x2x3x4xf32>
pdc.memory @three metric update : tensor<2x2x3x4xf32>
pdc.memory @four metric update : tensor<2x2x3x4xf32>
pdc.memory @five metric update : tensor<2x2x3x4xf32>

// CHECK-LABEL: func.func @train
// CHECK-DAG: %[[Q:.*]] = pdc.read @q :
// CHECK-DAG: %[[V:.*]] = pdc.read @v :
func.func @train() {
  %q = pdc.read @q : tensor<2x2x3x4xf32>
  %k = pdc.read @k : tensor<2x2x3x4xf32>
  %v = pdc.read @v : tensor<2x2x3x4xf32>
  %low = pdc.node "Constant" "low"() {value = dense<-3.40282347e+38> : tensor<f32>} : () -> tensor<f32>
  %causal = pdc.node "Constant" "causal"() {value = dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>} : () -> tensor<3x3xi1>
  // CHECK-DAG: %[[NEAR:.*]] = pdc.node "Constant" "near"
  %near = pdc.node "Constant" "near"() {value = dense<[[true, true, false], [true, true, true], [false, true, true]]> : tensor<3x3xi1>} : () -> tensor<3x3xi1>
  %ahead = pdc.node "Constant" "ahead"() {value = dense<[[true, true, false], [true, true, true], [true, true, true]]> : tensor<3x3xi1>} : () -> tensor<3x3xi1>
  %others = pdc.node "Constant" "others"() {value = dense<[[false, true, true], [true, false, true], [true, true, false]]> : tensor<3x3xi1>} : () -> tensor<3x3xi1>
  %past = pdc.node "Constant" "past"() {value = dense<[[0.0, -3.40282347e+38, -3.40282347e+38], [0.0, 0.0, -3.40282347e+38], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>} : () -> tensor<3x3xf32>
  %kt = pdc.node "Transpose" "kt"(%k) {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x2x3x4xf32>) -> tensor<2x2x4x3xf32>

  // A causal mask of a layer, and one of its network.
  // CHECK: pdc.node "SoftmaxAttention" "one"(%[[Q]], %{{[0-9a-z]*}}, %[[V]]) {{{.*}}past = 0 : i64
  %qk1 = pdc.node "MatMul" "qk1"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %m1 = pdc.node "Where" "m1"(%causal, %qk1, %low) {} : (tensor<3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %s1 = pdc.node "Add" "s1"(%m1, %past) {} : (tensor<2x2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x2x3x3xf32>
  %p1 = pdc.node "Softmax" "p1"(%s1) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %one = pdc.node "MatMul" "one"(%p1, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %one into @one : tensor<2x2x3x4xf32>

  // A window.
  // CHECK: pdc.node "SoftmaxAttention" "two"(%[[Q]], %{{[0-9a-z]*}}, %[[V]], %[[NEAR]]) {{{.*}}past = 0 : i64
  %qk2 = pdc.node "MatMul" "qk2"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %m2 = pdc.node "Where" "m2"(%near, %qk2, %low) {} : (tensor<3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %s2 = pdc.node "Add" "s2"(%m2, %past) {} : (tensor<2x2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x2x3x3xf32>
  %p2 = pdc.node "Softmax" "p2"(%s2) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %two = pdc.node "MatMul" "two"(%p2, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %two into @two : tensor<2x2x3x4xf32>

  // Of two masks of what comes before, the one that shows less, whichever is first.
  // CHECK: pdc.node "SoftmaxAttention" "four"(%[[Q]], %{{[0-9a-z]*}}, %[[V]]) {{{.*}}past = 0 : i64
  %qk4 = pdc.node "MatMul" "qk4"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %m4 = pdc.node "Where" "m4"(%ahead, %qk4, %low) {} : (tensor<3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %s4 = pdc.node "Add" "s4"(%m4, %past) {} : (tensor<2x2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x2x3x3xf32>
  %p4 = pdc.node "Softmax" "p4"(%s4) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %four = pdc.node "MatMul" "four"(%p4, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %four into @four : tensor<2x2x3x4xf32>

  // In the other order.
  // CHECK: pdc.node "SoftmaxAttention" "five"(%[[Q]], %{{[0-9a-z]*}}, %[[V]]) {{{.*}}past = 0 : i64
  %qk5 = pdc.node "MatMul" "qk5"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %m5 = pdc.node "Add" "m5"(%qk5, %past) {} : (tensor<2x2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x2x3x3xf32>
  %s5 = pdc.node "Where" "s5"(%ahead, %m5, %low) {} : (tensor<3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %p5 = pdc.node "Softmax" "p5"(%s5) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %five = pdc.node "MatMul" "five"(%p5, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %five into @five : tensor<2x2x3x4xf32>

  // The first query sees nothing by both, and so all, by numbers that differ.
  // CHECK-NOT: pdc.node "SoftmaxAttention" "three"
  %qk3 = pdc.node "MatMul" "qk3"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %m3 = pdc.node "Where" "m3"(%others, %qk3, %low) {} : (tensor<3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %s3 = pdc.node "Add" "s3"(%m3, %past) {} : (tensor<2x2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x2x3x3xf32>
  %p3 = pdc.node "Softmax" "p3"(%s3) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %three = pdc.node "MatMul" "three"(%p3, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %three into @three : tensor<2x2x3x4xf32>
  return
}
