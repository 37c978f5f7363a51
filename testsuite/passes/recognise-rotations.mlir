// RUN: pdc-opt %s --recognise-composites --check-against=%s -o - | FileCheck %s

// Rotary position embeddings, x cos + (-x2, x1) sin, before the transposition of what they turn.

pdc.memory @x input microbatch : tensor<2x3x2x4xf32>
pdc.memory @cos constant once : tensor<1x1x3x4xf32> {initial = dense<0.8> : tensor<1x1x3x4xf32>}
pdc.memory @sin constant once : tensor<1x1x3x4xf32> {initial = dense<0.6> : tensor<1x1x3x4xf32>}
pdc.memory @heads constant once : tensor<1x2x3x4xf32> {initial = dense<0.6> : tensor<1x2x3x4xf32>}
pdc.memory @one metric update : tensor<2x2x3x4xf32>
pdc.memory @two metric update : tensor<2x3x2x4xf32>
pdc.memory @three metric update : tensor<2x2x3x4xf32>
pdc.memory @four metric update : tensor<2x2x3x4xf32>

// CHECK-LABEL: func.func @train
// CHECK-DAG: %[[X:.*]] = pdc.read @x
// CHECK-DAG: %[[COS:.*]] = pdc.read @cos
// CHECK-DAG: %[[SIN:.*]] = pdc.read @sin
// CHECK-DAG: %[[HEADS:.*]] = pdc.read @heads
func.func @train() {
  %x = pdc.read @x : tensor<2x3x2x4xf32>
  %cos = pdc.read @cos : tensor<1x1x3x4xf32>
  %sin = pdc.read @sin : tensor<1x1x3x4xf32>
  %heads = pdc.read @heads : tensor<1x2x3x4xf32>
  %halves = pdc.node "Constant" "halves"() {value = dense<[2, 2]> : tensor<2xi64>} : () -> tensor<2xi64>
  %angles = pdc.node "Constant" "angles"() {value = dense<[1, 3, 1, 4]> : tensor<4xi64>} : () -> tensor<4xi64>

  // Angles of rows, which come before heads where x is.
  // CHECK-DAG: %[[C1:.*]] = pdc.node "Reshape" "one/angles"(%[[COS]], {{.*}} -> tensor<1x3x1x4xf32>
  // CHECK-DAG: %[[S1:.*]] = pdc.node "Reshape" "one/angles.1"(%[[SIN]], {{.*}} -> tensor<1x3x1x4xf32>
  // CHECK: %[[R1:.*]] = pdc.node "RotateHalves" "one/RotateHalves"(%[[X]], %[[C1]], %[[S1]]) {inverse = 0 : i64} : {{.*}} -> tensor<2x3x2x4xf32>
  // CHECK: pdc.node "Transpose" "one"(%[[R1]]) {perm = array<i64: 0, 2, 1, 3>}
  %t1 = pdc.node "Transpose" "t1"(%x) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x2x4xf32>) -> tensor<2x2x3x4xf32>
  %s1:2 = pdc.node "Split" "s1"(%t1, %halves) {axis = 3 : i64} : (tensor<2x2x3x4xf32>, tensor<2xi64>) -> (tensor<2x2x3x2xf32>, tensor<2x2x3x2xf32>)
  %n1 = pdc.node "Neg" "n1"(%s1#1) {} : (tensor<2x2x3x2xf32>) -> tensor<2x2x3x2xf32>
  %j1 = pdc.node "Concat" "j1"(%n1, %s1#0) {axis = -1 : i64} : (tensor<2x2x3x2xf32>, tensor<2x2x3x2xf32>) -> tensor<2x2x3x4xf32>
  %b1 = pdc.node "Mul" "b1"(%j1, %sin) {} : (tensor<2x2x3x4xf32>, tensor<1x1x3x4xf32>) -> tensor<2x2x3x4xf32>
  %a1 = pdc.node "Mul" "a1"(%t1, %cos) {} : (tensor<2x2x3x4xf32>, tensor<1x1x3x4xf32>) -> tensor<2x2x3x4xf32>
  %one = pdc.node "Add" "one"(%a1, %b1) {} : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %one into @one : tensor<2x2x3x4xf32>

  // Not transposed; factors and terms in another order.
  // CHECK: %[[C2:.*]] = pdc.node "Reshape" "c2"
  // CHECK: %[[S2:.*]] = pdc.node "Reshape" "d2"
  // CHECK: pdc.node "RotateHalves" "two"(%[[X]], %[[C2]], %[[S2]]) {inverse = 0 : i64}
  %c2 = pdc.node "Reshape" "c2"(%cos, %angles) {} : (tensor<1x1x3x4xf32>, tensor<4xi64>) -> tensor<1x3x1x4xf32>
  %d2 = pdc.node "Reshape" "d2"(%sin, %angles) {} : (tensor<1x1x3x4xf32>, tensor<4xi64>) -> tensor<1x3x1x4xf32>
  %s2:2 = pdc.node "Split" "s2"(%x, %halves) {axis = 3 : i64} : (tensor<2x3x2x4xf32>, tensor<2xi64>) -> (tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>)
  %n2 = pdc.node "Neg" "n2"(%s2#1) {} : (tensor<2x3x2x2xf32>) -> tensor<2x3x2x2xf32>
  %j2 = pdc.node "Concat" "j2"(%n2, %s2#0) {axis = 3 : i64} : (tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>) -> tensor<2x3x2x4xf32>
  %b2 = pdc.node "Mul" "b2"(%d2, %j2) {} : (tensor<1x3x1x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  %a2 = pdc.node "Mul" "a2"(%c2, %x) {} : (tensor<1x3x1x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  %two = pdc.node "Add" "two"(%b2, %a2) {} : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  pdc.accumulate %two into @two : tensor<2x3x2x4xf32>

  // Angles of rows and heads, which no view puts in the order of x.
  // CHECK: %[[T3:.*]] = pdc.node "Transpose" "t3"(%[[X]])
  // CHECK: pdc.node "RotateHalves" "three"(%[[T3]], %[[HEADS]], %[[HEADS]]) {inverse = 0 : i64}
  %t3 = pdc.node "Transpose" "t3"(%x) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x2x4xf32>) -> tensor<2x2x3x4xf32>
  %s3:2 = pdc.node "Split" "s3"(%t3, %halves) {axis = -1 : i64} : (tensor<2x2x3x4xf32>, tensor<2xi64>) -> (tensor<2x2x3x2xf32>, tensor<2x2x3x2xf32>)
  %n3 = pdc.node "Neg" "n3"(%s3#1) {} : (tensor<2x2x3x2xf32>) -> tensor<2x2x3x2xf32>
  %j3 = pdc.node "Concat" "j3"(%n3, %s3#0) {axis = -1 : i64} : (tensor<2x2x3x2xf32>, tensor<2x2x3x2xf32>) -> tensor<2x2x3x4xf32>
  %b3 = pdc.node "Mul" "b3"(%j3, %heads) {} : (tensor<2x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  %a3 = pdc.node "Mul" "a3"(%t3, %heads) {} : (tensor<2x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  %three = pdc.node "Add" "three"(%a3, %b3) {} : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %three into @three : tensor<2x2x3x4xf32>

  // The other half is negated: the inverse of one, which is not looked for.
  // CHECK: pdc.node "Add" "four"
  %t4 = pdc.node "Transpose" "t4"(%x) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x2x4xf32>) -> tensor<2x2x3x4xf32>
  %s4:2 = pdc.node "Split" "s4"(%t4, %halves) {axis = 3 : i64} : (tensor<2x2x3x4xf32>, tensor<2xi64>) -> (tensor<2x2x3x2xf32>, tensor<2x2x3x2xf32>)
  %n4 = pdc.node "Neg" "n4"(%s4#0) {} : (tensor<2x2x3x2xf32>) -> tensor<2x2x3x2xf32>
  %j4 = pdc.node "Concat" "j4"(%s4#1, %n4) {axis = -1 : i64} : (tensor<2x2x3x2xf32>, tensor<2x2x3x2xf32>) -> tensor<2x2x3x4xf32>
  %b4 = pdc.node "Mul" "b4"(%j4, %sin) {} : (tensor<2x2x3x4xf32>, tensor<1x1x3x4xf32>) -> tensor<2x2x3x4xf32>
  %a4 = pdc.node "Mul" "a4"(%t4, %cos) {} : (tensor<2x2x3x4xf32>, tensor<1x1x3x4xf32>) -> tensor<2x2x3x4xf32>
  %four = pdc.node "Add" "four"(%a4, %b4) {} : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  pdc.accumulate %four into @four : tensor<2x2x3x4xf32>

  // The same half twice.
  // CHECK: pdc.node "Add" "five"
  %s5:2 = pdc.node "Split" "s5"(%x, %halves) {axis = 3 : i64} : (tensor<2x3x2x4xf32>, tensor<2xi64>) -> (tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>)
  %n5 = pdc.node "Neg" "n5"(%s5#0) {} : (tensor<2x3x2x2xf32>) -> tensor<2x3x2x2xf32>
  %j5 = pdc.node "Concat" "j5"(%n5, %s5#0) {axis = 3 : i64} : (tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>) -> tensor<2x3x2x4xf32>
  %b5 = pdc.node "Mul" "b5"(%j5, %d2) {} : (tensor<2x3x2x4xf32>, tensor<1x3x1x4xf32>) -> tensor<2x3x2x4xf32>
  %a5 = pdc.node "Mul" "a5"(%x, %c2) {} : (tensor<2x3x2x4xf32>, tensor<1x3x1x4xf32>) -> tensor<2x3x2x4xf32>
  %five = pdc.node "Add" "five"(%a5, %b5) {} : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  pdc.accumulate %five into @two : tensor<2x3x2x4xf32>

  // Neighbours are turned; and the second of each where the first one should be.
  // CHECK: pdc.node "RotateHalves" "six"(%[[X]], %[[C2]], %[[S2]]) {interleaved = 1 : i64, inverse = 0 : i64}
  // CHECK: pdc.node "Add" "seven"
  %none = pdc.node "Constant" "none"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %single = pdc.node "Constant" "single"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  %every = pdc.node "Constant" "every"() {value = dense<2> : tensor<1xi64>} : () -> tensor<1xi64>
  %last = pdc.node "Constant" "last"() {value = dense<3> : tensor<1xi64>} : () -> tensor<1xi64>
  %behind = pdc.node "Constant" "behind"() {value = dense<4> : tensor<1xi64>} : () -> tensor<1xi64>
  %end = pdc.node "Constant" "end"() {value = dense<9223372036854775807> : tensor<1xi64>} : () -> tensor<1xi64>
  %flat = pdc.node "Constant" "flat"() {value = dense<[2, 3, 2, 4]> : tensor<4xi64>} : () -> tensor<4xi64>
  %e6 = pdc.node "Slice" "e6"(%x, %none, %end, %last, %every) {} : (tensor<2x3x2x4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x3x2x2xf32>
  %o6 = pdc.node "Slice" "o6"(%x, %single, %end, %last, %every) {} : (tensor<2x3x2x4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x3x2x2xf32>
  %n6 = pdc.node "Neg" "n6"(%o6) {} : (tensor<2x3x2x2xf32>) -> tensor<2x3x2x2xf32>
  %u6 = pdc.node "Unsqueeze" "u6"(%n6, %behind) {} : (tensor<2x3x2x2xf32>, tensor<1xi64>) -> tensor<2x3x2x2x1xf32>
  %v6 = pdc.node "Unsqueeze" "v6"(%e6, %behind) {} : (tensor<2x3x2x2xf32>, tensor<1xi64>) -> tensor<2x3x2x2x1xf32>
  %j6 = pdc.node "Concat" "j6"(%u6, %v6) {axis = -1 : i64} : (tensor<2x3x2x2x1xf32>, tensor<2x3x2x2x1xf32>) -> tensor<2x3x2x2x2xf32>
  %f6 = pdc.node "Reshape" "f6"(%j6, %flat) {} : (tensor<2x3x2x2x2xf32>, tensor<4xi64>) -> tensor<2x3x2x4xf32>
  %b6 = pdc.node "Mul" "b6"(%f6, %d2) {} : (tensor<2x3x2x4xf32>, tensor<1x3x1x4xf32>) -> tensor<2x3x2x4xf32>
  %a6 = pdc.node "Mul" "a6"(%x, %c2) {} : (tensor<2x3x2x4xf32>, tensor<1x3x1x4xf32>) -> tensor<2x3x2x4xf32>
  %six = pdc.node "Add" "six"(%a6, %b6) {} : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  pdc.accumulate %six into @two : tensor<2x3x2x4xf32>
  %e7 = pdc.node "Slice" "e7"(%x, %single, %end, %last, %every) {} : (tensor<2x3x2x4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x3x2x2xf32>
  %o7 = pdc.node "Slice" "o7"(%x, %none, %end, %last, %every) {} : (tensor<2x3x2x4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x3x2x2xf32>
  %n7 = pdc.node "Neg" "n7"(%o7) {} : (tensor<2x3x2x2xf32>) -> tensor<2x3x2x2xf32>
  %u7 = pdc.node "Unsqueeze" "u7"(%n7, %behind) {} : (tensor<2x3x2x2xf32>, tensor<1xi64>) -> tensor<2x3x2x2x1xf32>
  %v7 = pdc.node "Unsqueeze" "v7"(%e7, %behind) {} : (tensor<2x3x2x2xf32>, tensor<1xi64>) -> tensor<2x3x2x2x1xf32>
  %j7 = pdc.node "Concat" "j7"(%u7, %v7) {axis = -1 : i64} : (tensor<2x3x2x2x1xf32>, tensor<2x3x2x2x1xf32>) -> tensor<2x3x2x2x2xf32>
  %f7 = pdc.node "Reshape" "f7"(%j7, %flat) {} : (tensor<2x3x2x2x2xf32>, tensor<4xi64>) -> tensor<2x3x2x4xf32>
  %b7 = pdc.node "Mul" "b7"(%f7, %d2) {} : (tensor<2x3x2x4xf32>, tensor<1x3x1x4xf32>) -> tensor<2x3x2x4xf32>
  %a7 = pdc.node "Mul" "a7"(%x, %c2) {} : (tensor<2x3x2x4xf32>, tensor<1x3x1x4xf32>) -> tensor<2x3x2x4xf32>
  %seven = pdc.node "Add" "seven"(%a7, %b7) {} : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  pdc.accumulate %seven into @two : tensor<2x3x2x4xf32>
  return
}
