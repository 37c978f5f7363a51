// RUN: pdc-opt %s --recognise-composites --check-against=%s -o - | FileCheck %s

pdc.memory @q input microbatch : tensor<2x3x2x4xf32>
pdc.memory @k input microbatch : tensor<2x3x2x4xf32>
pdc.memory @v input microbatch : tensor<2x3x2x4xf32>
pdc.memory @hidden input microbatch : tensor<2x1x1x3xf32>
pdc.memory @kept input microbatch : tensor<2x2x3x4xf32>
pdc.memory @shared input microbatch : tensor<2x1x3x4xf32>
pdc.memory @pdc.random input microbatch : tensor<4xi64>
pdc.memory @one metric update : tensor<2x3x2x4xf32>
pdc.memory @two metric update : tensor<2x3x2x4xf32>
pdc.memory @five metric update : tensor<2x3x2x4xf32>
pdc.memory @six metric update : tensor<2x3x2x4xf32>
pdc.memory @three metric update : tensor<2x2x3x4xf32>
pdc.memory @four metric update : tensor<2x2x3x4xf32>
pdc.memory @steps input microbatch : tensor<3x2x8xf32>
pdc.memory @seven metric update : tensor<3x2x2x4xf32>
pdc.memory @eight metric update : tensor<2x2x3x4xf32>

