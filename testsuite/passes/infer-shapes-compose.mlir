// RUN: pdc-opt %s -infer-shapes -split-input-file | FileCheck %s

pdc.memory @x input microbatch : tensor<2x3xf32>

// An operator that others define gives way to their nodes, also to those of a composed part.
// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK: %[[X:.*]] = pdc.read @x
  %x = pdc.read @x : tensor<2x3xf32>
  // CHECK: %[[AXES:.*]] = pdc.node "Constant" "/Norm/Constant.1"() {value = dense<1> : tensor<1xi64>}
  // CHECK: %[[SQUARE:.*]] = pdc.node "Mul" "/Norm/ReduceL2/Mul"(%[[X]], %[[X]])
  // CHECK: %[[SUM:.*]] = pdc.node "ReduceSum" "/Norm/ReduceL2/ReduceSum"(%[[SQUARE]], %[[AXES]]) {keepdims = 1 : i64}
  // CHECK: %[[SAFE:.*]] = pdc.node "Where" "/Norm/ReduceL2/Where"(%{{.*}}, %{{.*}}, %[[SUM]])
  // CHECK: %[[ROOT:.*]] = pdc.node "Sqrt" "/Norm/ReduceL2/Sqrt"(%[[SAFE]])
  // CHECK: %[[NORM:.*]] = pdc.node "Where" "/Norm/ReduceL2/Where.1"(%{{.*}}, %{{.*}}, %[[ROOT]])
  // CHECK: %[[DIVISOR:.*]] = pdc.node "Where" "/Norm/Where"(%{{.*}}, %{{.*}}, %[[NORM]])
  // CHECK: %[[Y:.*]] = pdc.node "Div" "/Norm/Div"(%[[X]], %[[DIVISOR]]) {} : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  %y = pdc.node "LpNormalization" "/Norm"(%x) {axis = 1 : i64, p = 2 : i64} : (tensor<2x3xf32>) -> tensor<*xf32>
  // CHECK: pdc.node "Relu" "/Relu"(%[[Y]])
  %z = pdc.node "Relu" "/Relu"(%y) {} : (tensor<*xf32>) -> tensor<*xf32>
  // To the elements that it has, a value is itself.
  // CHECK-NEXT: pdc.node "Sigmoid" "/Sigmoid"(%[[X]])
  %cast = pdc.node "Cast" "/Cast"(%x) {to = 1 : i64} : (tensor<2x3xf32>) -> tensor<*xf32>
  %like = pdc.node "CastLike" "/CastLike"(%cast, %x) {} : (tensor<*xf32>, tensor<2x3xf32>) -> tensor<*xf32>
  %s = pdc.node "Sigmoid" "/Sigmoid"(%like) {} : (tensor<*xf32>) -> tensor<*xf32>
  // A power that needs none, and others.
  // CHECK: %[[POWER2:.*]] = pdc.node "Mul" "/square{{.*}}(%[[X]], %[[X]])
  // CHECK: pdc.node "Pow" "/cube
  // CHECK: pdc.node "Pow" "/root{{.*}}(%[[POWER2]],
  // CHECK: pdc.node "Pow" "/fourth"
  %p2 = pdc.node "Constant" "/p2"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %p3 = pdc.node "Constant" "/p3"() {value = dense<3> : tensor<i64>} : () -> tensor<i64>
  %p4 = pdc.node "Constant" "/p4"() {value = dense<4.0> : tensor<f32>} : () -> tensor<f32>
  %half = pdc.node "Constant" "/half"() {value = dense<0.5> : tensor<1xf32>} : () -> tensor<1xf32>
  %square = pdc.node "Pow" "/square"(%x, %p2) {} : (tensor<2x3xf32>, tensor<f32>) -> tensor<*xf32>
  %cube = pdc.node "Pow" "/cube"(%x, %p3) {} : (tensor<2x3xf32>, tensor<i64>) -> tensor<*xf32>
  %root = pdc.node "Pow" "/root"(%square, %half) {} : (tensor<*xf32>, tensor<1xf32>) -> tensor<*xf32>
  %fourth = pdc.node "Pow" "/fourth"(%x, %p4) {} : (tensor<2x3xf32>, tensor<f32>) -> tensor<*xf32>
  // A composed value that is known is a constant like any other.
  // CHECK: pdc.node "Constant" "/Tile"() {value = dense<7> : tensor<6xi64>}
  %seven = pdc.node "Constant" "/seven"() {value = dense<7> : tensor<2xi64>} : () -> tensor<*xi64>
  %three = pdc.node "Constant" "/three"() {value = dense<3> : tensor<1xi64>} : () -> tensor<*xi64>
  %tiled = pdc.node "Tile" "/Tile"(%seven, %three) {} : (tensor<*xi64>, tensor<*xi64>) -> tensor<*xi64>
  return
}

