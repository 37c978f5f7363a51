// RUN: pdc-opt %s -label-phases | FileCheck %s

// What is computed from a weight alone goes through memory.
// CHECK: pdc.memory @"/transposed/prepared" derived version : tensor<6x6xf32>
pdc.memory @w weight version : tensor<6x6xf32>
pdc.memory @"w/gradient" gradient update : tensor<6x6xf32>
pdc.memory @x input microbatch : tensor<2x6xf32>
pdc.memory @lr input update : tensor<f32>
pdc.memory @y metric update : tensor<2x6xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  %x = pdc.read @x : tensor<2x6xf32>
  %w = pdc.weight_version @w latest : tensor<6x6xf32>
  %s = pdc.node "Constant" "/s"() {value = dense<[6, 6]> : tensor<2xi64>} : () -> tensor<2xi64>
  // CHECK: %[[T:.*]] = pdc.node "Transpose" "/transposed"(%{{.*}}) {perm = array<i64: 1, 0>} phase prepare rate version
  // CHECK-NEXT: pdc.write %[[T]] to @"/transposed/prepared"
  // CHECK-NEXT: %[[P:.*]] = pdc.weight_version @"/transposed/prepared" latest
  %t = pdc.node "Transpose" "/transposed"(%w) {perm = array<i64: 1, 0>} : (tensor<6x6xf32>) -> tensor<6x6xf32>
  // A view costs nothing and stays where it is read.
  // CHECK-NEXT: %[[F:.*]] = pdc.node "Reshape" "/view"(%[[P]]{{.*}} phase forward rate version
  %f = pdc.node "Reshape" "/view"(%t, %s) {} : (tensor<6x6xf32>, tensor<2xi64>) -> tensor<6x6xf32>
  // CHECK: pdc.node "Gemm" "/fc"(%{{.*}}, %[[F]]) {} phase forward rate microbatch
  %a = pdc.node "Gemm" "/fc"(%x, %f) {} : (tensor<2x6xf32>, tensor<6x6xf32>) -> tensor<2x6xf32>
  // CHECK: pdc.node "ReluGrad" "/fc/grad/i"{{.*}} phase backward_input rate microbatch
  %d = pdc.node "ReluGrad" "/fc/grad/i"(%a, %a) {} origin "/fc" : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  // CHECK: pdc.node "Gemm" "/other/grad/w"{{.*}} phase backward_weight rate microbatch
  %g = pdc.node "Gemm" "/other/grad/w"(%d, %x) {transA = 1 : i64} origin "/transposed" : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<6x6xf32>
  pdc.accumulate %g into @"w/gradient" : tensor<6x6xf32>
  %lr = pdc.read @lr : tensor<f32>
  %sum = pdc.read @"w/gradient" : tensor<6x6xf32>
  // Of the weight alone, but only the update reads it.
  // CHECK: "Mul" "w/squares"{{.*}} phase update rate update
  %squares = pdc.node "Mul" "w/squares"(%w, %w) {} origin "/fc" : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
  %step = pdc.node "Mul" "w/step"(%squares, %sum) {} origin "/fc" : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
  // CHECK: "SgdUpdate"{{.*}} phase update rate update
  %new = pdc.node "SgdUpdate" "w/update"(%w, %step, %lr, %lr) {weight_decay = 0.0 : f64} origin "/fc" : (tensor<6x6xf32>, tensor<6x6xf32>, tensor<f32>, tensor<f32>) -> tensor<6x6xf32>
  pdc.commit %new to @w : tensor<6x6xf32>
  return
}

// CHECK-LABEL: func.func @evaluate
func.func @evaluate() {
  %x = pdc.read @x : tensor<2x6xf32>
  // CHECK: phase evaluate rate microbatch
  %y = pdc.node "Relu" "/relu"(%x) {} : (tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %y into @y : tensor<2x6xf32>
  return
}