// CHECK-LABEL: func.func @train
// CHECK-DAG: %[[Q:.*]] = pdc.read @q :
// CHECK-DAG: %[[K:.*]] = pdc.read @k :
// CHECK-DAG: %[[V:.*]] = pdc.read @v :
// CHECK-DAG: %[[HIDDEN:.*]] = pdc.read @hidden :
// CHECK-DAG: %[[KEPT:.*]] = pdc.read @kept :
// CHECK-DAG: %[[SHARED:.*]] = pdc.read @shared :
// CHECK-DAG: %[[RANDOM:.*]] = pdc.read @pdc.random :
// CHECK-DAG: %[[STEPS:.*]] = pdc.read @steps :
func.func @train() {
  %q = pdc.read @q : tensor<2x3x2x4xf32>
  %k = pdc.read @k : tensor<2x3x2x4xf32>
  %v = pdc.read @v : tensor<2x3x2x4xf32>
  %hidden = pdc.read @hidden : tensor<2x1x1x3xf32>
  %kept = pdc.read @kept : tensor<2x2x3x4xf32>
  %shared = pdc.read @shared : tensor<2x1x3x4xf32>
  %random = pdc.read @pdc.random : tensor<4xi64>
  %steps_ = pdc.read @steps : tensor<3x2x8xf32>
  %two_ = pdc.node "Constant" "two_"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %root = pdc.node "Constant" "root"() {value = dense<0.707106769> : tensor<f32>} : () -> tensor<f32>
  %never = pdc.node "Constant" "never"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
  %low = pdc.node "Constant" "low"() {value = dense<-3.40282347E+38> : tensor<1xf32>} : () -> tensor<1xf32>
  %lower = pdc.node "Constant" "lower"() {value = dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>} : () -> tensor<3x3xi1>
  %upper = pdc.node "Constant" "upper"() {value = dense<[[0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>} : () -> tensor<3x3xf32>
  %flat = pdc.node "Constant" "flat"() {value = dense<[-1, 3, 4]> : tensor<3xi64>} : () -> tensor<3xi64>
  %turned = pdc.node "Constant" "turned"() {value = dense<[2, 2, 4, 3]> : tensor<4xi64>} : () -> tensor<4xi64>
  %many = pdc.node "Constant" "many"() {value = dense<[2, 1, 2, 3, 4]> : tensor<5xi64>} : () -> tensor<5xi64>
  %apart = pdc.node "Constant" "apart"() {value = dense<[2, 1, 1, 3, 4]> : tensor<5xi64>} : () -> tensor<5xi64>
  %whole = pdc.node "Constant" "whole"() {value = dense<[2, 2, 3, 4]> : tensor<4xi64>} : () -> tensor<4xi64>

  // As PyTorch exports GPT-2: scores are divided, a constant chooses those before.
  // CHECK: pdc.node "SoftmaxAttention" "gpt"(%[[Q]], %[[K]], %[[V]]) {is_causal = 1 : i64, past = 0 : i64, rows_first = array<i64: 1, 1, 1, 1>, scale = 5.000000e-01 : f64}
  %q1 = pdc.node "Transpose" "q1"(%q) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x2x4xf32>) -> tensor<2x2x3x4xf32>
  %k1 = pdc.node "Transpose" "k1"(%k) {perm = array<i64: 0, 2, 3, 1>} : (tensor<2x3x2x4xf32>) -> tensor<2x2x4x3xf32>
  %v1 = pdc.node "Transpose" "v1"(%v) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x2x4xf32>) -> tensor<2x2x3x4xf32>
  %qk1 = pdc.node "MatMul" "qk1"(%q1, %k1) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %s1 = pdc.node "Div" "s1"(%qk1, %two_) {} : (tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %m1 = pdc.node "Where" "m1"(%lower, %s1, %never) {} : (tensor<3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %p1 = pdc.node "Softmax" "p1"(%m1) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y1 = pdc.node "MatMul" "y1"(%p1, %v1) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  %gpt = pdc.node "Transpose" "gpt"(%y1) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x2x3x4xf32>) -> tensor<2x3x2x4xf32>
  pdc.accumulate %gpt into @one : tensor<2x3x2x4xf32>

  // BERT: padding is added, shares are dropped.
  // CHECK: pdc.node "SoftmaxAttention" "bert"(%[[Q]], %[[K]], %[[V]], %[[HIDDEN]], %[[RANDOM]]) {key = 7 : i64, ratio = 2.500000e-01 : f64, rows_first = array<i64: 1, 1, 1, 1>, samples = 2 : i64, scale = 5.000000e-01 : f64}
  %k2 = pdc.node "Transpose" "k2"(%k) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x2x4xf32>) -> tensor<2x2x3x4xf32>
  %kt2 = pdc.node "Transpose" "kt2"(%k2) {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x2x3x4xf32>) -> tensor<2x2x4x3xf32>
  %qk2 = pdc.node "MatMul" "qk2"(%q1, %kt2) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %s2 = pdc.node "Div" "s2"(%qk2, %two_) {} : (tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %m2 = pdc.node "Add" "m2"(%s2, %hidden) {} : (tensor<2x2x3x3xf32>, tensor<2x1x1x3xf32>) -> tensor<2x2x3x3xf32>
  %p2 = pdc.node "Softmax" "p2"(%m2) {axis = 3 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %d2 = pdc.node "Dropout" "d2"(%p2, %random) {key = 7 : i64, ratio = 2.500000e-01 : f64} : (tensor<2x2x3x3xf32>, tensor<4xi64>) -> tensor<2x2x3x3xf32>
  %y2 = pdc.node "MatMul" "y2"(%d2, %v1) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  %bert = pdc.node "Transpose" "bert"(%y2) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x2x3x4xf32>) -> tensor<2x3x2x4xf32>
  pdc.accumulate %bert into @two : tensor<2x3x2x4xf32>

  // The dynamo exporter: both sides are scaled by a root, keys turned in rank 3, a constant added.
  // CHECK: pdc.node "SoftmaxAttention" "dynamo"(%[[Q]], %[[KEPT]], %[[V]]) {is_causal = 1 : i64, past = 0 : i64, rows_first = array<i64: 1, 0, 1, 0>, scale = 0.4999999
  %q3 = pdc.node "Mul" "q3"(%q1, %root) {} : (tensor<2x2x3x4xf32>, tensor<f32>) -> tensor<2x2x3x4xf32>
  %flat3 = pdc.node "Reshape" "flat3"(%kept, %flat) {} : (tensor<2x2x3x4xf32>, tensor<3xi64>) -> tensor<4x3x4xf32>
  %t3 = pdc.node "Transpose" "t3"(%flat3) {perm = array<i64: 0, 2, 1>} : (tensor<4x3x4xf32>) -> tensor<4x4x3xf32>
  %k3 = pdc.node "Reshape" "k3"(%t3, %turned) {} : (tensor<4x4x3xf32>, tensor<4xi64>) -> tensor<2x2x4x3xf32>
  %kt3 = pdc.node "Mul" "kt3"(%k3, %root) {} : (tensor<2x2x4x3xf32>, tensor<f32>) -> tensor<2x2x4x3xf32>
  %qk3 = pdc.node "MatMul" "qk3"(%q3, %kt3) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %m3 = pdc.node "Add" "m3"(%upper, %qk3) {} : (tensor<3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p3 = pdc.node "Softmax" "p3"(%m3) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %dynamo = pdc.node "MatMul" "dynamo"(%p3, %v1) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %dynamo into @three : tensor<2x2x3x4xf32>

  // Llama: a head of keys and values serves two of queries.
  // CHECK: pdc.node "SoftmaxAttention" "llama"(%[[Q]], %[[SHARED]], %[[SHARED]]) {rows_first = array<i64: 1, 0, 0, 0>, scale = 2.000000e+00 : f64}
  %a4 = pdc.node "Reshape" "a4"(%shared, %apart) {} : (tensor<2x1x3x4xf32>, tensor<5xi64>) -> tensor<2x1x1x3x4xf32>
  %e4 = pdc.node "Expand" "e4"(%a4, %many) {} : (tensor<2x1x1x3x4xf32>, tensor<5xi64>) -> tensor<2x1x2x3x4xf32>
  %w4 = pdc.node "Reshape" "w4"(%e4, %whole) {} : (tensor<2x1x2x3x4xf32>, tensor<4xi64>) -> tensor<2x2x3x4xf32>
  %k4 = pdc.node "Transpose" "k4"(%w4) {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x2x3x4xf32>) -> tensor<2x2x4x3xf32>
  %qk4 = pdc.node "MatMul" "qk4"(%q1, %k4) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %s4 = pdc.node "Mul" "s4"(%two_, %qk4) {} : (tensor<f32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p4 = pdc.node "Softmax" "p4"(%s4) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %llama = pdc.node "MatMul" "llama"(%p4, %w4) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %llama into @four : tensor<2x2x3x4xf32>

  // A finite number that hides as well, where each row has a key that is seen.
  // CHECK: pdc.node "SoftmaxAttention" "finite"(%[[Q]], %[[K]], %[[V]]) {is_causal = 1 : i64, past = 0 : i64, rows_first = array<i64: 1, 1, 1, 1>, scale = 1.000000e+00 : f64}
  %qk5 = pdc.node "MatMul" "qk5"(%q1, %kt2) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %m5 = pdc.node "Where" "m5"(%lower, %qk5, %low) {} : (tensor<3x3xi1>, tensor<2x2x3x3xf32>, tensor<1xf32>) -> tensor<2x2x3x3xf32>
  %p5 = pdc.node "Softmax" "p5"(%m5) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y5 = pdc.node "MatMul" "y5"(%p5, %v1) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  %finite = pdc.node "Transpose" "finite"(%y5) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x2x3x4xf32>) -> tensor<2x3x2x4xf32>
  pdc.accumulate %finite into @five : tensor<2x3x2x4xf32>
  // Two masks, where what comes later is hidden from every row for good.
  // CHECK: pdc.node "SoftmaxAttention" "both"(%[[Q]], %[[K]], %[[V]], %[[HIDDEN]]) {is_causal = 1 : i64, past = 0 : i64, rows_first = array<i64: 1, 1, 1, 1>, scale = 1.000000e+00 : f64}
  %qk6 = pdc.node "MatMul" "qk6"(%q1, %kt2) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %m6 = pdc.node "Where" "m6"(%lower, %qk6, %never) {} : (tensor<3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %n6 = pdc.node "Add" "n6"(%m6, %hidden) {} : (tensor<2x2x3x3xf32>, tensor<2x1x1x3xf32>) -> tensor<2x2x3x3xf32>
  %p6 = pdc.node "Softmax" "p6"(%n6) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y6 = pdc.node "MatMul" "y6"(%p6, %v1) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  %both = pdc.node "Transpose" "both"(%y6) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x2x3x4xf32>) -> tensor<2x3x2x4xf32>
  pdc.accumulate %both into @six : tensor<2x3x2x4xf32>

  // nn.MultiheadAttention by the dynamo exporter: rows come before samples, heads are behind views.
  // CHECK: %[[VIEW:.*]] = pdc.node "Reshape" "flat7"(%[[STEPS]], {{.*}} -> tensor<3x4x4xf32>
  // CHECK: %[[HEADED:.*]] = pdc.node "Reshape" "steps/headed"(%[[VIEW]], {{.*}} -> tensor<3x2x2x4xf32>
  // CHECK: pdc.node "SoftmaxAttention" "steps"(%[[HEADED]], %{{.*}}, %{{.*}}) {rows_first = array<i64: 2, 2, 2, 2>, scale = 2.000000e+00 : f64}
  %merged = pdc.node "Constant" "merged"() {value = dense<[3, 4, 4]> : tensor<3xi64>} : () -> tensor<3xi64>
  %flat7 = pdc.node "Reshape" "flat7"(%steps_, %merged) {} : (tensor<3x2x8xf32>, tensor<3xi64>) -> tensor<3x4x4xf32>
  %t7 = pdc.node "Transpose" "t7"(%flat7) {perm = array<i64: 1, 0, 2>} : (tensor<3x4x4xf32>) -> tensor<4x3x4xf32>
  %w7 = pdc.node "Reshape" "w7"(%t7, %whole) {} : (tensor<4x3x4xf32>, tensor<4xi64>) -> tensor<2x2x3x4xf32>
  %f7 = pdc.node "Reshape" "f7"(%w7, %flat) {} : (tensor<2x2x3x4xf32>, tensor<3xi64>) -> tensor<4x3x4xf32>
  %ft7 = pdc.node "Transpose" "ft7"(%f7) {perm = array<i64: 0, 2, 1>} : (tensor<4x3x4xf32>) -> tensor<4x4x3xf32>
  %k7 = pdc.node "Reshape" "k7"(%ft7, %turned) {} : (tensor<4x4x3xf32>, tensor<4xi64>) -> tensor<2x2x4x3xf32>
  %qk7 = pdc.node "MatMul" "qk7"(%w7, %k7) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %s7 = pdc.node "Mul" "s7"(%two_, %qk7) {} : (tensor<f32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %p7 = pdc.node "Softmax" "p7"(%s7) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y7 = pdc.node "MatMul" "y7"(%p7, %w7) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  %steps = pdc.node "Transpose" "steps"(%y7) {perm = array<i64: 2, 0, 1, 3>} : (tensor<2x2x3x4xf32>) -> tensor<3x2x2x4xf32>
  pdc.accumulate %steps into @seven : tensor<3x2x2x4xf32>

  // A head that serves two, repeated where rows are first.
  // CHECK: pdc.node "SoftmaxAttention" "rows"(%[[Q]], %[[SHARED]], %[[SHARED]]) {rows_first = array<i64: 1, 0, 0, 0>, scale = 1.000000e+00 : f64}
  %apart8 = pdc.node "Constant" "apart8"() {value = dense<[2, 3, 1, 1, 4]> : tensor<5xi64>} : () -> tensor<5xi64>
  %many8 = pdc.node "Constant" "many8"() {value = dense<[2, 3, 1, 2, 4]> : tensor<5xi64>} : () -> tensor<5xi64>
  %pair8 = pdc.node "Constant" "pair8"() {value = dense<[2, 3, 2, 4]> : tensor<4xi64>} : () -> tensor<4xi64>
  %a8 = pdc.node "Reshape" "a8"(%shared, %apart8) {} : (tensor<2x1x3x4xf32>, tensor<5xi64>) -> tensor<2x3x1x1x4xf32>
  %e8 = pdc.node "Expand" "e8"(%a8, %many8) {} : (tensor<2x3x1x1x4xf32>, tensor<5xi64>) -> tensor<2x3x1x2x4xf32>
  %w8 = pdc.node "Reshape" "w8"(%e8, %pair8) {} : (tensor<2x3x1x2x4xf32>, tensor<4xi64>) -> tensor<2x3x2x4xf32>
  %kt8 = pdc.node "Transpose" "kt8"(%w8) {perm = array<i64: 0, 2, 3, 1>} : (tensor<2x3x2x4xf32>) -> tensor<2x2x4x3xf32>
  %v8 = pdc.node "Transpose" "v8"(%w8) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x2x4xf32>) -> tensor<2x2x3x4xf32>
  %qk8 = pdc.node "MatMul" "qk8"(%q1, %kt8) {} : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  %p8 = pdc.node "Softmax" "p8"(%qk8) {axis = -1 : i64} : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %rows = pdc.node "MatMul" "rows"(%p8, %v8) {} : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %rows into @eight : tensor<2x2x3x4xf32>
  // CHECK: return
  return
}
