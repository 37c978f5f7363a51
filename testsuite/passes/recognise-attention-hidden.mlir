// RUN: pdc-opt %s --recognise-composites --check-against=%s -o - | FileCheck %s

// Masks that say what is hidden, and numbers in place of what data hide.

pdc.memory @q input microbatch : tensor<2x2x3x4xf32>
pdc.memory @rows input microbatch : tensor<2x3x2x4xf32>
pdc.memory @k input microbatch : tensor<2x2x3x4xf32>
pdc.memory @v input microbatch : tensor<2x2x3x4xf32>
pdc.memory @seen input microbatch : tensor<2x1x3x3xi1>
pdc.memory @padding input microbatch : tensor<2x1x1x3xi1>
pdc.memory @flat input microbatch : tensor<4x3x3xi1>
pdc.memory @one metric update : tensor<2x2x3x4xf32>
pdc.memory @two metric update : tensor<2x2x3x4xf32>
pdc.memory @three metric update : tensor<2x2x3x4xf32>
pdc.memory @four metric update : tensor<2x2x3x4xf32>
pdc.memory @five metric update : tensor<2x2x3x4xf32>
pdc.memory @six metric update : tensor<4x3x4xf32>

// CHECK-LABEL: func.func @train
// CHECK-DAG: %[[Q:.*]] = pdc.read @q :
// CHECK-DAG: %[[ROWS:.*]] = pdc.read @rows :
// CHECK-DAG: %[[V:.*]] = pdc.read @v :
// CHECK-DAG: %[[SEEN:.*]] = pdc.read @seen :
// CHECK-DAG: %[[PADDING:.*]] = pdc.read @padding :
func.func @train() {
  %q = pdc.read @q : tensor<2x2x3x4xf32>
  %rows = pdc.read @rows : tensor<2x3x2x4xf32>
  %k = pdc.read @k : tensor<2x2x3x4xf32>
  %v = pdc.read @v : tensor<2x2x3x4xf32>
  %seen = pdc.read @seen : tensor<2x1x3x3xi1>
  %padding = pdc.read @padding : tensor<2x1x1x3xi1>
  %flat = pdc.read @flat : tensor<4x3x3xi1>
  %low = pdc.node "Constant" "low"() {value = dense<-1.0e+09> : tensor<f32>} : () -> tensor<f32>
  %never = pdc.node "Constant" "never"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
  %far = pdc.node "Constant" "far"() {value = dense<[[false, false, true], [false, false, false], [true, false, false]]> : tensor<3x3xi1>} : () -> tensor<3x3xi1>
  %later = pdc.node "Constant" "later"() {value = dense<[[false, true, true], [false, false, true], [false, false, false]]> : tensor<3x3xi1>} : () -> tensor<3x3xi1>
  %behind = pdc.node "Constant" "behind"() {value = dense<[false, true, true]> : tensor<3xi1>} : () -> tensor<3xi1>
  %kt = pdc.node "Transpose" "kt"(%k) {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x2x3x4xf32>) -> tensor<2x2x4x3xf32>

  // Equal shares for rows that see nothing: queries of zeros that see all.
  // CHECK: %[[NUMBERS:.*]] = pdc.node "Cast" "one/sees"(%[[SEEN]]) {to = 1 : i64}
  // CHECK: %[[MOST:.*]] = pdc.node "ReduceMax" {{.*}}(%[[NUMBERS]], %{{.*}}) {} : (tensor<2x1x3x3xf32>, tensor<1xi64>) -> tensor<2x1x3x1xf32>
  // CHECK: %[[SEES:.*]] = pdc.node "Cast" {{.*}}(%[[MOST]]) {to = 9 : i64}
  // CHECK: %[[UNSEEN:.*]] = pdc.node "Not" "one/unseen"(%[[SEES]])
  // CHECK: %[[OPEN:.*]] = pdc.node "Or" "one/open"(%[[SEEN]], %[[UNSEEN]])
  // CHECK: %[[QUERIES:.*]] = pdc.node "Where" "one/queries"(%[[SEES]], %[[Q]], %
  // CHECK: pdc.node "SoftmaxAttention" "one"(%[[QUERIES]], %{{[0-9a-z]*}}, %[[V]], %[[OPEN]]) {rows_first = array<i64: 0, 0, 0, 0>, scale = 1.000000e+00 : f64}
  %qk1 = pdc.node "MatMul" "qk1"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %m1 = pdc.node "Where" "m1"(%seen, %qk1, %low) {} : (tensor<2x1x3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %p1 = pdc.node "Softmax" "p1"(%m1) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %one = pdc.node "MatMul" "one"(%p1, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %one into @one : tensor<2x2x3x4xf32>

  // Padding that is hidden, and rows before heads.
  // CHECK: pdc.node "Not" "two/seen"(%[[PADDING]])
  // CHECK: pdc.node "Transpose" {{.*}} {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x1x1x1xi1>)
  // CHECK: %[[QUERIES2:.*]] = pdc.node "Where" "two/queries"(%{{[0-9a-z]*}}, %[[ROWS]], %
  // CHECK: pdc.node "SoftmaxAttention" "two"(%[[QUERIES2]], {{.*}} {rows_first = array<i64: 1, 0, 0, 0>, scale = 1.000000e+00 : f64}
  %q2 = pdc.node "Transpose" "q2"(%rows) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x2x4xf32>) -> tensor<2x2x3x4xf32>
  %qk2 = pdc.node "MatMul" "qk2"(%q2, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %m2 = pdc.node "Where" "m2"(%padding, %low, %qk2) {} : (tensor<2x1x1x3xi1>, tensor<f32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p2 = pdc.node "Softmax" "p2"(%m2) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %two = pdc.node "MatMul" "two"(%p2, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %two into @two : tensor<2x2x3x4xf32>

  // A constant that is not causal.
  // CHECK: %[[NEAR:.*]] = pdc.node "Not" "three/seen"
  // CHECK-NOT: "three/queries"
  // CHECK: pdc.node "SoftmaxAttention" "three"(%[[Q]], %{{[0-9a-z]*}}, %[[V]], %[[NEAR]])
  %qk3 = pdc.node "MatMul" "qk3"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %m3 = pdc.node "Where" "m3"(%far, %low, %qk3) {} : (tensor<3x3xi1>, tensor<f32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p3 = pdc.node "Softmax" "p3"(%m3) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %three = pdc.node "MatMul" "three"(%p3, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %three into @three : tensor<2x2x3x4xf32>

  // An infinite number hides what data say for good.
  // CHECK: %[[SEEN4:.*]] = pdc.node "Not" "four/seen"
  // CHECK: pdc.node "SoftmaxAttention" "four"(%[[Q]], %{{[0-9a-z]*}}, %[[V]], %[[SEEN4]]) {rows_first
  %hidden4 = pdc.node "And" "hidden4"(%seen, %far) {} : (tensor<2x1x3x3xi1>, tensor<3x3xi1>) -> tensor<2x1x3x3xi1>
  %qk4 = pdc.node "MatMul" "qk4"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %m4 = pdc.node "Where" "m4"(%hidden4, %never, %qk4) {} : (tensor<2x1x3x3xi1>, tensor<f32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p4 = pdc.node "Softmax" "p4"(%m4) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %four = pdc.node "MatMul" "four"(%p4, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %four into @four : tensor<2x2x3x4xf32>

  // What comes later, or is padded: the first is an attribute.
  // CHECK: %[[SEEN5:.*]] = pdc.node "Not" "five/seen"
  // CHECK: pdc.node "SoftmaxAttention" "five"(%[[Q]], %{{[0-9a-z]*}}, %[[V]], %[[SEEN5]]) {is_causal = 1 : i64, past = 0 : i64, rows_first
  %padded5 = pdc.node "And" "padded5"(%padding, %behind) {} : (tensor<2x1x1x3xi1>, tensor<3xi1>) -> tensor<2x1x1x3xi1>
  %hidden5 = pdc.node "Or" "hidden5"(%padded5, %later) {} : (tensor<2x1x1x3xi1>, tensor<3x3xi1>) -> tensor<2x1x3x3xi1>
  %qk5 = pdc.node "MatMul" "qk5"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %m5 = pdc.node "Where" "m5"(%hidden5, %never, %qk5) {} : (tensor<2x1x3x3xi1>, tensor<f32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p5 = pdc.node "Softmax" "p5"(%m5) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %five = pdc.node "MatMul" "five"(%p5, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %five into @five : tensor<2x2x3x4xf32>

  // Samples and heads are one dimension.
  // CHECK: pdc.node "Reshape" "six/sees{{.*}} : (tensor<4x3x1xi1>, tensor<4xi64>) -> tensor<1x4x3x1xi1>
  // CHECK: pdc.node "SoftmaxAttention" "six"
  %shape6 = pdc.node "Constant" "shape6"() {value = dense<[4, 3, 4]> : tensor<3xi64>} : () -> tensor<3xi64>
  %q6 = pdc.node "Reshape" "q6"(%q, %shape6) {} : (tensor<2x2x3x4xf32>, tensor<3xi64>) -> tensor<4x3x4xf32>
  %k6 = pdc.node "Reshape" "k6"(%k, %shape6) {} : (tensor<2x2x3x4xf32>, tensor<3xi64>) -> tensor<4x3x4xf32>
  %v6 = pdc.node "Reshape" "v6"(%v, %shape6) {} : (tensor<2x2x3x4xf32>, tensor<3xi64>) -> tensor<4x3x4xf32>
  %kt6 = pdc.node "Transpose" "kt6"(%k6) {perm = array<i64: 0, 2, 1>} : (tensor<4x3x4xf32>) -> tensor<4x4x3xf32>
  %qk6 = pdc.node "MatMul" "qk6"(%q6, %kt6) {} : (tensor<4x3x4xf32>, tensor<4x4x3xf32>) -> tensor<4x3x3xf32>
  %m6 = pdc.node "Where" "m6"(%flat, %low, %qk6) {} : (tensor<4x3x3xi1>, tensor<f32>, tensor<4x3x3xf32>) -> tensor<4x3x3xf32>
  %p6 = pdc.node "Softmax" "p6"(%m6) {axis = -1 : i64} : (tensor<4x3x3xf32>) -> tensor<4x3x3xf32>
  %six = pdc.node "MatMul" "six"(%p6, %v6) {} : (tensor<4x3x3xf32>, tensor<4x3x4xf32>) -> tensor<4x3x4xf32>
  pdc.accumulate %six into @six : tensor<4x3x4xf32>
  return
}
