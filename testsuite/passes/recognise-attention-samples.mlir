// RUN: pdc-opt %s --recognise-composites --check-against=%s -o - | FileCheck %s
// What reads samples first already stays as it is.
// RUN: pdc-opt %s --recognise-composites --recognise-composites --check-against=%s -o - | FileCheck %s

// Transpositions before and behind the layers of an attention, as nn.MultiheadAttention of batch_first writes
// them, are gone: the layers work on rows in any order.

pdc.memory @x input microbatch : tensor<2x3x8xf32>
pdc.memory @y input microbatch : tensor<2x5x8xf32>
pdc.memory @w weight version : tensor<8x24xf32>
pdc.memory @b weight version : tensor<24xf32>
pdc.memory @wq weight version : tensor<8x8xf32>
pdc.memory @wkv weight version : tensor<16x8xf32>
pdc.memory @wo weight version : tensor<8x8xf32>
pdc.memory @bo weight version : tensor<8xf32>
pdc.memory @own metric update : tensor<2x3x8xf32>
pdc.memory @cross metric update : tensor<2x3x8xf32>
pdc.memory @seen metric update : tensor<3x2x24xf32>
pdc.memory @rest metric update : tensor<3x2x2x4xf32>

// CHECK-LABEL: func.func @train
// CHECK-DAG: %[[X:.*]] = pdc.read @x
// CHECK-DAG: %[[Y:.*]] = pdc.read @y
func.func @train() {
  %x = pdc.read @x : tensor<2x3x8xf32>
  %y = pdc.read @y : tensor<2x5x8xf32>
  %w = pdc.read @w : tensor<8x24xf32>
  %b = pdc.read @b : tensor<24xf32>
  %wq = pdc.read @wq : tensor<8x8xf32>
  %wkv = pdc.read @wkv : tensor<16x8xf32>
  %wo = pdc.read @wo : tensor<8x8xf32>
  %bo = pdc.read @bo : tensor<8xf32>
  %six = pdc.node "Constant" "six"() {value = dense<[3, 2, 6, 4]> : tensor<4xi64>} : () -> tensor<4xi64>
  %queries = pdc.node "Constant" "queries"() {value = dense<[3, 2, 2, 4]> : tensor<4xi64>} : () -> tensor<4xi64>
  %keys = pdc.node "Constant" "keys"() {value = dense<[5, 2, 4, 4]> : tensor<4xi64>} : () -> tensor<4xi64>
  %flat = pdc.node "Constant" "flat"() {value = dense<[6, 8]> : tensor<2xi64>} : () -> tensor<2xi64>
  %rows = pdc.node "Constant" "rows"() {value = dense<[10, 8]> : tensor<2xi64>} : () -> tensor<2xi64>
  %steps = pdc.node "Constant" "steps"() {value = dense<[3, 2, 8]> : tensor<3xi64>} : () -> tensor<3xi64>

  // CHECK: %[[P1:.*]] = pdc.node "MatMul" "p1"(%[[X]], %{{.*}} -> tensor<2x3x24xf32>
  // CHECK: %[[Q1:.*]] = pdc.node "Add" "q1"(%{{.*}}, %[[P1]]) {} : {{.*}} -> tensor<2x3x24xf32>
  // CHECK: %[[J1:.*]] = pdc.node "Reshape" "own/samples"(%[[Q1]], {{.*}} -> tensor<2x3x6x4xf32>
  // CHECK: %[[A1:.*]]:2 = pdc.node "SoftmaxAttention" "own"(%[[J1]]) {key_heads = 2 : i64, rows_first = array<i64: 1, 1, 1, 1>, scale = 5.000000e-01 : f64} : {{.*}} -> (tensor<2x3x2x4xf32>, tensor<2x2x3xf32>)
  // CHECK: %[[R1:.*]] = pdc.node "Reshape" "o1/rows"(%[[A1]]#0, {{.*}} -> tensor<6x8xf32>
  // CHECK: %[[O1:.*]] = pdc.node "Gemm" "o1"(%[[R1]],
  // CHECK: %[[S1:.*]] = pdc.node "Reshape" "z1/samples"(%[[O1]], {{.*}} -> tensor<2x3x8xf32>
  // CHECK: pdc.accumulate %[[S1]] into @own
  %t1 = pdc.node "Transpose" "t1"(%x) {perm = array<i64: 1, 0, 2>} : (tensor<2x3x8xf32>) -> tensor<3x2x8xf32>
  %p1 = pdc.node "MatMul" "p1"(%t1, %w) {} : (tensor<3x2x8xf32>, tensor<8x24xf32>) -> tensor<3x2x24xf32>
  %q1 = pdc.node "Add" "q1"(%b, %p1) {} : (tensor<24xf32>, tensor<3x2x24xf32>) -> tensor<3x2x24xf32>
  %j1 = pdc.node "Reshape" "j1"(%q1, %six) {} : (tensor<3x2x24xf32>, tensor<4xi64>) -> tensor<3x2x6x4xf32>
  %own:2 = pdc.node "SoftmaxAttention" "own"(%j1) {key_heads = 2 : i64, rows_first = array<i64: 2, 2, 2, 2>, scale = 0.5 : f64} : (tensor<3x2x6x4xf32>) -> (tensor<3x2x2x4xf32>, tensor<2x2x3xf32>)
  %r1 = pdc.node "Reshape" "r1"(%own#0, %flat) {} : (tensor<3x2x2x4xf32>, tensor<2xi64>) -> tensor<6x8xf32>
  %o1 = pdc.node "Gemm" "o1"(%r1, %wo, %bo) {transB = 1 : i64} : (tensor<6x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<6x8xf32>
  %s1 = pdc.node "Reshape" "s1"(%o1, %steps) {} : (tensor<6x8xf32>, tensor<3xi64>) -> tensor<3x2x8xf32>
  %z1 = pdc.node "Transpose" "z1"(%s1) {perm = array<i64: 1, 0, 2>} : (tensor<3x2x8xf32>) -> tensor<2x3x8xf32>
  pdc.accumulate %z1 into @own : tensor<2x3x8xf32>

  // Queries and keys of two sequences; the transposition behind it is after one layer.
  // CHECK: %[[P2:.*]] = pdc.node "MatMul" "p2"(%[[X]], %{{.*}} -> tensor<2x3x8xf32>
  // CHECK: %[[Y2:.*]] = pdc.node "Reshape" "g2/rows"(%[[Y]], {{.*}} -> tensor<10x8xf32>
  // CHECK: %[[G2:.*]] = pdc.node "Gemm" "g2"(%[[Y2]],
  // CHECK: %[[Q2:.*]] = pdc.node "Reshape" "cross/samples"(%[[P2]], {{.*}} -> tensor<2x3x2x4xf32>
  // CHECK: %[[K2:.*]] = pdc.node "Reshape" "cross/samples.1"(%[[G2]], {{.*}} -> tensor<2x5x4x4xf32>
  // CHECK: pdc.node "SoftmaxAttention" "cross"(%[[Q2]], %[[K2]]) {rows_first = array<i64: 1, 1, 1, 1>
  // CHECK: pdc.accumulate %{{.*}} into @cross
  %t2 = pdc.node "Transpose" "t2"(%x) {perm = array<i64: 1, 0, 2>} : (tensor<2x3x8xf32>) -> tensor<3x2x8xf32>
  %p2 = pdc.node "MatMul" "p2"(%t2, %wq) {} : (tensor<3x2x8xf32>, tensor<8x8xf32>) -> tensor<3x2x8xf32>
  %q2 = pdc.node "Reshape" "q2"(%p2, %queries) {} : (tensor<3x2x8xf32>, tensor<4xi64>) -> tensor<3x2x2x4xf32>
  %u2 = pdc.node "Transpose" "u2"(%y) {perm = array<i64: 1, 0, 2>} : (tensor<2x5x8xf32>) -> tensor<5x2x8xf32>
  %f2 = pdc.node "Reshape" "f2"(%u2, %rows) {} : (tensor<5x2x8xf32>, tensor<2xi64>) -> tensor<10x8xf32>
  %g2 = pdc.node "Gemm" "g2"(%f2, %wkv) {transB = 1 : i64} : (tensor<10x8xf32>, tensor<16x8xf32>) -> tensor<10x16xf32>
  %k2 = pdc.node "Reshape" "k2"(%g2, %keys) {} : (tensor<10x16xf32>, tensor<4xi64>) -> tensor<5x2x4x4xf32>
  %cross:2 = pdc.node "SoftmaxAttention" "cross"(%q2, %k2) {rows_first = array<i64: 2, 2, 2, 2>, scale = 0.5 : f64} : (tensor<3x2x2x4xf32>, tensor<5x2x4x4xf32>) -> (tensor<3x2x2x4xf32>, tensor<2x2x3xf32>)
  %r2 = pdc.node "Reshape" "r2"(%cross#0, %steps) {} : (tensor<3x2x2x4xf32>, tensor<3xi64>) -> tensor<3x2x8xf32>
  %o2 = pdc.node "MatMul" "o2"(%r2, %wo) {} : (tensor<3x2x8xf32>, tensor<8x8xf32>) -> tensor<3x2x8xf32>
  %z2 = pdc.node "Transpose" "z2"(%o2) {perm = array<i64: 1, 0, 2>} : (tensor<3x2x8xf32>) -> tensor<2x3x8xf32>
  pdc.accumulate %z2 into @cross : tensor<2x3x8xf32>

  // Others read what lies between, and the result as it is.
  // CHECK: pdc.node "Transpose" "t3"
  // CHECK: pdc.node "SoftmaxAttention" "rest"({{.*}}rows_first = array<i64: 2, 2, 2, 2>
  %t3 = pdc.node "Transpose" "t3"(%x) {perm = array<i64: 1, 0, 2>} : (tensor<2x3x8xf32>) -> tensor<3x2x8xf32>
  %p3 = pdc.node "MatMul" "p3"(%t3, %w) {} : (tensor<3x2x8xf32>, tensor<8x24xf32>) -> tensor<3x2x24xf32>
  %j3 = pdc.node "Reshape" "j3"(%p3, %six) {} : (tensor<3x2x24xf32>, tensor<4xi64>) -> tensor<3x2x6x4xf32>
  %rest:2 = pdc.node "SoftmaxAttention" "rest"(%j3) {key_heads = 2 : i64, rows_first = array<i64: 2, 2, 2, 2>, scale = 0.5 : f64} : (tensor<3x2x6x4xf32>) -> (tensor<3x2x2x4xf32>, tensor<2x2x3xf32>)
  pdc.accumulate %p3 into @seen : tensor<3x2x24xf32>
  pdc.accumulate %rest#0 into @rest : tensor<3x2x2x4xf32>
  return
}
