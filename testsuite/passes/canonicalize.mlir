// RUN: pdc-opt %s -canonicalize | FileCheck %s

pdc.memory @x input microbatch : tensor<4x6xf32>
pdc.memory @random input microbatch : tensor<6xi64>
pdc.memory @y metric update : tensor<4x6xf32>
pdc.memory @nothing input microbatch : tensor<4x0xf32>
pdc.memory @pair metric update : tensor<4x12xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK-NEXT: %[[X:.*]] = pdc.read @x
  %x = pdc.read @x : tensor<4x6xf32>
  %random = pdc.read @random : tensor<6xi64>
  %a = pdc.node "Identity" "/identity"(%x) {} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %b = pdc.node "Flatten" "/same"(%a) {} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %c = pdc.node "Dropout" "/dropout"(%b, %random) {key = 7 : i64, ratio = 0.0 : f64} : (tensor<4x6xf32>, tensor<6xi64>) -> tensor<4x6xf32>
  %unread = pdc.node "Relu" "/unread"(%c) {} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK-NEXT: pdc.accumulate %[[X]] into @y
  pdc.accumulate %c into @y : tensor<4x6xf32>
  return
}

// A part that is all there is, in its order.
// CHECK-LABEL: func.func @parts
func.func @parts() {
  // CHECK: %[[X:.*]] = pdc.read @x
  // CHECK-NOT: "/all"
  // CHECK-NOT: "/once"
  // CHECK: %[[TURNED:.*]] = pdc.node "Slice" "/turned"(%[[X]],
  // CHECK: pdc.accumulate %[[X]] into @y
  // CHECK: pdc.accumulate %[[TURNED]] into @y
  %x = pdc.read @x : tensor<4x6xf32>
  %zero = pdc.node "Constant" "/zero"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %one = pdc.node "Constant" "/one"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  %end = pdc.node "Constant" "/end"() {value = dense<9223372036854775807> : tensor<1xi64>} : () -> tensor<1xi64>
  %back = pdc.node "Constant" "/back"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %least = pdc.node "Constant" "/least"() {value = dense<-9223372036854775807> : tensor<1xi64>} : () -> tensor<1xi64>
  %ones = pdc.node "Constant" "/ones"() {value = dense<1> : tensor<2xi64>} : () -> tensor<2xi64>
  %a = pdc.node "Slice" "/all"(%x, %zero, %end, %one, %one) {} : (tensor<4x6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<4x6xf32>
  %b = pdc.node "Slice" "/all_axes"(%a, %zero, %end) {} : (tensor<4x6xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<4x6xf32>
  %c = pdc.node "Tile" "/once"(%b, %ones) {} : (tensor<4x6xf32>, tensor<2xi64>) -> tensor<4x6xf32>
  %d = pdc.node "Slice" "/turned"(%c, %back, %least, %one, %back) {} : (tensor<4x6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<4x6xf32>
  pdc.accumulate %c into @y : tensor<4x6xf32>
  pdc.accumulate %d into @y : tensor<4x6xf32>
  return
}

// What has no elements adds nothing.
// CHECK-LABEL: func.func @joined
func.func @joined() {
  // CHECK: %[[X:.*]] = pdc.read @x
  // CHECK-NOT: "/alone"
  // CHECK: %[[TWO:.*]] = pdc.node "Concat" "/two"(%[[X]], %{{.*}}, %[[X]])
  // CHECK: pdc.accumulate %[[X]] into @y
  // CHECK: pdc.accumulate %[[TWO]] into @pair
  %x = pdc.read @x : tensor<4x6xf32>
  %nothing = pdc.read @nothing : tensor<4x0xf32>
  %a = pdc.node "Concat" "/alone"(%nothing, %x, %nothing) {axis = 1 : i64} : (tensor<4x0xf32>, tensor<4x6xf32>, tensor<4x0xf32>) -> tensor<4x6xf32>
  %b = pdc.node "Concat" "/two"(%x, %nothing, %x) {axis = 1 : i64} : (tensor<4x6xf32>, tensor<4x0xf32>, tensor<4x6xf32>) -> tensor<4x12xf32>
  pdc.accumulate %a into @y : tensor<4x6xf32>
  pdc.accumulate %b into @pair : tensor<4x12xf32>
  return
}

// A factor of one changes nothing, nor does a divisor of one.
// CHECK-LABEL: func.func @multiplied
func.func @multiplied() {
  // CHECK: %[[X:.*]] = pdc.read @x
  // CHECK-NOT: "/product"
  // CHECK: %[[INVERSE:.*]] = pdc.node "Div" "/inverse"
  // CHECK: pdc.accumulate %[[X]] into @y
  // CHECK: pdc.accumulate %[[INVERSE]] into @y
  %x = pdc.read @x : tensor<4x6xf32>
  %one = pdc.node "Constant" "/one_f"() {value = dense<1.0> : tensor<1x1xf32>} : () -> tensor<1x1xf32>
  %a = pdc.node "Mul" "/product"(%one, %x) {} : (tensor<1x1xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %b = pdc.node "Div" "/product.1"(%a, %one) {} : (tensor<4x6xf32>, tensor<1x1xf32>) -> tensor<4x6xf32>
  %c = pdc.node "Div" "/inverse"(%one, %b) {} : (tensor<1x1xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  pdc.accumulate %b into @y : tensor<4x6xf32>
  pdc.accumulate %c into @y : tensor<4x6xf32>
  return
}

// CHECK-LABEL: func.func @other
func.func @other() {
  %x = pdc.read @x : tensor<4x6xf32>
  %random = pdc.read @random : tensor<6xi64>
  // CHECK: pdc.node "Dropout"
  %c = pdc.node "Dropout" "/dropout"(%x, %random) {key = 7 : i64, ratio = 0.5 : f64} : (tensor<4x6xf32>, tensor<6xi64>) -> tensor<4x6xf32>
  pdc.accumulate %c into @y : tensor<4x6xf32>
  return
}
