// RUN: pdc-opt %s --recognise-composites --check-against=%s -o - | FileCheck %s
// What is joined already stays as it is.
// RUN: pdc-opt %s --recognise-composites --recognise-composites --check-against=%s -o - | FileCheck %s

// Queries, keys and values that are the parts of one tensor are read there.

pdc.memory @x input microbatch : tensor<2x3x16xf32>
pdc.memory @y input microbatch : tensor<2x5x8xf32>
pdc.memory @heads input microbatch : tensor<2x6x3x4xf32>
pdc.memory @mask input microbatch : tensor<3x5xf32>
pdc.memory @one metric update : tensor<2x3x2x4xf32>
pdc.memory @two metric update : tensor<2x3x2x4xf32>
pdc.memory @three metric update : tensor<2x2x3x4xf32>
pdc.memory @four metric update : tensor<2x3x2x4xf32>
pdc.memory @five metric update : tensor<2x3x2x4xf32>
pdc.memory @seen metric update : tensor<2x3x4xf32>
pdc.memory @steps input microbatch : tensor<3x2x24xf32>
pdc.memory @asked input microbatch : tensor<1x4x5x4xf32>
pdc.memory @padding input microbatch : tensor<4x1x3xf32>
pdc.memory @pairs input microbatch : tensor<3x2x16xf32>
pdc.memory @six metric update : tensor<1x3x4x4xf32>
pdc.memory @seven metric update : tensor<1x4x5x4xf32>

