// RUN: pdc-opt %s --join-slices --check-against=%s -o - | FileCheck %s
// What is joined already stays as it is.
// RUN: pdc-opt %s --join-slices --join-slices --check-against=%s -o - | FileCheck %s

// Slices and picks that take each element of a dimension once are the parts of a Split.

pdc.memory @halves input microbatch : tensor<4x2xf32>
pdc.memory @row metric update : tensor<1x2xf32>
pdc.memory @half metric update : tensor<2x2xf32>
pdc.memory @w weight version : tensor<6x2xf32>
pdc.memory @stack weight version : tensor<2x4xf32>
pdc.memory @x input microbatch : tensor<2x6xf32>
pdc.memory @steps input microbatch : tensor<3x4xf32>
pdc.memory @seen metric update : tensor<2x6xf32>
pdc.memory @one metric update : tensor<2x2xf32>
pdc.memory @two metric update : tensor<2x3xf32>
pdc.memory @three metric update : tensor<2x1xf32>
pdc.memory @again metric update : tensor<2x1xf32>
pdc.memory @step metric update : tensor<4xf32>
pdc.memory @rest metric update : tensor<2x4xf32>
pdc.memory @left metric update : tensor<2x4xf32>
pdc.memory @right metric update : tensor<2x3xf32>
pdc.memory @even metric update : tensor<2x3xf32>
pdc.memory @odd metric update : tensor<2x3xf32>
pdc.memory @nothing metric update : tensor<2x0xf32>
pdc.memory @gates metric update : tensor<6x2xf32>
pdc.memory @upper metric update : tensor<1x4xf32>
pdc.memory @lower metric update : tensor<1x4xf32>

