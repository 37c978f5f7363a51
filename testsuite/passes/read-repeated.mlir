// RUN: pdc-opt %s --read-repeated --check-against=%s -o - | FileCheck %s

pdc.memory @x input microbatch : tensor<2x3x4xf32>
pdc.memory @gate input microbatch : tensor<2x3x1xf32>
pdc.memory @sum input microbatch : tensor<2x4xf32>
pdc.memory @number input microbatch : tensor<f32>
pdc.memory @one metric update : tensor<2x3x4xf32>
pdc.memory @two metric update : tensor<2x3x4xf32>
pdc.memory @three metric update : tensor<2x3x4xf32>
pdc.memory @four metric update : tensor<2x3x4xf32>
pdc.memory @five metric update : tensor<2x3x4xf32>
pdc.memory @six metric update : tensor<2x3x4xf32>
pdc.memory @seven metric update : tensor<2x3x4xf32>
pdc.memory @gradient metric update : tensor<2x3x1xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK: %[[X:.*]] = pdc.read @x
  %x = pdc.read @x : tensor<2x3x4xf32>
  // CHECK: %[[GATE:.*]] = pdc.read @gate
  %gate = pdc.read @gate : tensor<2x3x1xf32>
  // CHECK: %[[SUM:.*]] = pdc.read @sum
  %sum = pdc.read @sum : tensor<2x4xf32>
  // CHECK: %[[NUMBER:.*]] = pdc.read @number
  %number = pdc.read @number : tensor<f32>
  %shape = pdc.node "Constant" "shape"() {value = dense<[2, 3, 4]> : tensor<3xi64>} : () -> tensor<3xi64>
  %axis = pdc.node "Constant" "axis"() {value = dense<-2> : tensor<1xi64>} : () -> tensor<1xi64>

  // CHECK: pdc.node "Mul" "one"(%[[X]], %[[GATE]])
  %e1 = pdc.node "Expand" "e1"(%gate, %shape) {} : (tensor<2x3x1xf32>, tensor<3xi64>) -> tensor<2x3x4xf32>
  %one = pdc.node "Mul" "one"(%x, %e1) {} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  pdc.accumulate %one into @one : tensor<2x3x4xf32>

  // The dimension that a sum does not keep, for both readers.
  // CHECK: %[[KEPT:.*]] = pdc.node "Reshape" "sum/grad/kept"(%[[SUM]], %{{.*}}) {} origin "sum" : (tensor<2x4xf32>, tensor<3xi64>) -> tensor<2x1x4xf32>
  // CHECK: pdc.node "Mul" "two"(%[[KEPT]], %[[X]])
  // CHECK: pdc.node "Add" "three"(%[[X]], %[[KEPT]])
  %e2 = pdc.node "ReduceSumGrad" "sum/grad"(%sum, %shape, %axis) {keepdims = 0 : i64} origin "sum" : (tensor<2x4xf32>, tensor<3xi64>, tensor<1xi64>) -> tensor<2x3x4xf32>
  %two = pdc.node "Mul" "two"(%e2, %x) {} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %three = pdc.node "Add" "three"(%x, %e2) {} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  pdc.accumulate %two into @two : tensor<2x3x4xf32>
  pdc.accumulate %three into @three : tensor<2x3x4xf32>

  // The sum of all.
  // CHECK: pdc.node "AbsGrad" "four"(%[[NUMBER]], %[[X]])
  %e4 = pdc.node "ReduceSumGrad" "all/grad"(%number, %shape) {keepdims = 0 : i64} origin "sum" : (tensor<f32>, tensor<3xi64>) -> tensor<2x3x4xf32>
  %four = pdc.node "AbsGrad" "four"(%e4, %x) {} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  pdc.accumulate %four into @four : tensor<2x3x4xf32>

  // Where nothing else has the result's shape, what is repeated first stays.
  // CHECK: pdc.node "Mul" "five"(%[[NUMBER]], %{{.*}}) {} : (tensor<f32>, tensor<2x3x4xf32>)
  %e5 = pdc.node "Expand" "e5"(%number, %shape) {} : (tensor<f32>, tensor<3xi64>) -> tensor<2x3x4xf32>
  %five = pdc.node "Mul" "five"(%e5, %e1) {} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  pdc.accumulate %five into @five : tensor<2x3x4xf32>

  // Bounds have one element, whatever their dimensions.
  // CHECK: pdc.node "Clip" "bounded"(%{{.*}}, %{{.*}}, %{{.*}}) {} : (tensor<2x3x4xf32>, tensor<1x1xf32>, tensor<1x1xf32>)
  %least = pdc.node "Constant" "least"() {value = dense<-1.0> : tensor<1x1xf32>} : () -> tensor<1x1xf32>
  %most = pdc.node "Constant" "most"() {value = dense<1.0> : tensor<1x1xf32>} : () -> tensor<1x1xf32>
  %bounded = pdc.node "Clip" "bounded"(%e5, %least, %most) {} : (tensor<2x3x4xf32>, tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<2x3x4xf32>
  pdc.accumulate %bounded into @five : tensor<2x3x4xf32>

  // What is no loop reads what is written.
  // CHECK: pdc.node "Softmax" "six"(%{{.*}}) {axis = -1 : i64} : (tensor<2x3x4xf32>)
  %six = pdc.node "Softmax" "six"(%e1) {axis = -1 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  pdc.accumulate %six into @six : tensor<2x3x4xf32>

  // The gradient of what nobody repeats any more comes from its reader.
  // CHECK-NOT: "e7"
  // CHECK: pdc.node "Mul" "seven"(%[[GATE]], %[[X]])
  // CHECK: pdc.node "ReduceSum" "e7/grad"({{.*}}) {keepdims = 1 : i64} origin "seven"
  %e7 = pdc.node "Expand" "e7"(%gate, %shape) {} : (tensor<2x3x1xf32>, tensor<3xi64>) -> tensor<2x3x4xf32>
  %seven = pdc.node "Mul" "seven"(%e7, %x) {} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %last = pdc.node "Constant" "last"() {value = dense<2> : tensor<1xi64>} : () -> tensor<1xi64>
  %g7 = pdc.node "ReduceSum" "e7/grad"(%seven, %last) {keepdims = 1 : i64} origin "e7" : (tensor<2x3x4xf32>, tensor<1xi64>) -> tensor<2x3x1xf32>
  pdc.accumulate %seven into @seven : tensor<2x3x4xf32>
  pdc.accumulate %g7 into @gradient : tensor<2x3x1xf32>
  return
}
