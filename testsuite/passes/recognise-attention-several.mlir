// RUN: pdc-opt %s --recognise-composites --check-against=%s -o - | FileCheck %s

// Scores of which several masks tell: they are joined to one before the attention.

pdc.memory @q input microbatch : tensor<2x2x3x4xf32>
pdc.memory @k input microbatch : tensor<2x2x3x4xf32>
pdc.memory @v input microbatch : tensor<2x2x3x4xf32>
pdc.memory @padding input microbatch : tensor<2x1x1x3xf32>
pdc.memory @full input microbatch : tensor<2x1x3x3xf32>
pdc.memory @seen input microbatch : tensor<2x1x3x3xi1>
pdc.memory @keys input microbatch : tensor<2x1x1x3xi1>
pdc.memory @bias weight version : tensor<2x3x3xf32>
pdc.memory @sum metric update : tensor<2x2x3x4xf32>
pdc.memory @flags metric update : tensor<2x2x3x4xf32>
pdc.memory @scaled metric update : tensor<2x2x3x4xf32>
pdc.memory @equal metric update : tensor<2x2x3x4xf32>
pdc.memory @finite metric update : tensor<2x2x3x4xf32>
pdc.memory @away metric update : tensor<2x2x3x4xf32>
pdc.memory @faint metric update : tensor<2x2x3x4xf32>
pdc.memory @choice metric update : tensor<2x2x3x4xf32>