// CHECK-LABEL: func.func @train
// CHECK-DAG: %[[W:.*]] = pdc.weight_version @w
// CHECK-DAG: %[[X:.*]] = pdc.read @x
// CHECK-DAG: %[[STEPS:.*]] = pdc.read @steps
func.func @train() {
  %w = pdc.weight_version @w latest : tensor<6x2xf32>
  %stack = pdc.weight_version @stack latest : tensor<2x4xf32>
  %x = pdc.read @x : tensor<2x6xf32>
  %steps = pdc.read @steps : tensor<3x4xf32>
  %c0 = pdc.node "Constant" "c0"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %c1 = pdc.node "Constant" "c1"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  %c2 = pdc.node "Constant" "c2"() {value = dense<2> : tensor<1xi64>} : () -> tensor<1xi64>
  %c3 = pdc.node "Constant" "c3"() {value = dense<3> : tensor<1xi64>} : () -> tensor<1xi64>
  %last = pdc.node "Constant" "last"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %end = pdc.node "Constant" "end"() {value = dense<9223372036854775807> : tensor<1xi64>} : () -> tensor<1xi64>
  %first = pdc.node "Constant" "first"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>

  // In any order, from either end, one of them twice; an empty one divides nothing.
  // CHECK: pdc.node "Slice" "empty"
  // CHECK: %[[SIZES:.*]] = pdc.node "Constant" "back/sizes"() {value = dense<[2, 3, 1]> : tensor<3xi64>}
  // CHECK: %[[PARTS:.*]]:3 = pdc.node "Split" "back"(%[[X]], %[[SIZES]]) {axis = 1 : i64}
  // CHECK-DAG: pdc.accumulate %[[PARTS]]#0 into @one
  // CHECK-DAG: pdc.accumulate %[[PARTS]]#1 into @two
  // CHECK-DAG: pdc.accumulate %[[PARTS]]#2 into @three
  // CHECK-DAG: pdc.accumulate %[[PARTS]]#2 into @again
  %empty = pdc.node "Slice" "empty"(%x, %c2, %c2, %c1) {} : (tensor<2x6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x0xf32>
  pdc.accumulate %empty into @nothing : tensor<2x0xf32>
  %back = pdc.node "Slice" "back"(%x, %last, %end, %c1, %c1) {} : (tensor<2x6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x1xf32>
  %front = pdc.node "Slice" "front"(%x, %c0, %c2, %c1) {} : (tensor<2x6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x2xf32>
  %middle = pdc.node "Slice" "middle"(%x, %c2, %last, %last) {} : (tensor<2x6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x3xf32>
  %twice = pdc.node "Slice" "twice"(%x, %last, %end, %c1) {} : (tensor<2x6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x1xf32>
  pdc.accumulate %front into @one : tensor<2x2xf32>
  pdc.accumulate %middle into @two : tensor<2x3xf32>
  pdc.accumulate %back into @three : tensor<2x1xf32>
  pdc.accumulate %twice into @again : tensor<2x1xf32>

  // The first step, without its dimension, and the others.
  // CHECK: %[[STEP:.*]]:2 = pdc.node "Split" "step"(%[[STEPS]], %{{.*}}) {axis = 0 : i64} : (tensor<3x4xf32>, tensor<2xi64>) -> (tensor<1x4xf32>, tensor<2x4xf32>)
  // CHECK: %[[FLAT:.*]] = pdc.node "Reshape" "step/part"(%[[STEP]]#0, %{{.*}}) {} : (tensor<1x4xf32>, tensor<1xi64>) -> tensor<4xf32>
  // CHECK: pdc.accumulate %[[FLAT]] into @step
  // CHECK: pdc.accumulate %[[STEP]]#1 into @rest
  %step = pdc.node "Gather" "step"(%steps, %first) {axis = 0 : i64} : (tensor<3x4xf32>, tensor<i64>) -> tensor<4xf32>
  %rest = pdc.node "Slice" "rest"(%steps, %c1, %end) {} : (tensor<3x4xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x4xf32>
  pdc.accumulate %step into @step : tensor<4xf32>
  pdc.accumulate %rest into @rest : tensor<2x4xf32>

  // Gates of a weight, all of which one node reads.
  // CHECK: %[[GATES:.*]]:3 = pdc.node "Split" "in"(%[[W]], %{{.*}}) {axis = 0 : i64} : {{.*}} -> (tensor<1x2xf32>, tensor<2x2xf32>, tensor<3x2xf32>)
  // CHECK: pdc.node "Concat" "gates"(%[[GATES]]#0, %[[GATES]]#2, %[[GATES]]#1)
  %in = pdc.node "Slice" "in"(%w, %c0, %c1) {} : (tensor<6x2xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<1x2xf32>
  %out = pdc.node "Slice" "out"(%w, %c3, %end) {} : (tensor<6x2xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<3x2xf32>
  %forget = pdc.node "Slice" "forget"(%w, %c1, %c3) {} : (tensor<6x2xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x2xf32>
  %gates = pdc.node "Concat" "gates"(%in, %out, %forget) {axis = 0 : i64} : (tensor<1x2xf32>, tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<6x2xf32>
  pdc.accumulate %gates into @gates : tensor<6x2xf32>

  // Two layers' parts of a weight.
  // CHECK: pdc.node "Slice" "upper"
  // CHECK: pdc.node "Slice" "lower"
  %upper = pdc.node "Slice" "upper"(%stack, %c0, %c1) {} : (tensor<2x4xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<1x4xf32>
  %lower = pdc.node "Slice" "lower"(%stack, %c1, %c2) {} : (tensor<2x4xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<1x4xf32>
  %above = pdc.node "Relu" "above"(%upper) {} : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %below = pdc.node "Relu" "below"(%lower) {} : (tensor<1x4xf32>) -> tensor<1x4xf32>
  pdc.accumulate %above into @upper : tensor<1x4xf32>
  pdc.accumulate %below into @lower : tensor<1x4xf32>

  // A part that is divided again.
  // CHECK: %[[HALVES:.*]]:2 = pdc.node "Split" "upper_half"(%{{.*}}, %{{.*}}) {axis = 0 : i64} : {{.*}} -> (tensor<2x2xf32>, tensor<2x2xf32>)
  // CHECK: %[[ROWS:.*]]:2 = pdc.node "Split" "first_row"(%[[HALVES]]#0, %{{.*}}) {axis = 0 : i64} : {{.*}} -> (tensor<1x2xf32>, tensor<1x2xf32>)
  // CHECK: pdc.accumulate %[[ROWS]]#0 into @row
  // CHECK: pdc.accumulate %[[ROWS]]#1 into @row
  // CHECK: pdc.accumulate %[[HALVES]]#1 into @half
  %halves = pdc.read @halves : tensor<4x2xf32>
  %upper_half = pdc.node "Slice" "upper_half"(%halves, %c0, %c2) {} : (tensor<4x2xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x2xf32>
  %lower_half = pdc.node "Slice" "lower_half"(%halves, %c2, %end) {} : (tensor<4x2xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x2xf32>
  %first_row = pdc.node "Slice" "first_row"(%upper_half, %c0, %c1) {} : (tensor<2x2xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<1x2xf32>
  %second_row = pdc.node "Slice" "second_row"(%upper_half, %c1, %c2) {} : (tensor<2x2xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<1x2xf32>
  pdc.accumulate %first_row into @row : tensor<1x2xf32>
  pdc.accumulate %second_row into @row : tensor<1x2xf32>
  pdc.accumulate %lower_half into @half : tensor<2x2xf32>
  return
}

// Parts that overlap, leave something out, take every other element or turn an image are no parts of a Split.
// CHECK-LABEL: func.func @evaluate
// CHECK-NOT: "Split"
func.func @evaluate() {
  %x = pdc.read @x : tensor<2x6xf32>
  %y = pdc.node "Relu" "y"(%x) {} : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %z = pdc.node "Neg" "z"(%x) {} : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %steps = pdc.read @steps : tensor<3x4xf32>
  %c0 = pdc.node "Constant" "c0"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %c1 = pdc.node "Constant" "c1"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  %c2 = pdc.node "Constant" "c2"() {value = dense<2> : tensor<1xi64>} : () -> tensor<1xi64>
  %c3 = pdc.node "Constant" "c3"() {value = dense<3> : tensor<1xi64>} : () -> tensor<1xi64>
  %c4 = pdc.node "Constant" "c4"() {value = dense<4> : tensor<1xi64>} : () -> tensor<1xi64>
  %end = pdc.node "Constant" "end"() {value = dense<6> : tensor<1xi64>} : () -> tensor<1xi64>
  %last = pdc.node "Constant" "last"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %start = pdc.node "Constant" "start"() {value = dense<-9223372036854775807> : tensor<1xi64>} : () -> tensor<1xi64>
  %first = pdc.node "Constant" "first"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
  %left = pdc.node "Slice" "left"(%x, %c0, %c4, %c1) {} : (tensor<2x6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x4xf32>
  %right = pdc.node "Slice" "right"(%x, %c3, %end, %c1) {} : (tensor<2x6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x3xf32>
  %even = pdc.node "Slice" "even"(%y, %c0, %end, %c1, %c2) {} : (tensor<2x6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x3xf32>
  %odd = pdc.node "Slice" "odd"(%y, %c1, %end, %c1, %c2) {} : (tensor<2x6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x3xf32>
  %half = pdc.node "Slice" "half"(%z, %c2, %start, %c1, %last) {} : (tensor<2x6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x3xf32>
  %other = pdc.node "Slice" "other"(%z, %c3, %end, %c1) {} : (tensor<2x6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x3xf32>
  %back = pdc.node "Concat" "back"(%half, %other) {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
  %step = pdc.node "Gather" "step"(%steps, %first) {axis = 0 : i64} : (tensor<3x4xf32>, tensor<i64>) -> tensor<4xf32>
  pdc.accumulate %back into @seen : tensor<2x6xf32>
  pdc.accumulate %left into @left : tensor<2x4xf32>
  pdc.accumulate %right into @right : tensor<2x3xf32>
  pdc.accumulate %even into @even : tensor<2x3xf32>
  pdc.accumulate %odd into @odd : tensor<2x3xf32>
  pdc.accumulate %step into @step : tensor<4xf32>
  return
}