// CHECK-LABEL: func.func @train
// CHECK-DAG: %[[X:.*]] = pdc.read @x
// CHECK-DAG: %[[Y:.*]] = pdc.read @y
// CHECK-DAG: %[[HEADS:.*]] = pdc.read @heads
// CHECK-DAG: %[[MASK:.*]] = pdc.read @mask
// CHECK-DAG: %[[STEPS:.*]] = pdc.read @steps
// CHECK-DAG: %[[ASKED:.*]] = pdc.read @asked
// CHECK-DAG: %[[PADDING:.*]] = pdc.read @padding
// CHECK-DAG: %[[PAIRS:.*]] = pdc.read @pairs
func.func @train() {
  %x = pdc.read @x : tensor<2x3x16xf32>
  %y = pdc.read @y : tensor<2x5x8xf32>
  %heads = pdc.read @heads : tensor<2x6x3x4xf32>
  %mask = pdc.read @mask : tensor<3x5xf32>
  %steps = pdc.read @steps : tensor<3x2x24xf32>
  %asked = pdc.read @asked : tensor<1x4x5x4xf32>
  %padding = pdc.read @padding : tensor<4x1x3xf32>
  %divided = pdc.read @pairs : tensor<3x2x16xf32>
  %three = pdc.node "Constant" "three"() {value = dense<[8, 4, 4]> : tensor<3xi64>} : () -> tensor<3xi64>
  %two = pdc.node "Constant" "two"() {value = dense<[4, 4]> : tensor<2xi64>} : () -> tensor<2xi64>
  %pairs = pdc.node "Constant" "pairs"() {value = dense<[2, 2, 2]> : tensor<3xi64>} : () -> tensor<3xi64>
  %many = pdc.node "Constant" "many"() {value = dense<[2, 3, 2, 4]> : tensor<4xi64>} : () -> tensor<4xi64>
  %few = pdc.node "Constant" "few"() {value = dense<[2, 3, 1, 4]> : tensor<4xi64>} : () -> tensor<4xi64>
  %keys = pdc.node "Constant" "keys"() {value = dense<[2, 5, 1, 4]> : tensor<4xi64>} : () -> tensor<4xi64>

  // A head of keys serves two of queries.
  // CHECK: %[[ALL:.*]] = pdc.node "Reshape" "all/joined"(%[[X]], {{.*}} -> tensor<2x3x4x4xf32>
  // CHECK: pdc.node "SoftmaxAttention" "all"(%[[ALL]]) {is_causal = 1 : i64, key_heads = 1 : i64, rows_first = array<i64: 1, 1, 1, 1>, scale = 5.000000e-01 : f64}
  %s1:3 = pdc.node "Split" "s1"(%x, %three) {axis = -1 : i64} : (tensor<2x3x16xf32>, tensor<3xi64>) -> (tensor<2x3x8xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>)
  %q1 = pdc.node "Reshape" "q1"(%s1#0, %many) {} : (tensor<2x3x8xf32>, tensor<4xi64>) -> tensor<2x3x2x4xf32>
  %k1 = pdc.node "Reshape" "k1"(%s1#1, %few) {} : (tensor<2x3x4xf32>, tensor<4xi64>) -> tensor<2x3x1x4xf32>
  %v1 = pdc.node "Reshape" "v1"(%s1#2, %few) {} : (tensor<2x3x4xf32>, tensor<4xi64>) -> tensor<2x3x1x4xf32>
  %all:2 = pdc.node "SoftmaxAttention" "all"(%q1, %k1, %v1) {is_causal = 1 : i64, rows_first = array<i64: 1, 1, 1, 1>, scale = 0.5 : f64} : (tensor<2x3x2x4xf32>, tensor<2x3x1x4xf32>, tensor<2x3x1x4xf32>) -> (tensor<2x3x2x4xf32>, tensor<2x2x3xf32>)
  pdc.accumulate %all#0 into @one : tensor<2x3x2x4xf32>

  // Queries of their own.
  // CHECK: %[[PAIR:.*]] = pdc.node "Reshape" "pair/joined"(%[[Y]], {{.*}} -> tensor<2x5x2x4xf32>
  // CHECK: %[[NONE:.*]] = pdc.absent
  // CHECK: pdc.node "SoftmaxAttention" "pair"(%{{.*}}, %[[PAIR]], %[[NONE]], %[[MASK]]) {rows_first = array<i64: 1, 1, 1, 1>, scale = 5.000000e-01 : f64}
  %s2:2 = pdc.node "Split" "s2"(%y, %two) {axis = 2 : i64} : (tensor<2x5x8xf32>, tensor<2xi64>) -> (tensor<2x5x4xf32>, tensor<2x5x4xf32>)
  %s3:3 = pdc.node "Split" "s3"(%x, %three) {axis = 2 : i64} : (tensor<2x3x16xf32>, tensor<3xi64>) -> (tensor<2x3x8xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>)
  %q2 = pdc.node "Reshape" "q2"(%s3#0, %many) {} : (tensor<2x3x8xf32>, tensor<4xi64>) -> tensor<2x3x2x4xf32>
  %k2 = pdc.node "Reshape" "k2"(%s2#0, %keys) {} : (tensor<2x5x4xf32>, tensor<4xi64>) -> tensor<2x5x1x4xf32>
  %v2 = pdc.node "Reshape" "v2"(%s2#1, %keys) {} : (tensor<2x5x4xf32>, tensor<4xi64>) -> tensor<2x5x1x4xf32>
  %pair:2 = pdc.node "SoftmaxAttention" "pair"(%q2, %k2, %v2, %mask) {rows_first = array<i64: 1, 1, 1, 1>, scale = 0.5 : f64} : (tensor<2x3x2x4xf32>, tensor<2x5x1x4xf32>, tensor<2x5x1x4xf32>, tensor<3x5xf32>) -> (tensor<2x3x2x4xf32>, tensor<2x2x3xf32>)
  pdc.accumulate %pair#0 into @two : tensor<2x3x2x4xf32>

  // Heads are divided as they are.
  // CHECK: pdc.node "SoftmaxAttention" "apart"(%[[HEADS]]) {key_heads = 2 : i64, rows_first = array<i64: 0, 0, 0, 0>, scale = 5.000000e-01 : f64}
  %s4:3 = pdc.node "Split" "s4"(%heads, %pairs) {axis = 1 : i64} : (tensor<2x6x3x4xf32>, tensor<3xi64>) -> (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>)
  %apart:2 = pdc.node "SoftmaxAttention" "apart"(%s4#0, %s4#1, %s4#2) {rows_first = array<i64: 0, 0, 0, 0>, scale = 0.5 : f64} : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> (tensor<2x2x3x4xf32>, tensor<2x2x3xf32>)
  pdc.accumulate %apart#0 into @three : tensor<2x2x3x4xf32>

  // Not where others read a part, nor in another order.
  // CHECK-DAG: %[[S5:.*]]:3 = pdc.node "Split" "s5"
  // CHECK-DAG: pdc.node "SoftmaxAttention" "read"(%{{.*}}, %{{.*}}, %{{.*}}) {rows_first
  // CHECK-DAG: %[[S6:.*]]:3 = pdc.node "Split" "s6"
  // CHECK-DAG: pdc.node "SoftmaxAttention" "turned"(%{{.*}}, %{{.*}}, %{{.*}}) {rows_first
  %s5:3 = pdc.node "Split" "s5"(%x, %three) {axis = 2 : i64} : (tensor<2x3x16xf32>, tensor<3xi64>) -> (tensor<2x3x8xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>)
  %q5 = pdc.node "Reshape" "q5"(%s5#0, %many) {} : (tensor<2x3x8xf32>, tensor<4xi64>) -> tensor<2x3x2x4xf32>
  %k5 = pdc.node "Reshape" "k5"(%s5#1, %few) {} : (tensor<2x3x4xf32>, tensor<4xi64>) -> tensor<2x3x1x4xf32>
  %v5 = pdc.node "Reshape" "v5"(%s5#2, %few) {} : (tensor<2x3x4xf32>, tensor<4xi64>) -> tensor<2x3x1x4xf32>
  %read:2 = pdc.node "SoftmaxAttention" "read"(%q5, %k5, %v5) {rows_first = array<i64: 1, 1, 1, 1>, scale = 0.5 : f64} : (tensor<2x3x2x4xf32>, tensor<2x3x1x4xf32>, tensor<2x3x1x4xf32>) -> (tensor<2x3x2x4xf32>, tensor<2x2x3xf32>)
  pdc.accumulate %read#0 into @four : tensor<2x3x2x4xf32>
  pdc.accumulate %s5#2 into @seen : tensor<2x3x4xf32>
  %s6:3 = pdc.node "Split" "s6"(%x, %three) {axis = 2 : i64} : (tensor<2x3x16xf32>, tensor<3xi64>) -> (tensor<2x3x8xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>)
  %q6 = pdc.node "Reshape" "q6"(%s6#0, %many) {} : (tensor<2x3x8xf32>, tensor<4xi64>) -> tensor<2x3x2x4xf32>
  %k6 = pdc.node "Reshape" "k6"(%s6#2, %few) {} : (tensor<2x3x4xf32>, tensor<4xi64>) -> tensor<2x3x1x4xf32>
  %v6 = pdc.node "Reshape" "v6"(%s6#1, %few) {} : (tensor<2x3x4xf32>, tensor<4xi64>) -> tensor<2x3x1x4xf32>
  %turned:2 = pdc.node "SoftmaxAttention" "turned"(%q6, %k6, %v6) {rows_first = array<i64: 1, 1, 1, 1>, scale = 0.5 : f64} : (tensor<2x3x2x4xf32>, tensor<2x3x1x4xf32>, tensor<2x3x1x4xf32>) -> (tensor<2x3x2x4xf32>, tensor<2x2x3xf32>)
  pdc.accumulate %turned#0 into @five : tensor<2x3x2x4xf32>

  // Two heads of each of two samples, which are four heads of one: of each sample all three parts lie together.
  // CHECK: %[[OF_EACH:.*]] = pdc.node "Reshape" "merged/joined"(%[[STEPS]], {{.*}} -> tensor<3x2x6x4xf32>
  // CHECK: %[[HIDDEN:.*]] = pdc.node "Reshape" "merged/headed"(%[[PADDING]], {{.*}} -> tensor<2x2x1x3xf32>
  // CHECK: %[[MERGED:.*]]:2 = pdc.node "SoftmaxAttention" "merged"(%[[OF_EACH]], %{{.*}}, %{{.*}}, %[[HIDDEN]]) {key_heads = 2 : i64, rows_first = array<i64: 2, 2, 2, 2>, scale = 5.000000e-01 : f64}
  // CHECK: pdc.node "Reshape" "merged/Reshape"(%[[MERGED]]#0, {{.*}} -> tensor<1x3x4x4xf32>
  %eights = pdc.node "Constant" "eights"() {value = dense<[8, 8, 8]> : tensor<3xi64>} : () -> tensor<3xi64>
  %both = pdc.node "Constant" "both"() {value = dense<[8, 8]> : tensor<2xi64>} : () -> tensor<2xi64>
  %four = pdc.node "Constant" "four"() {value = dense<[1, 3, 4, 4]> : tensor<4xi64>} : () -> tensor<4xi64>
  %s7:3 = pdc.node "Split" "s7"(%steps, %eights) {axis = 2 : i64} : (tensor<3x2x24xf32>, tensor<3xi64>) -> (tensor<3x2x8xf32>, tensor<3x2x8xf32>, tensor<3x2x8xf32>)
  %q7 = pdc.node "Reshape" "q7"(%s7#0, %four) {} : (tensor<3x2x8xf32>, tensor<4xi64>) -> tensor<1x3x4x4xf32>
  %k7 = pdc.node "Reshape" "k7"(%s7#1, %four) {} : (tensor<3x2x8xf32>, tensor<4xi64>) -> tensor<1x3x4x4xf32>
  %v7 = pdc.node "Reshape" "v7"(%s7#2, %four) {} : (tensor<3x2x8xf32>, tensor<4xi64>) -> tensor<1x3x4x4xf32>
  %merged:2 = pdc.node "SoftmaxAttention" "merged"(%q7, %k7, %v7, %padding) {rows_first = array<i64: 1, 1, 1, 1>, scale = 0.5 : f64} : (tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>, tensor<4x1x3xf32>) -> (tensor<1x3x4x4xf32>, tensor<1x4x3xf32>)
  pdc.accumulate %merged#0 into @six : tensor<1x3x4x4xf32>

  // Queries of their own, heads first.
  // CHECK: %[[KV:.*]] = pdc.node "Reshape" "cross/joined"(%[[PAIRS]], {{.*}} -> tensor<3x2x4x4xf32>
  // CHECK: %[[OWN:.*]] = pdc.node "Reshape" "cross/headed"(%[[ASKED]], {{.*}} -> tensor<2x2x5x4xf32>
  // CHECK: %[[CROSS:.*]]:2 = pdc.node "SoftmaxAttention" "cross"(%[[OWN]], %[[KV]]) {rows_first = array<i64: 0, 2, 2, 0>, scale = 5.000000e-01 : f64}
  // CHECK: pdc.node "Reshape" "cross/Reshape"(%[[CROSS]]#0, {{.*}} -> tensor<1x4x5x4xf32>
  %s8:2 = pdc.node "Split" "s8"(%divided, %both) {axis = 2 : i64} : (tensor<3x2x16xf32>, tensor<2xi64>) -> (tensor<3x2x8xf32>, tensor<3x2x8xf32>)
  %k8 = pdc.node "Reshape" "k8"(%s8#0, %four) {} : (tensor<3x2x8xf32>, tensor<4xi64>) -> tensor<1x3x4x4xf32>
  %v8 = pdc.node "Reshape" "v8"(%s8#1, %four) {} : (tensor<3x2x8xf32>, tensor<4xi64>) -> tensor<1x3x4x4xf32>
  %cross:2 = pdc.node "SoftmaxAttention" "cross"(%asked, %k8, %v8) {rows_first = array<i64: 0, 1, 1, 0>, scale = 0.5 : f64} : (tensor<1x4x5x4xf32>, tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>) -> (tensor<1x4x5x4xf32>, tensor<1x4x5xf32>)
  pdc.accumulate %cross#0 into @seven : tensor<1x4x5x4xf32>
  return
}