// CHECK-LABEL: func.func @train
// CHECK-DAG: %[[Q:.*]] = pdc.read @q
// CHECK-DAG: %[[V:.*]] = pdc.read @v
// CHECK-DAG: %[[PADDING:.*]] = pdc.read @padding
// CHECK-DAG: %[[FULL:.*]] = pdc.read @full
// CHECK-DAG: %[[BIAS:.*]] = pdc.weight_version @bias
// CHECK-DAG: %[[UPPER:.*]] = pdc.node "Constant" "upper"
func.func @train() {
  %q = pdc.read @q : tensor<2x2x3x4xf32>
  %k = pdc.read @k : tensor<2x2x3x4xf32>
  %v = pdc.read @v : tensor<2x2x3x4xf32>
  %padding = pdc.read @padding : tensor<2x1x1x3xf32>
  %full = pdc.read @full : tensor<2x1x3x3xf32>
  %seen = pdc.read @seen : tensor<2x1x3x3xi1>
  %keys = pdc.read @keys : tensor<2x1x1x3xi1>
  %bias = pdc.weight_version @bias latest : tensor<2x3x3xf32>
  %two = pdc.node "Constant" "two"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %low = pdc.node "Constant" "low"() {value = dense<-1.0e+09> : tensor<f32>} : () -> tensor<f32>
  %never = pdc.node "Constant" "never"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
  %kt = pdc.node "Transpose" "kt"(%k) {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x2x3x4xf32>) -> tensor<2x2x4x3xf32>
  %later = pdc.node "Constant" "later"() {value = dense<[[false, true, true], [false, true, true], [false, true, true]]> : tensor<3x3xi1>} : () -> tensor<3x3xi1>
  %upper = pdc.node "Constant" "upper"() {value = dense<[[0.0, -1.0e+09, -1.0e+09], [0.0, 0.0, -1.0e+09], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>} : () -> tensor<3x3xf32>
  %first = pdc.node "Constant" "first"() {value = dense<[true, false, false]> : tensor<3xi1>} : () -> tensor<3xi1>
  %rows_seen = pdc.node "Or" "rows_seen"(%seen, %first) {} : (tensor<2x1x3x3xi1>, tensor<3xi1>) -> tensor<2x1x3x3xi1>
  %keys_seen = pdc.node "Or" "keys_seen"(%keys, %first) {} : (tensor<2x1x1x3xi1>, tensor<3xi1>) -> tensor<2x1x1x3xi1>

  // Numbers of two kinds.
  // CHECK: %[[SUM:.*]] = pdc.node "Add" "sum/mask"(%[[PADDING]], %[[BIAS]])
  // CHECK: pdc.node "SoftmaxAttention" "sum"(%[[Q]], %{{[0-9a-z]*}}, %[[V]], %[[SUM]]) {rows_first = array<i64: 0, 0, 0, 0>, scale = 1.000000e+00 : f64}
  %sum_qk = pdc.node "MatMul" "sum_qk"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %sum_a = pdc.node "Add" "sum_a"(%sum_qk, %bias) {} : (tensor<2x2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %sum_b = pdc.node "Add" "sum_b"(%sum_a, %padding) {} : (tensor<2x2x3x3xf32>, tensor<2x1x1x3xf32>) -> tensor<2x2x3x3xf32>
  %sum_p = pdc.node "Softmax" "sum_p"(%sum_b) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %sum = pdc.node "MatMul" "sum"(%sum_p, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %sum into @sum : tensor<2x2x3x4xf32>

  // Numbers, and flags for good; of flags there may be several.
  // CHECK: %[[SEEN:.*]] = pdc.node "And" "flags/seen"
  // CHECK: %[[NEVER:.*]] = pdc.node "Constant" "flags/never"() {value = dense<0xFF800000>
  // CHECK: %[[HIDDEN:.*]] = pdc.node "Where" "flags/mask"(%[[SEEN]], %[[PADDING]], %[[NEVER]])
  // CHECK: pdc.node "SoftmaxAttention" "flags"(%[[Q]], %{{[0-9a-z]*}}, %[[V]], %[[HIDDEN]])
  %flags_qk = pdc.node "MatMul" "flags_qk"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %flags_a = pdc.node "Add" "flags_a"(%flags_qk, %padding) {} : (tensor<2x2x3x3xf32>, tensor<2x1x1x3xf32>) -> tensor<2x2x3x3xf32>
  %flags_b = pdc.node "Where" "flags_b"(%rows_seen, %flags_a, %never) {} : (tensor<2x1x3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %flags_c = pdc.node "Where" "flags_c"(%keys_seen, %flags_b, %never) {} : (tensor<2x1x1x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %flags_p = pdc.node "Softmax" "flags_p"(%flags_c) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %flags = pdc.node "MatMul" "flags"(%flags_p, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %flags into @flags : tensor<2x2x3x4xf32>

  // Numbers that are scaled with the scores, and such as are taken away.
  // CHECK: %[[TWICE:.*]] = pdc.node "Constant" {{.*}} dense<2.000000e+00>
  // CHECK: pdc.node "Mul" "scaled/mask"(%[[PADDING]], %[[TWICE]])
  // CHECK: %[[AWAY:.*]] = pdc.node "Constant" {{.*}} dense<-2.000000e+00>
  // CHECK: pdc.node "Mul" {{.*}}(%[[FULL]], %[[AWAY]])
  // CHECK: pdc.node "SoftmaxAttention" "scaled"(%[[Q]], %{{.*}}) {rows_first = array<i64: 0, 0, 0, 0>, scale = 2.000000e+00 : f64}
  %scaled_qk = pdc.node "MatMul" "scaled_qk"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %scaled_a = pdc.node "Sub" "scaled_a"(%scaled_qk, %full) {} : (tensor<2x2x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x2x3x3xf32>
  %scaled_b = pdc.node "Add" "scaled_b"(%scaled_a, %padding) {} : (tensor<2x2x3x3xf32>, tensor<2x1x1x3xf32>) -> tensor<2x2x3x3xf32>
  %scaled_c = pdc.node "Mul" "scaled_c"(%scaled_b, %two) {} : (tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %scaled_p = pdc.node "Softmax" "scaled_p"(%scaled_c) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %scaled = pdc.node "MatMul" "scaled"(%scaled_p, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %scaled into @scaled : tensor<2x2x3x4xf32>

  // Equal shares for rows of which flags show nothing, whatever weights add to them before.
  // CHECK: %[[SEES:.*]] = pdc.node "Cast" {{.*}} {to = 9 : i64}
  // CHECK: %[[OPEN:.*]] = pdc.node "Or" "equal/open"
  // CHECK: %[[ADDED:.*]] = pdc.node "Where" "equal/mask"(%[[SEES]], %[[BIAS]], %
  // CHECK: %[[MASK:.*]] = pdc.node "Where" {{.*}}(%[[OPEN]], %[[ADDED]], %
  // CHECK: %[[QUERIES:.*]] = pdc.node "Where" "equal/queries"(%[[SEES]], %[[Q]], %
  // CHECK: pdc.node "SoftmaxAttention" "equal"(%[[QUERIES]], %{{[0-9a-z]*}}, %[[V]], %[[MASK]])
  %equal_qk = pdc.node "MatMul" "equal_qk"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %equal_a = pdc.node "Add" "equal_a"(%equal_qk, %bias) {} : (tensor<2x2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %equal_b = pdc.node "Where" "equal_b"(%seen, %equal_a, %low) {} : (tensor<2x1x3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %equal_p = pdc.node "Softmax" "equal_p"(%equal_b) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %equal = pdc.node "MatMul" "equal"(%equal_p, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %equal into @equal : tensor<2x2x3x4xf32>

  // A constant that hides by a finite number stays a sum, where others may hide what it shows.
  // CHECK: %[[STAYS:.*]] = pdc.node "Where" "finite/mask"
  // CHECK: pdc.node "SoftmaxAttention" "finite"(%[[Q]], %{{[0-9a-z]*}}, %[[V]], %[[STAYS]]) {rows_first = array<i64: 0, 0, 0, 0>, scale
  %finite_qk = pdc.node "MatMul" "finite_qk"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %finite_a = pdc.node "Add" "finite_a"(%finite_qk, %upper) {} : (tensor<2x2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x2x3x3xf32>
  %finite_b = pdc.node "Where" "finite_b"(%later, %finite_a, %never) {} : (tensor<3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %finite_p = pdc.node "Softmax" "finite_p"(%finite_b) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %finite = pdc.node "MatMul" "finite"(%finite_p, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %finite into @finite : tensor<2x2x3x4xf32>

  // What is taken away shows what it would hide; and hides no more what is multiplied by a small number.
  // CHECK: %[[SHOWS:.*]] = pdc.node "Mul" "away/mask"(%[[UPPER]], %
  // CHECK: pdc.node "SoftmaxAttention" "away"(%[[Q]], %{{[0-9a-z]*}}, %[[V]], %[[SHOWS]]) {rows_first = array<i64: 0, 0, 0, 0>, scale = 1.000000e+00 : f64}
  %away_qk = pdc.node "MatMul" "away_qk"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %away_a = pdc.node "Sub" "away_a"(%away_qk, %upper) {} : (tensor<2x2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x2x3x3xf32>
  %away_p = pdc.node "Softmax" "away_p"(%away_a) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %away = pdc.node "MatMul" "away"(%away_p, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %away into @away : tensor<2x2x3x4xf32>
  // CHECK: %[[FAINT:.*]] = pdc.node "Mul" "faint/mask"(%[[UPPER]], %
  // CHECK: pdc.node "SoftmaxAttention" "faint"(%[[Q]], %{{[0-9a-z]*}}, %[[V]], %[[FAINT]]) {rows_first = array<i64: 0, 0, 0, 0>, scale = 9.99
  %small = pdc.node "Constant" "small"() {value = dense<9.99999971E-10> : tensor<f32>} : () -> tensor<f32>
  %faint_qk = pdc.node "MatMul" "faint_qk"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %faint_a = pdc.node "Add" "faint_a"(%faint_qk, %upper) {} : (tensor<2x2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x2x3x3xf32>
  %faint_b = pdc.node "Mul" "faint_b"(%faint_a, %small) {} : (tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %faint_p = pdc.node "Softmax" "faint_p"(%faint_b) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %faint = pdc.node "MatMul" "faint"(%faint_p, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %faint into @faint : tensor<2x2x3x4xf32>

  // A number that a choice adds where it hides, beside padding that may hide what it shows, stays with the choice.
  // CHECK: %[[CHOSEN:.*]] = pdc.node "Where" "choice_c"
  // CHECK: %[[BESIDE:.*]] = pdc.node "Add" "choice/mask"(%[[PADDING]], %[[CHOSEN]])
  // CHECK: pdc.node "SoftmaxAttention" "choice"(%[[Q]], %{{[0-9a-z]*}}, %[[V]], %[[BESIDE]]) {rows_first = array<i64: 0, 0, 0, 0>, scale = 1.000000e+00 : f64}
  %lower = pdc.node "Constant" "lower"() {value = dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>} : () -> tensor<3x3xi1>
  %choice_c = pdc.node "Where" "choice_c"(%lower, %bias, %low) {} : (tensor<3x3xi1>, tensor<2x3x3xf32>, tensor<f32>) -> tensor<2x3x3xf32>
  %choice_qk = pdc.node "MatMul" "choice_qk"(%q, %kt) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %choice_a = pdc.node "Add" "choice_a"(%choice_qk, %choice_c) {} : (tensor<2x2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %choice_b = pdc.node "Add" "choice_b"(%choice_a, %padding) {} : (tensor<2x2x3x3xf32>, tensor<2x1x1x3xf32>) -> tensor<2x2x3x3xf32>
  %choice_p = pdc.node "Softmax" "choice_p"(%choice_b) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %choice = pdc.node "MatMul" "choice"(%choice_p, %v) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %choice into @choice : tensor<2x2x3x4xf32>
  return
}
