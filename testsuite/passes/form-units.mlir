// RUN: pdc-opt %s -form-units | FileCheck %s

pdc.memory @w weight version : tensor<6x6xf32>
pdc.memory @x input microbatch : tensor<2x1x6xf32>
pdc.memory @"w/gradient" gradient update : tensor<6x6xf32>
pdc.memory @y metric update : tensor<2x6xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK: %[[X:.*]] = pdc.read @x
  // CHECK: %[[W:.*]] = pdc.weight_version @w
  %x = pdc.read @x : tensor<2x1x6xf32>
  %w = pdc.weight_version @w latest : tensor<6x6xf32>
  %shape = pdc.node "Constant" "/shape"() {value = dense<[2, 6]> : tensor<2xi64>} phase forward rate once : () -> tensor<2xi64>
  // A view is a unit of its own; the constant that it reads is inside.
  // CHECK: %[[V:.*]] = pdc.unit "/view" origin "/view" forward microbatch (%{{.*}} = %[[X]] : tensor<2x1x6xf32>) -> (tensor<2x6xf32>) {
  // CHECK-NEXT: pdc.node "Constant" "/shape"
  // CHECK-NEXT: pdc.node "Reshape" "/view"
  %v = pdc.node "Reshape" "/view"(%x, %shape) {} phase forward rate microbatch : (tensor<2x1x6xf32>, tensor<2xi64>) -> tensor<2x6xf32>
  // A hero with the epilogue that its kernel computes.
  // CHECK: %[[A:.*]] = pdc.unit "/fc+/relu" origin "/fc+/relu" forward microbatch (%{{.*}} = %[[V]] : tensor<2x6xf32>, %{{.*}} = %[[W]] : tensor<6x6xf32>) -> (tensor<2x6xf32>) {
  // CHECK-NEXT: pdc.node "Gemm" "/fc"
  // CHECK-NEXT: pdc.node "Relu" "/relu"
  // CHECK-NEXT: pdc.yield
  %h = pdc.node "Gemm" "/fc"(%v, %w) {} phase forward rate microbatch : (tensor<2x6xf32>, tensor<6x6xf32>) -> tensor<2x6xf32>
  %a = pdc.node "Relu" "/relu"(%h) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
  // A chain of equal shapes; it ends where a value has two readers.
  // CHECK: %[[B:.*]] = pdc.unit "/tanh+/add" origin "/tanh+/add" forward
  %t = pdc.node "Tanh" "/tanh"(%a) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %b = pdc.node "Add" "/add"(%t, %a) {} phase forward rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  // CHECK: pdc.unit "/last" origin "/last" forward
  %c = pdc.node "Tanh" "/last"(%b) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %c into @y : tensor<2x6xf32>

  // Backward nodes fuse where their forward nodes lie in one unit, and only there.
  // CHECK: pdc.unit "/last/grad" origin "/last" backward_input
  %d0 = pdc.node "TanhGrad" "/last/grad"(%b, %b) {} origin "/last" phase backward_input rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  // CHECK: pdc.unit "/add/grad+/tanh/grad" origin "/tanh+/add" backward_input
  %d1 = pdc.node "Neg" "/add/grad"(%d0) {} origin "/add" phase backward_input rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %d2 = pdc.node "TanhGrad" "/tanh/grad"(%d1, %a) {} origin "/tanh" phase backward_input rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  // CHECK: %[[G:.*]] = pdc.unit "/fc/grad" origin "/fc+/relu" backward_weight
  %g = pdc.node "Gemm" "/fc/grad"(%v, %d2) {transA = 1 : i64} origin "/fc" phase backward_weight rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<6x6xf32>
  // CHECK: pdc.accumulate %[[G]] into @"w/gradient"
  pdc.accumulate %g into @"w/gradient" : tensor<6x6xf32>
  return
}

// Units of @evaluate follow those of the same nodes, and a node that @train lacks follows what makes
// or reads its operands.
// CHECK-LABEL: func.func @evaluate
func.func @evaluate() {
  %x = pdc.read @x : tensor<2x1x6xf32>
  %shape = pdc.node "Constant" "/shape"() {value = dense<[2, 6]> : tensor<2xi64>} phase evaluate rate once : () -> tensor<2xi64>
  // CHECK: pdc.unit "/view" origin "/view" evaluate
  %v = pdc.node "Reshape" "/view"(%x, %shape) {} phase evaluate rate microbatch : (tensor<2x1x6xf32>, tensor<2xi64>) -> tensor<2x6xf32>
  // CHECK: pdc.unit "/tanh" origin "/tanh+/add" evaluate
  %a = pdc.node "Tanh" "/tanh"(%v) {} phase evaluate rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
  // CHECK: pdc.unit "/last+/more" origin "/last" evaluate
  %b = pdc.node "Tanh" "/last"(%a) {} phase evaluate rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %c = pdc.node "Abs" "/more"(%b) {} phase evaluate rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %c into @y : tensor<2x6xf32>
  return
}
