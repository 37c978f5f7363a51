// RUN: pdc-opt %s --hoist-splits --check-against=%s -o - | FileCheck %s
// What is divided early already stays as it is.
// RUN: pdc-opt %s --hoist-splits --hoist-splits --check-against=%s -o - | FileCheck %s

// Tensors are divided before they are transposed.

pdc.memory @x input microbatch : tensor<2x3x12xf32>
pdc.memory @y input microbatch : tensor<2x6xf32>
pdc.memory @z input microbatch : tensor<2x3x4xf32>
pdc.memory @key metric update : tensor<1x2x2x3x2xf32>
pdc.memory @value metric update : tensor<2x3x4xf32>
pdc.memory @column metric update : tensor<1x2xf32>
pdc.memory @rows metric update : tensor<4x4xf32>
pdc.memory @one metric update : tensor<3x2xf32>
pdc.memory @all metric update : tensor<6x2xf32>
pdc.memory @reversed metric update : tensor<4x3x1xf32>

// CHECK-LABEL: func.func @train
// CHECK-DAG: %[[X:.*]] = pdc.read @x
// CHECK-DAG: %[[Y:.*]] = pdc.read @y
// CHECK-DAG: %[[Z:.*]] = pdc.read @z
func.func @train() {
  %x = pdc.read @x : tensor<2x3x12xf32>
  %y = pdc.read @y : tensor<2x6xf32>
  %z = pdc.read @z : tensor<2x3x4xf32>
  %ones = pdc.node "Constant" "ones"() {value = dense<[1, 1, 1]> : tensor<3xi64>} : () -> tensor<3xi64>
  %threes = pdc.node "Constant" "threes"() {value = dense<[3, 3]> : tensor<2xi64>} : () -> tensor<2xi64>
  %unlike = pdc.node "Constant" "unlike"() {value = dense<[1, 2, 3]> : tensor<3xi64>} : () -> tensor<3xi64>
  %some = pdc.node "Constant" "some"() {value = dense<[2, 4]> : tensor<2xi64>} : () -> tensor<2xi64>
  %heads = pdc.node "Constant" "heads"() {value = dense<[2, 3, 3, 2, 2]> : tensor<5xi64>} : () -> tensor<5xi64>
  %thirds = pdc.node "Constant" "thirds"() {value = dense<[2, 3, 3, 4]> : tensor<4xi64>} : () -> tensor<4xi64>
  %before = pdc.node "Constant" "before"() {value = dense<[1, 2, 3, 3, 4]> : tensor<5xi64>} : () -> tensor<5xi64>
  %without = pdc.node "Constant" "without"() {value = dense<[3, 2, 3, 4]> : tensor<4xi64>} : () -> tensor<4xi64>
  %third = pdc.node "Constant" "third"() {value = dense<[2, 3, 4]> : tensor<3xi64>} : () -> tensor<3xi64>
  %flat = pdc.node "Constant" "flat"() {value = dense<[6, 4]> : tensor<2xi64>} : () -> tensor<2xi64>

  // As timm's vision transformers divide queries, keys and values.
  // CHECK: %[[S1:.*]]:3 = pdc.node "Split" "s1"(%[[X]], %{{.*}}) {axis = 2 : i64} : {{.*}} -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>)
  // CHECK: %[[R1:.*]] = pdc.node "Reshape" "r1/part.1"(%[[S1]]#1, {{.*}} -> tensor<2x3x1x2x2xf32>
  // CHECK: %[[T1:.*]] = pdc.node "Transpose" "t1/part.1"(%[[R1]]) {perm = array<i64: 2, 0, 3, 1, 4>}
  // CHECK: pdc.accumulate %[[T1]] into @key
  %r1 = pdc.node "Reshape" "r1"(%x, %heads) {} : (tensor<2x3x12xf32>, tensor<5xi64>) -> tensor<2x3x3x2x2xf32>
  %t1 = pdc.node "Transpose" "t1"(%r1) {perm = array<i64: 2, 0, 3, 1, 4>} : (tensor<2x3x3x2x2xf32>) -> tensor<3x2x2x3x2xf32>
  %s1:3 = pdc.node "Split" "s1"(%t1, %ones) {axis = 0 : i64} : (tensor<3x2x2x3x2xf32>, tensor<3xi64>) -> (tensor<1x2x2x3x2xf32>, tensor<1x2x2x3x2xf32>, tensor<1x2x2x3x2xf32>)
  pdc.accumulate %s1#1 into @key : tensor<1x2x2x3x2xf32>

  // As nn.MultiheadAttention does.
  // CHECK: %[[S2:.*]]:3 = pdc.node "Split" "s2"(%[[X]], %{{.*}}) {axis = 2 : i64} : {{.*}} -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>)
  // CHECK: %[[A2:.*]] = pdc.node "Reshape" "a2/part.2"(%[[S2]]#2, {{.*}} -> tensor<2x3x1x4xf32>
  // CHECK: %[[B2:.*]] = pdc.node "Reshape" "b2/part.2"(%[[A2]], {{.*}} -> tensor<1x2x3x1x4xf32>
  // CHECK: %[[T2:.*]] = pdc.node "Transpose" "t2/part.2"(%[[B2]]) {perm = array<i64: 3, 1, 2, 0, 4>}
  // CHECK: %[[C2:.*]] = pdc.node "Reshape" "c2/part.2"(%[[T2]], {{.*}} -> tensor<1x2x3x4xf32>
  // CHECK: pdc.node "Reshape" "v2"(%[[C2]],
  %a2 = pdc.node "Reshape" "a2"(%x, %thirds) {} : (tensor<2x3x12xf32>, tensor<4xi64>) -> tensor<2x3x3x4xf32>
  %b2 = pdc.node "Reshape" "b2"(%a2, %before) {} : (tensor<2x3x3x4xf32>, tensor<5xi64>) -> tensor<1x2x3x3x4xf32>
  %t2 = pdc.node "Transpose" "t2"(%b2) {perm = array<i64: 3, 1, 2, 0, 4>} : (tensor<1x2x3x3x4xf32>) -> tensor<3x2x3x1x4xf32>
  %c2 = pdc.node "Reshape" "c2"(%t2, %without) {} : (tensor<3x2x3x1x4xf32>, tensor<4xi64>) -> tensor<3x2x3x4xf32>
  %s2:3 = pdc.node "Split" "s2"(%c2, %ones) {axis = 0 : i64} : (tensor<3x2x3x4xf32>, tensor<3xi64>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>)
  %v2 = pdc.node "Reshape" "v2"(%s2#2, %third) {} : (tensor<1x2x3x4xf32>, tensor<3xi64>) -> tensor<2x3x4xf32>
  pdc.accumulate %v2 into @value : tensor<2x3x4xf32>

  // Unlike parts; the dimension is counted from the end.
  // CHECK: %[[S3:.*]]:3 = pdc.node "Split" "s3"(%[[Y]], %{{.*}}) {axis = 1 : i64} : {{.*}} -> (tensor<2x1xf32>, tensor<2x2xf32>, tensor<2x3xf32>)
  // CHECK: pdc.node "Transpose" "t3/part"(%[[S3]]#0) {perm = array<i64: 1, 0>}
  %t3 = pdc.node "Transpose" "t3"(%y) {perm = array<i64: 1, 0>} : (tensor<2x6xf32>) -> tensor<6x2xf32>
  %s3:3 = pdc.node "Split" "s3"(%t3, %unlike) {axis = -2 : i64} : (tensor<6x2xf32>, tensor<3xi64>) -> (tensor<1x2xf32>, tensor<2x2xf32>, tensor<3x2xf32>)
  pdc.accumulate %s3#0 into @column : tensor<1x2xf32>

  // A part is none of one dimension before the view.
  // CHECK: %[[R4:.*]] = pdc.node "Reshape" "r4"(%[[Z]],
  // CHECK: %[[S4:.*]]:2 = pdc.node "Split" "s4"(%[[R4]], %{{.*}}) {axis = 0 : i64} : {{.*}} -> (tensor<2x4xf32>, tensor<4x4xf32>)
  // CHECK: pdc.node "Transpose" "t4/part.1"(%[[S4]]#1)
  %r4 = pdc.node "Reshape" "r4"(%z, %flat) {} : (tensor<2x3x4xf32>, tensor<2xi64>) -> tensor<6x4xf32>
  %t4 = pdc.node "Transpose" "t4"(%r4) {perm = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %s4:2 = pdc.node "Split" "s4"(%t4, %some) {axis = 1 : i64} : (tensor<4x6xf32>, tensor<2xi64>) -> (tensor<4x2xf32>, tensor<4x4xf32>)
  pdc.accumulate %s4#1 into @rows : tensor<4x4xf32>

  // Others read the whole.
  // CHECK: %[[T5:.*]] = pdc.node "Transpose" "t5"(%[[Y]])
  // CHECK: pdc.node "Split" "s5"(%[[T5]],
  %t5 = pdc.node "Transpose" "t5"(%y) {perm = array<i64: 1, 0>} : (tensor<2x6xf32>) -> tensor<6x2xf32>
  %s5:2 = pdc.node "Split" "s5"(%t5, %threes) {axis = 0 : i64} : (tensor<6x2xf32>, tensor<2xi64>) -> (tensor<3x2xf32>, tensor<3x2xf32>)
  pdc.accumulate %s5#0 into @one : tensor<3x2xf32>
  pdc.accumulate %t5 into @all : tensor<6x2xf32>

  // Without a permutation dimensions are reversed.
  // CHECK: %[[S6:.*]]:2 = pdc.node "Split" "s6"(%[[Z]], %{{.*}}) {axis = 0 : i64} : {{.*}} -> (tensor<1x3x4xf32>, tensor<1x3x4xf32>)
  // CHECK: pdc.node "Transpose" "t6/part"(%[[S6]]#0)
  %pair = pdc.node "Constant" "pair"() {value = dense<[1, 1]> : tensor<2xi64>} : () -> tensor<2xi64>
  %t6 = pdc.node "Transpose" "t6"(%z) {} : (tensor<2x3x4xf32>) -> tensor<4x3x2xf32>
  %s6:2 = pdc.node "Split" "s6"(%t6, %pair) {axis = 2 : i64} : (tensor<4x3x2xf32>, tensor<2xi64>) -> (tensor<4x3x1xf32>, tensor<4x3x1xf32>)
  pdc.accumulate %s6#0 into @reversed : tensor<4x3x1xf32>
  return
}
