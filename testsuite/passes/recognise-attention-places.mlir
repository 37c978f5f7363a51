// RUN: pdc-opt %s --recognise-composites --check-against=%s -o - | FileCheck %s

// Masks that compare places, as those of long sequences are, which are not evaluated: what they hide is known all the same.

pdc.memory @q input microbatch : tensor<2x2x4x4xf32>
pdc.memory @k input microbatch : tensor<2x2x4x4xf32>
pdc.memory @v input microbatch : tensor<2x2x4x4xf32>
pdc.memory @padding input microbatch : tensor<2x1x1x4xi1>
pdc.memory @one metric update : tensor<2x2x4x4xf32>
pdc.memory @two metric update : tensor<2x2x4x4xf32>
pdc.memory @three metric update : tensor<2x2x4x4xf32>
pdc.memory @four metric update : tensor<2x2x4x4xf32>
pdc.memory @five metric update : tensor<2x2x4x4xf32>
pdc.memory @six metric update : tensor<2x2x4x4xf32>
pdc.memory @seven metric update : tensor<2x2x4x4xf32>

// CHECK-LABEL: func.func @train
// CHECK-DAG: %[[Q:.*]] = pdc.read @q :
// CHECK-DAG: %[[V:.*]] = pdc.read @v :
// CHECK-DAG: %[[PADDING:.*]] = pdc.read @padding :
func.func @train() {
  %q = pdc.read @q : tensor<2x2x4x4xf32>
  %k = pdc.read @k : tensor<2x2x4x4xf32>
  %v = pdc.read @v : tensor<2x2x4x4xf32>
  %padding = pdc.read @padding : tensor<2x1x1x4xi1>
  %kt = pdc.node "Transpose" "kt"(%k) {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %zero = pdc.node "Constant" "zero"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %low = pdc.node "Constant" "low"() {value = dense<-3.40282347E+38> : tensor<f32>} : () -> tensor<f32>
  %never = pdc.node "Constant" "never"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
  %column = pdc.node "Constant" "column"() {value = dense<[0, 1, 2, 3]> : tensor<4xi64>} : () -> tensor<4xi64>
  %row = pdc.node "Constant" "row"() {value = dense<[[0], [1], [2], [3]]> : tensor<4x1xi64>} : () -> tensor<4x1xi64>
  %whole = pdc.node "Constant" "whole"() {value = dense<[2, 1, 4, 4]> : tensor<4xi64>} : () -> tensor<4xi64>
  %apart = pdc.node "Constant" "apart"() {value = dense<[1, 1, 4, 4]> : tensor<4xi64>} : () -> tensor<4xi64>
  %all = pdc.node "Constant" "all"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>

  // Hugging Face's Llama by the dynamo exporter: flags for all samples, of which numbers are made, of which the hidden one is finite.
  // CHECK: pdc.node "SoftmaxAttention" "llama"(%[[Q]], %{{[0-9a-z]*}}, %[[V]]) {is_causal = 1 : i64, past = 0 : i64, rows_first
  %le = pdc.node "LessOrEqual" "le"(%column, %row) {} : (tensor<4xi64>, tensor<4x1xi64>) -> tensor<4x4xi1>
  %all4 = pdc.node "Expand" "all4"(%all, %apart) {} : (tensor<i1>, tensor<4xi64>) -> tensor<1x1x4x4xi1>
  %both = pdc.node "And" "and"(%all4, %le) {} : (tensor<1x1x4x4xi1>, tensor<4x4xi1>) -> tensor<1x1x4x4xi1>
  %samples = pdc.node "Expand" "samples"(%both, %whole) {} : (tensor<1x1x4x4xi1>, tensor<4xi64>) -> tensor<2x1x4x4xi1>
  %added = pdc.node "Where" "added"(%samples, %zero, %low) {} : (tensor<2x1x4x4xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x4x4xf32>
  %s1 = pdc.node "MatMul" "s1"(%q, %kt) {} : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %m1 = pdc.node "Add" "m1"(%s1, %added) {} : (tensor<2x2x4x4xf32>, tensor<2x1x4x4xf32>) -> tensor<2x2x4x4xf32>
  %p1 = pdc.node "Softmax" "p1"(%m1) {axis = -1 : i64} : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %llama = pdc.node "MatMul" "llama"(%p1, %v) {} : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  pdc.accumulate %llama into @one : tensor<2x2x4x4xf32>

  // Places are subtracted; each query sees one key beyond its own.
  // CHECK: pdc.node "SoftmaxAttention" "past"(%[[Q]], %{{[0-9a-z]*}}, %[[V]]) {is_causal = 1 : i64, past = 1 : i64, rows_first
  %one_ = pdc.node "Constant" "one_"() {value = dense<1> : tensor<i64>} : () -> tensor<i64>
  %ahead = pdc.node "Sub" "ahead"(%column, %row) {} : (tensor<4xi64>, tensor<4x1xi64>) -> tensor<4x4xi64>
  %beyond = pdc.node "Greater" "beyond"(%ahead, %one_) {} : (tensor<4x4xi64>, tensor<i64>) -> tensor<4x4xi1>
  %s2 = pdc.node "MatMul" "s2"(%q, %kt) {} : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %m2 = pdc.node "Where" "m2"(%beyond, %low, %s2) {} : (tensor<4x4xi1>, tensor<f32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %p2 = pdc.node "Softmax" "p2"(%m2) {axis = -1 : i64} : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %past = pdc.node "MatMul" "past"(%p2, %v) {} : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  pdc.accumulate %past into @two : tensor<2x2x4x4xf32>

  // A sliding window, of which a finite number may hide the rest, since a query sees itself. What comes later need not be read.
  // CHECK: %[[WINDOW:.*]] = pdc.node "And" "window"
  // CHECK: pdc.node "SoftmaxAttention" "sliding"(%[[Q]], %{{[0-9a-z]*}}, %[[V]], %[[WINDOW]]) {is_causal = 1 : i64, past = 0 : i64, rows_first
  %minus = pdc.node "Constant" "minus"() {value = dense<-2> : tensor<i64>} : () -> tensor<i64>
  %near = pdc.node "Greater" "near"(%ahead, %minus) {} : (tensor<4x4xi64>, tensor<i64>) -> tensor<4x4xi1>
  %window = pdc.node "And" "window"(%le, %near) {} : (tensor<4x4xi1>, tensor<4x4xi1>) -> tensor<4x4xi1>
  %s3 = pdc.node "MatMul" "s3"(%q, %kt) {} : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %m3 = pdc.node "Where" "m3"(%window, %s3, %low) {} : (tensor<4x4xi1>, tensor<2x2x4x4xf32>, tensor<f32>) -> tensor<2x2x4x4xf32>
  %p3 = pdc.node "Softmax" "p3"(%m3) {axis = -1 : i64} : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %sliding = pdc.node "MatMul" "sliding"(%p3, %v) {} : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  pdc.accumulate %sliding into @three : tensor<2x2x4x4xf32>

  // What data hide beside what comes later, for good.
  // CHECK: pdc.node "SoftmaxAttention" "padded"(%[[Q]], %{{[0-9a-z]*}}, %[[V]], %[[PADDING]]) {is_causal = 1 : i64, is_guarded = 1 : i64, past = 0 : i64, rows_first
  %padded_ = pdc.node "And" "padded_"(%both, %padding) {} : (tensor<1x1x4x4xi1>, tensor<2x1x1x4xi1>) -> tensor<2x1x4x4xi1>
  %s4 = pdc.node "MatMul" "s4"(%q, %kt) {} : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %m4 = pdc.node "Where" "m4"(%padded_, %s4, %never) {} : (tensor<2x1x4x4xi1>, tensor<2x2x4x4xf32>, tensor<f32>) -> tensor<2x2x4x4xf32>
  %p4 = pdc.node "Softmax" "p4"(%m4) {axis = -1 : i64} : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %g4 = pdc.node "IsNaN" "g4"(%p4) {} : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xi1>
  %c4 = pdc.node "Where" "c4"(%g4, %zero, %p4) {} : (tensor<2x2x4x4xi1>, tensor<f32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %padded = pdc.node "MatMul" "padded"(%c4, %v) {} : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  pdc.accumulate %padded into @four : tensor<2x2x4x4xf32>

  // A view of flags that hide nothing.
  // CHECK: pdc.node "SoftmaxAttention" "open"(%[[Q]], %{{[0-9a-z]*}}, %[[V]]) {rows_first
  %zero_ = pdc.node "Constant" "zero_"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
  %ge = pdc.node "GreaterOrEqual" "ge"(%column, %zero_) {} : (tensor<4xi64>, tensor<i64>) -> tensor<4xi1>
  %sizes = pdc.node "Constant" "sizes"() {value = dense<[1, 1, 1, 4]> : tensor<4xi64>} : () -> tensor<4xi64>
  %seen = pdc.node "Reshape" "seen"(%ge, %sizes) {} : (tensor<4xi1>, tensor<4xi64>) -> tensor<1x1x1x4xi1>
  %s5 = pdc.node "MatMul" "s5"(%q, %kt) {} : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %m5 = pdc.node "Where" "m5"(%seen, %s5, %low) {} : (tensor<1x1x1x4xi1>, tensor<2x2x4x4xf32>, tensor<f32>) -> tensor<2x2x4x4xf32>
  %p5 = pdc.node "Softmax" "p5"(%m5) {axis = -1 : i64} : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %open = pdc.node "MatMul" "open"(%p5, %v) {} : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  pdc.accumulate %open into @five : tensor<2x2x4x4xf32>

  // The first query sees no key, and a finite number gives it all of them.
  // CHECK: %[[QUERIES:.*]] = pdc.node "Where" "unseen/queries"(%{{[0-9a-z]*}}, %[[Q]], %
  // CHECK: pdc.node "SoftmaxAttention" "unseen"(%[[QUERIES]], %{{[0-9a-z]*}}, %[[V]], %{{[0-9a-z]*}}) {rows_first
  %less = pdc.node "Less" "less"(%column, %row) {} : (tensor<4xi64>, tensor<4x1xi64>) -> tensor<4x4xi1>
  %s6 = pdc.node "MatMul" "s6"(%q, %kt) {} : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %m6 = pdc.node "Where" "m6"(%less, %s6, %low) {} : (tensor<4x4xi1>, tensor<2x2x4x4xf32>, tensor<f32>) -> tensor<2x2x4x4xf32>
  %p6 = pdc.node "Softmax" "p6"(%m6) {axis = -1 : i64} : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %unseen = pdc.node "MatMul" "unseen"(%p6, %v) {} : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  pdc.accumulate %unseen into @six : tensor<2x2x4x4xf32>

  // Numbers that are added and hide nothing, in steps: a mask as it is.
  // CHECK: %[[SLOPES:.*]] = pdc.node "Cast" "slopes"
  // CHECK: pdc.node "SoftmaxAttention" "alibi"(%[[Q]], %{{[0-9a-z]*}}, %[[V]], %[[SLOPES]]) {rows_first
  %slopes = pdc.node "Cast" "slopes"(%ahead) {to = 1 : i64} : (tensor<4x4xi64>) -> tensor<4x4xf32>
  %s7 = pdc.node "MatMul" "s7"(%q, %kt) {} : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %m7 = pdc.node "Add" "m7"(%s7, %slopes) {} : (tensor<2x2x4x4xf32>, tensor<4x4xf32>) -> tensor<2x2x4x4xf32>
  %p7 = pdc.node "Softmax" "p7"(%m7) {axis = -1 : i64} : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %alibi = pdc.node "MatMul" "alibi"(%p7, %v) {} : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  pdc.accumulate %alibi into @seven : tensor<2x2x4x4xf32>
  return
}
