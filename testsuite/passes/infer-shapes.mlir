// RUN: pdc-opt %s -infer-shapes | FileCheck %s

pdc.memory @x input microbatch : tensor<4x1x2x3xf32>

// The reshape's shape is computed from the input's: each node is evaluated before the next one is
// typed.
// CHECK-LABEL: func.func @train
func.func @train() {
  %x = pdc.read @x : tensor<4x1x2x3xf32>
  // CHECK: pdc.node "Constant" "/Shape"() {value = dense<[4, 1, 2, 3]> : tensor<4xi64>}
  %shape = pdc.node "Shape" "/Shape"(%x) {} : (tensor<4x1x2x3xf32>) -> tensor<*xi64>
  %zero = pdc.node "Constant" "/zero"() {value = dense<0> : tensor<1xi64>} : () -> tensor<*xi64>
  // CHECK: pdc.node "Constant" "/Gather"() {value = dense<4> : tensor<1xi64>}
  %n = pdc.node "Gather" "/Gather"(%shape, %zero) {axis = 0 : i64} : (tensor<*xi64>, tensor<*xi64>) -> tensor<*xi64>
  %rest = pdc.node "Constant" "/rest"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<*xi64>
  // CHECK: %[[TO:.*]] = pdc.node "Constant" "/Concat"() {value = dense<[4, -1]> : tensor<2xi64>}
  %to = pdc.node "Concat" "/Concat"(%n, %rest) {axis = 0 : i64} : (tensor<*xi64>, tensor<*xi64>) -> tensor<*xi64>
  // CHECK: pdc.node "Reshape" "/Reshape"(%{{.*}}, %[[TO]]) {} : (tensor<4x1x2x3xf32>, tensor<2xi64>) -> tensor<4x6xf32>
  %flat = pdc.node "Reshape" "/Reshape"(%x, %to) {} : (tensor<4x1x2x3xf32>, tensor<*xi64>) -> tensor<*xf32>
  // CHECK: pdc.node "Relu" "/Relu"(%{{.*}}) {} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %y = pdc.node "Relu" "/Relu"(%flat) {} : (tensor<*xf32>) -> tensor<*xf32>
  // What has no elements is known, whatever is read.
  %one = pdc.node "Constant" "/one"() {value = dense<1> : tensor<1xi64>} : () -> tensor<*xi64>
  // CHECK: pdc.node "Constant" "/Slice"() {value = dense<> : tensor<4x0xf32>}
  %none = pdc.node "Slice" "/Slice"(%y, %zero, %zero, %one) {} : (tensor<*xf32>, tensor<*xi64>, tensor<*xi64>, tensor<*xi64>) -> tensor<*xf32>
  // CHECK: pdc.node "Constant" "/Mul"() {value = dense<> : tensor<4x0xf32>}
  %product = pdc.node "Mul" "/Mul"(%none, %none) {} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return
}

// CHECK-LABEL: func.func @evaluate
func.func @evaluate() {
  %x = pdc.read @x : tensor<4x1x2x3xf32>
  // CHECK: pdc.node "Flatten" "/Flatten"(%{{.*}}) {} : (tensor<4x1x2x3xf32>) -> tensor<4x6xf32>
  %y = pdc.node "Flatten" "/Flatten"(%x) {} : (tensor<4x1x2x3xf32>) -> tensor<*xf32>
  return
}
