// RUN: pdc-opt %s -label-phases | FileCheck %s

// Each output of a node of weights alone has memory of its own.
// CHECK: pdc.memory @"/parts/prepared" derived version : tensor<2x6xf32>
// CHECK: pdc.memory @"/parts/prepared_2" derived version : tensor<4x6xf32>
pdc.memory @w constant version : tensor<6x6xf32>
pdc.memory @x input microbatch : tensor<2x6xf32>
pdc.memory @y metric update : tensor<2x2xf32>
pdc.memory @z metric update : tensor<2x4xf32>

func.func @train() {
  %x = pdc.read @x : tensor<2x6xf32>
  %w = pdc.read @w : tensor<6x6xf32>
  %s = pdc.node "Constant" "/s"() {value = dense<[2, 4]> : tensor<2xi64>} : () -> tensor<2xi64>
  %p:2 = pdc.node "Split" "/parts"(%w, %s) {axis = 0 : i64} : (tensor<6x6xf32>, tensor<2xi64>) -> (tensor<2x6xf32>, tensor<4x6xf32>)
  // CHECK: pdc.write %[[PARTS:.*]]#1 to @"/parts/prepared_2"
  // CHECK: pdc.write %[[PARTS]]#0 to @"/parts/prepared"
  %a = pdc.node "Gemm" "/first"(%x, %p#0) {transB = 1 : i64} : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x2xf32>
  %b = pdc.node "Gemm" "/second"(%x, %p#1) {transB = 1 : i64} : (tensor<2x6xf32>, tensor<4x6xf32>) -> tensor<2x4xf32>
  pdc.accumulate %a into @y : tensor<2x2xf32>
  pdc.accumulate %b into @z : tensor<2x4xf32>
  return
}
