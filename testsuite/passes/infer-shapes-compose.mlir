// RUN: pdc-opt %s -infer-shapes | FileCheck %s

pdc.memory @x input microbatch : tensor<2x3xf32>

// An operator that others define gives way to their nodes, also to those of a composed part.
// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK: %[[X:.*]] = pdc.read @x
  %x = pdc.read @x : tensor<2x3xf32>
  // CHECK: %[[AXES:.*]] = pdc.node "Constant" "/Norm/Constant"() {value = dense<1> : tensor<1xi64>}
  // CHECK: %[[SQUARE:.*]] = pdc.node "Mul" "/Norm/ReduceL2/Mul"(%[[X]], %[[X]])
  // CHECK: %[[SUM:.*]] = pdc.node "ReduceSum" "/Norm/ReduceL2/ReduceSum"(%[[SQUARE]], %[[AXES]]) {keepdims = 1 : i64}
  // CHECK: %[[ROOT:.*]] = pdc.node "Sqrt" "/Norm/ReduceL2/Sqrt"(%[[SUM]])
  // CHECK: %[[Y:.*]] = pdc.node "Div" "/Norm/Div"(%[[X]], %[[ROOT]]) {} : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  %y = pdc.node "LpNormalization" "/Norm"(%x) {axis = 1 : i64, p = 2 : i64} : (tensor<2x3xf32>) -> tensor<*xf32>
  // CHECK: pdc.node "Relu" "/Relu"(%[[Y]])
  %z = pdc.node "Relu" "/Relu"(%y) {} : (tensor<*xf32>) -> tensor<*xf32>
  // A composed value that is known is a constant like any other.
  // CHECK: pdc.node "Constant" "/Tile"() {value = dense<7> : tensor<6xi64>}
  %seven = pdc.node "Constant" "/seven"() {value = dense<7> : tensor<2xi64>} : () -> tensor<*xi64>
  %three = pdc.node "Constant" "/three"() {value = dense<3> : tensor<1xi64>} : () -> tensor<*xi64>
  %tiled = pdc.node "Tile" "/Tile"(%seven, %three) {} : (tensor<*xi64>, tensor<*xi64>) -> tensor<*xi64>
  return
}
