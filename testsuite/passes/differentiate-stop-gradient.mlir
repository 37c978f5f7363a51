// RUN: pdc-opt %s -canonicalize -differentiate | FileCheck %s

pdc.memory @w weight version : tensor<6x6xf32>
pdc.memory @x input microbatch : tensor<2x6xf32>
pdc.memory @labels input microbatch : tensor<2xi64>
pdc.memory @pdc.loss metric update : tensor<f32>

// The gradient reaches the first product beside the stopped value only, and the stop is gone with it.
// CHECK-LABEL: func.func @train
func.func @train() {
  %x = pdc.read @x : tensor<2x6xf32>
  %labels = pdc.read @labels : tensor<2xi64>
  %w = pdc.weight_version @w latest : tensor<6x6xf32>
  // CHECK: %[[A:.*]] = pdc.node "Gemm" "/first"
  %a = pdc.node "Gemm" "/first"(%x, %w) {} : (tensor<2x6xf32>, tensor<6x6xf32>) -> tensor<2x6xf32>
  // CHECK-NOT: StopGradient
  %d = pdc.node "pdc.StopGradient" "/detach"(%a) {} : (tensor<2x6xf32>) -> tensor<2x6xf32>
  // CHECK: pdc.node "Mul" "/product"(%[[A]], %[[A]])
  %p = pdc.node "Mul" "/product"(%a, %d) {} : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  %loss, %logp, %scales = pdc.node "SoftmaxCrossEntropyLoss" "loss"(%p, %labels) {reduction = "sum"} : (tensor<2x6xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<2x6xf32>, tensor<2x2xf32>)
  pdc.accumulate %loss into @pdc.loss : tensor<f32>
  // CHECK: %[[D:.*]] = pdc.node "SoftmaxCrossEntropyLossGrad"
  // CHECK-NEXT: %[[DA:.*]] = pdc.node "Mul" "/product/grad/Mul"(%[[D]], %[[A]])
  // CHECK-NEXT: pdc.node "Gemm" "/first/grad/Gemm"(%{{.*}}, %[[DA]])
  // CHECK-NEXT: pdc.accumulate
  // CHECK-NEXT: return
  return
}
