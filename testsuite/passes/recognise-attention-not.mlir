// RUN: pdc-opt %s --recognise-composites --check-against=%s -o - | FileCheck %s
// RUN: pdc-opt %s --recognise-composites -o /dev/null 2>&1 | FileCheck %s --check-prefix=TOLD

// TOLD-DAG: warning: the attention that ends at 'y4' is computed as two products and a softmax, whose scores are written and kept for the backward pass, rather than by one kernel: its softmax 'p4' does not go over the last dimension
// TOLD-DAG: warning: the attention that ends at 'y3' (and 6 like it) is {{.*}}: its masks are multiplied by a temperature, or hide a row's keys together where one of them does so by a finite number
// TOLD-DAG: warning: the attention that ends at 'y10' (and 1 like it) is {{.*}}: how its heads lie has no form that it knows
// TOLD-DAG: warning: the attention that ends at 'y1' (and 1 like it) is {{.*}}: its shares, which 'p1' makes, have other readers, too

pdc.memory @q input microbatch : tensor<2x2x3x4xf32>
pdc.memory @k input microbatch : tensor<2x2x3x4xf32>
pdc.memory @v input microbatch : tensor<2x2x3x4xf32>
pdc.memory @seen input microbatch : tensor<2x1x3x3xi1>
pdc.memory @padding input microbatch : tensor<2x1x1x3xf32>
pdc.memory @one metric update : tensor<2x2x3x4xf32>
pdc.memory @two metric update : tensor<2x2x3x4xf32>
pdc.memory @three metric update : tensor<2x2x3x4xf32>
pdc.memory @four metric update : tensor<2x2x3x4xf32>
pdc.memory @six metric update : tensor<2x2x3x4xf32>
pdc.memory @seven metric update : tensor<2x2x3x4xf32>
pdc.memory @nine metric update : tensor<2x2x3x4xf32>
pdc.memory @ten metric update : tensor<2x2x3x4xf32>
pdc.memory @single input microbatch : tensor<2x1x3x4xf32>
pdc.memory @shares metric update : tensor<2x2x3x3xf32>
pdc.memory @scores metric update : tensor<2x2x3x3xf32>
pdc.memory @faint metric update : tensor<2x2x3x4xf32>
pdc.memory @product metric update : tensor<2x2x3x4xf32>
pdc.memory @none input microbatch : tensor<0x2x3x4xf32>
pdc.memory @none_y metric update : tensor<0x2x3x4xf32>
pdc.memory @other metric update : tensor<2x2x3x4xf32>

