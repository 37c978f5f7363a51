// RUN: pdc-opt %s -place-constants | FileCheck %s

// A mask and indices are read by kernels; an axis is known at compile time and a number is part of a
// loop. Equal constants are one memory, in both functions.
// CHECK: pdc.memory @"/mask" constant once : tensor<2x2xi1> {initial = dense<
// CHECK: pdc.memory @"/index" constant once : tensor<i64> {initial = dense<1> : tensor<i64>}
// CHECK-NOT: pdc.memory @"/same"
pdc.memory @x input microbatch : tensor<2x2xf32>
// CHECK-LABEL: func.func @train
func.func @train() {
  %x = pdc.read @x : tensor<2x2xf32>
  // CHECK-DAG: %[[MASK:.*]] = pdc.read @"/mask" : tensor<2x2xi1>
  // CHECK-DAG: %[[INDEX:.*]] = pdc.read @"/index" : tensor<i64>
  // CHECK-DAG: %[[ZERO:.*]] = pdc.node "Constant" "/zero"
  // CHECK-DAG: %[[AXES:.*]] = pdc.node "Constant" "/axes"
  %mask = pdc.node "Constant" "/mask"() {value = dense<[[true, false], [false, true]]> : tensor<2x2xi1>} : () -> tensor<2x2xi1>
  %zero = pdc.node "Constant" "/zero"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %axes = pdc.node "Constant" "/axes"() {value = dense<[0, 1]> : tensor<2xi64>} : () -> tensor<2xi64>
  %index = pdc.node "Constant" "/index"() {value = dense<1> : tensor<i64>} : () -> tensor<i64>
  // CHECK: pdc.node "Where" "/where"(%[[MASK]], %{{.*}}, %[[ZERO]])
  %y = pdc.node "Where" "/where"(%mask, %x, %zero) {} : (tensor<2x2xi1>, tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
  // CHECK: pdc.node "Gather" "/gather"(%{{.*}}, %[[INDEX]])
  %z = pdc.node "Gather" "/gather"(%y, %index) {axis = 0 : i64} : (tensor<2x2xf32>, tensor<i64>) -> tensor<2xf32>
  // CHECK: pdc.node "ReduceSum" "/sum"(%{{.*}}, %[[AXES]])
  %s = pdc.node "ReduceSum" "/sum"(%y, %axes) {keepdims = 0 : i64} : (tensor<2x2xf32>, tensor<2xi64>) -> tensor<f32>
  return
}

// CHECK-LABEL: func.func @evaluate
func.func @evaluate() {
  %x = pdc.read @x : tensor<2x2xf32>
  // CHECK: pdc.read @"/mask" : tensor<2x2xi1>
  %same = pdc.node "Constant" "/same"() {value = dense<[[true, false], [false, true]]> : tensor<2x2xi1>} : () -> tensor<2x2xi1>
  %y = pdc.node "Where" "/where"(%same, %x, %x) {} : (tensor<2x2xi1>, tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}
