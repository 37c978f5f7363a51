// RUN: pdc-opt %s -form-units | FileCheck %s

// What is made of weights alone is planned with the unit that reads it, in both functions.
pdc.memory @w weight version : tensor<6x6xf32>
pdc.memory @"/turned/prepared" derived version : tensor<6x6xf32>
pdc.memory @x input microbatch : tensor<2x6xf32>
pdc.memory @y metric update : tensor<2x6xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  %x = pdc.read @x : tensor<2x6xf32>
  %w = pdc.weight_version @w latest : tensor<6x6xf32>
  // CHECK: pdc.unit "/turned" origin "/fc" prepare version
  %t = pdc.node "Transpose" "/turned"(%w) {perm = array<i64: 1, 0>} phase prepare rate version : (tensor<6x6xf32>) -> tensor<6x6xf32>
  pdc.write %t to @"/turned/prepared" : tensor<6x6xf32>
  %p = pdc.weight_version @"/turned/prepared" latest : tensor<6x6xf32>
  // CHECK: pdc.unit "/fc" origin "/fc" forward microbatch
  %a = pdc.node "Gemm" "/fc"(%x, %p) {} phase forward rate microbatch : (tensor<2x6xf32>, tensor<6x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %a into @y : tensor<2x6xf32>
  return
}

// CHECK-LABEL: func.func @evaluate
func.func @evaluate() {
  %x = pdc.read @x : tensor<2x6xf32>
  %w = pdc.weight_version @w latest : tensor<6x6xf32>
  // CHECK: pdc.unit "/turned" origin "/fc" evaluate version
  %t = pdc.node "Transpose" "/turned"(%w) {perm = array<i64: 1, 0>} phase evaluate rate version : (tensor<6x6xf32>) -> tensor<6x6xf32>
  // CHECK: pdc.unit "/fc" origin "/fc" evaluate microbatch
  %a = pdc.node "Gemm" "/fc"(%x, %t) {} phase evaluate rate microbatch : (tensor<2x6xf32>, tensor<6x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %a into @y : tensor<2x6xf32>
  return
}