// CHECK-LABEL: func.func @train
// CHECK-NOT: SoftmaxAttention
func.func @train() {
  %q = pdc.read @q : tensor<2x2x3x4xf32>
  %k = pdc.read @k : tensor<2x2x3x4xf32>
  %v = pdc.read @v : tensor<2x2x3x4xf32>
  %seen = pdc.read @seen : tensor<2x1x3x3xi1>
  %padding = pdc.read @padding : tensor<2x1x1x3xf32>
  %two = pdc.node "Constant" "two"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %low = pdc.node "Constant" "low"() {value = dense<-1.0e+09> : tensor<f32>} : () -> tensor<f32>
  %never = pdc.node "Constant" "never"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
  %lower = pdc.node "Constant" "lower"() {value = dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>} : () -> tensor<3x3xi1>
  %later = pdc.node "Constant" "later"() {value = dense<[[false, true, true], [false, true, true], [false, true, true]]> : tensor<3x3xi1>} : () -> tensor<3x3xi1>
  %kt = pdc.node "Transpose" "kt"(%k) {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x2x3x4xf32>) -> tensor<2x2x4x3xf32>

  // Shares that another reads.
  %qk1 = pdc.node "MatMul" "qk1"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %p1 = pdc.node "Softmax" "p1"(%qk1) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y1 = pdc.node "MatMul" "y1"(%p1, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %p1 into @shares : tensor<2x2x3x3xf32>
  pdc.accumulate %y1 into @one : tensor<2x2x3x4xf32>
  // Scores that another reads.
  %qk2 = pdc.node "MatMul" "qk2"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %s2 = pdc.node "Div" "s2"(%qk2, %two) {} : (tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  pdc.accumulate %s2 into @scores : tensor<2x2x3x3xf32>
  %p2 = pdc.node "Softmax" "p2"(%s2) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y2 = pdc.node "MatMul" "y2"(%p2, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %y2 into @two : tensor<2x2x3x4xf32>
  // A second mask, behind one whose finite number may hide whole rows: they have shares of what it shows.
  %qk3 = pdc.node "MatMul" "qk3"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %a3 = pdc.node "Add" "a3"(%qk3, %padding) {} : (tensor<2x2x3x3xf32>, tensor<2x1x1x3xf32>) -> tensor<2x2x3x3xf32>
  %m3 = pdc.node "Where" "m3"(%seen, %a3, %low) {} : (tensor<2x1x3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %p3 = pdc.node "Softmax" "p3"(%m3) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y3 = pdc.node "MatMul" "y3"(%p3, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %y3 into @three : tensor<2x2x3x4xf32>
  // Shares over queries.
  %qk4 = pdc.node "MatMul" "qk4"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %p4 = pdc.node "Softmax" "p4"(%qk4) {axis = 2 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y4 = pdc.node "MatMul" "y4"(%p4, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %y4 into @four : tensor<2x2x3x4xf32>
  // Keys that a finite number hides from a row whose others are all padded have shares here, and none in attention.
  %qk6 = pdc.node "MatMul" "qk6"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %m6 = pdc.node "Where" "m6"(%lower, %qk6, %low) {} : (tensor<3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %n6 = pdc.node "Add" "n6"(%m6, %padding) {} : (tensor<2x2x3x3xf32>, tensor<2x1x1x3xf32>) -> tensor<2x2x3x3xf32>
  %p6 = pdc.node "Softmax" "p6"(%n6) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y6 = pdc.node "MatMul" "y6"(%p6, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %y6 into @six : tensor<2x2x3x4xf32>
  // The same where the sum comes before the choice.
  %qk7 = pdc.node "MatMul" "qk7"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %m7 = pdc.node "Add" "m7"(%qk7, %padding) {} : (tensor<2x2x3x3xf32>, tensor<2x1x1x3xf32>) -> tensor<2x2x3x3xf32>
  %n7 = pdc.node "Where" "n7"(%lower, %m7, %low) {} : (tensor<3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %p7 = pdc.node "Softmax" "p7"(%n7) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y7 = pdc.node "MatMul" "y7"(%p7, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %y7 into @seven : tensor<2x2x3x4xf32>
  // Such a row under an infinite number: its shares are numbers here, and none in attention.
  %qk9 = pdc.node "MatMul" "qk9"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %m9 = pdc.node "Where" "m9"(%lower, %qk9, %low) {} : (tensor<3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %n9 = pdc.node "Where" "n9"(%later, %m9, %never) {} : (tensor<3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %p9 = pdc.node "Softmax" "p9"(%n9) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y9 = pdc.node "MatMul" "y9"(%p9, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %y9 into @nine : tensor<2x2x3x4xf32>
  // Queries of one head, keys and values that are repeated for several.
  %single = pdc.read @single : tensor<2x1x3x4xf32>
  %heads = pdc.node "Constant" "heads"() {value = dense<[2, 2, 3, 4]> : tensor<4xi64>} : () -> tensor<4xi64>
  %repeated = pdc.node "Expand" "repeated"(%single, %heads) {} : (tensor<2x1x3x4xf32>, tensor<4xi64>) -> tensor<2x2x3x4xf32>
  %kt10 = pdc.node "Transpose" "kt10"(%repeated) {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x2x3x4xf32>) -> tensor<2x2x4x3xf32>
  %qk10 = pdc.node "MatMul" "qk10"(%single, %kt10) {} : (tensor<2x1x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %p10 = pdc.node "Softmax" "p10"(%qk10) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y10 = pdc.node "MatMul" "y10"(%p10, %repeated) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %y10 into @ten : tensor<2x2x3x4xf32>

  // A number that hides no more once a small factor has made it faint.
  %low4 = pdc.node "Constant" "low4"() {value = dense<-1.0e+04> : tensor<f32>} : () -> tensor<f32>
  %small = pdc.node "Constant" "small"() {value = dense<9.99999974E-5> : tensor<f32>} : () -> tensor<f32>
  %faint_qk = pdc.node "MatMul" "faint_qk"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %faint_a = pdc.node "Where" "faint_a"(%lower, %faint_qk, %low4) {} : (tensor<3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %faint_b = pdc.node "Mul" "faint_b"(%faint_a, %small) {} : (tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %faint_p = pdc.node "Softmax" "faint_p"(%faint_b) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %faint = pdc.node "MatMul" "faint"(%faint_p, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %faint into @faint : tensor<2x2x3x4xf32>

  // Products that may hide, under a finite number.
  %far = pdc.node "Constant" "far"() {value = dense<-3.0e+09> : tensor<3x1xf32>} : () -> tensor<3x1xf32>
  %outer = pdc.node "MatMul" "outer"(%far, %padding) {} : (tensor<3x1xf32>, tensor<2x1x1x3xf32>) -> tensor<2x1x3x3xf32>
  %product_qk = pdc.node "MatMul" "product_qk"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %product_a = pdc.node "Add" "product_a"(%product_qk, %outer) {} : (tensor<2x2x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x2x3x3xf32>
  %product_b = pdc.node "Where" "product_b"(%lower, %product_a, %low) {} : (tensor<3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %product_p = pdc.node "Softmax" "product_p"(%product_b) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %product = pdc.node "MatMul" "product"(%product_p, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %product into @product : tensor<2x2x3x4xf32>

  // Heads of no sample.
  %none = pdc.read @none : tensor<0x2x3x4xf32>
  %none_t = pdc.node "Transpose" "none_t"(%none) {perm = array<i64: 0, 1, 3, 2>} : (tensor<0x2x3x4xf32>) -> tensor<0x2x4x3xf32>
  %none_qk = pdc.node "MatMul" "none_qk"(%none, %none_t) {} : (tensor<0x2x3x4xf32>, tensor<0x2x4x3xf32>) -> tensor<0x2x3x3xf32>
  %none_p = pdc.node "Softmax" "none_p"(%none_qk) {axis = -1 : i64} : (tensor<0x2x3x3xf32>) -> tensor<0x2x3x3xf32>
  %none_y = pdc.node "MatMul" "none_y"(%none_p, %none) {} : (tensor<0x2x3x3xf32>, tensor<0x2x3x4xf32>) -> tensor<0x2x3x4xf32>
  pdc.accumulate %none_y into @none_y : tensor<0x2x3x4xf32>

  // Nor may what is made of them in other ways.
  %factor = pdc.node "Constant" "factor"() {value = dense<3.0e+09> : tensor<f32>} : () -> tensor<f32>
  %hiding = pdc.node "Mul" "hiding"(%padding, %factor) {} : (tensor<2x1x1x3xf32>, tensor<f32>) -> tensor<2x1x1x3xf32>
  %ones = pdc.node "Constant" "ones"() {value = dense<1.0> : tensor<3x1xf32>} : () -> tensor<3x1xf32>
  %away = pdc.node "Neg" "away"(%hiding) {} : (tensor<2x1x1x3xf32>) -> tensor<2x1x1x3xf32>
  %spread = pdc.node "MatMul" "spread"(%ones, %away) {} : (tensor<3x1xf32>, tensor<2x1x1x3xf32>) -> tensor<2x1x3x3xf32>
  %other_qk = pdc.node "MatMul" "other_qk"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %other_a = pdc.node "Add" "other_a"(%other_qk, %spread) {} : (tensor<2x2x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x2x3x3xf32>
  %other_b = pdc.node "Where" "other_b"(%lower, %other_a, %low) {} : (tensor<3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %other_p = pdc.node "Softmax" "other_p"(%other_b) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %other = pdc.node "MatMul" "other"(%other_p, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %other into @other : tensor<2x2x3x4xf32>
  return
}