// -----

pdc.memory @a input microbatch : tensor<2xf32>
pdc.memory @b input microbatch : tensor<2xf32>
pdc.memory @c input microbatch : tensor<3xf32>

// ONNX's Gradient of d = (a + b) * a by a, b and a value that d does not depend on.
// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK-DAG: %[[A:.*]] = pdc.read @a
  // CHECK-DAG: %[[B:.*]] = pdc.read @b
  %a = pdc.read @a : tensor<2xf32>
  %b = pdc.read @b : tensor<2xf32>
  %c = pdc.read @c : tensor<3xf32>
  // CHECK: %[[SUM:.*]] = pdc.node "Add" "sum"
  %sum = pdc.node "Add" "sum"(%a, %b) {} : (tensor<2xf32>, tensor<2xf32>) -> tensor<*xf32>
  %d = pdc.node "Mul" "product"(%sum, %a) {} : (tensor<*xf32>, tensor<2xf32>) -> tensor<*xf32>
  // CHECK: %[[ONE:.*]] = pdc.node "Constant" "gradient/Constant"() {value = dense<1.000000e+00> : tensor<2xf32>}
  // CHECK: %[[TO_SUM:.*]] = pdc.node "Mul" "product/grad/Mul"(%[[ONE]], %[[A]])
  // CHECK: %[[TO_A:.*]] = pdc.node "Mul" "product/grad/Mul.1"(%[[ONE]], %[[SUM]])
  // CHECK: %[[BY_A:.*]] = pdc.node "Sum" "gradient/grad/sum"(%[[TO_SUM]], %[[TO_A]])
  // CHECK: %[[ZERO:.*]] = pdc.node "Constant" "gradient/Constant.1"() {value = dense<0.000000e+00> : tensor<3xf32>}
  %g:3 = pdc.node "ai.onnx.preview.training.Gradient" "gradient"(%a, %b, %c, %d) {} : (tensor<2xf32>, tensor<2xf32>, tensor<3xf32>, tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  // CHECK: pdc.node "Neg" "by_a"(%[[BY_A]])
  // CHECK: pdc.node "Neg" "by_b"(%[[TO_SUM]])
  %by_a = pdc.node "Neg" "by_a"(%g#0) {} : (tensor<*xf32>) -> tensor<*xf32>
  %by_b = pdc.node "Neg" "by_b"(%g#1) {} : (tensor<*xf32>) -> tensor<*xf32>
  return
}

// -----

pdc.memory @a input microbatch : tensor<2xf32>

// By a value that is computed without a gradient, as if it were an input.
// CHECK-LABEL: func.func @train
func.func @train() {
  %a = pdc.read @a : tensor<2xf32>
  // CHECK: %[[X:.*]] = pdc.node "Floor" "x"
  %x = pdc.node "Floor" "x"(%a) {} : (tensor<2xf32>) -> tensor<*xf32>
  %y = pdc.node "Sin" "y"(%x) {} : (tensor<*xf32>) -> tensor<*xf32>
  // CHECK: %[[ONE:.*]] = pdc.node "Constant" "gradient/Constant"
  // CHECK: %[[BY_X:.*]] = pdc.node "SinGrad" "y/grad/SinGrad"(%[[ONE]], %[[X]])
  %g = pdc.node "ai.onnx.preview.training.Gradient" "gradient"(%x, %y) {} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  // CHECK: pdc.node "Neg" "by_x"(%[[BY_X]])
  %by_x = pdc.node "Neg" "by_x"(%g) {} : (tensor<*xf32>) -> tensor<*xf32>
  return
}
