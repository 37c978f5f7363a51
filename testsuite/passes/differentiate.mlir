// RUN: pdc-opt %s -differentiate | FileCheck %s

// CHECK: pdc.memory @w weight
// CHECK-NEXT: pdc.memory @"w/gradient" gradient update : tensor<6x6xf32>
// CHECK-NEXT: pdc.memory @"w/gradient.1" gradient update : tensor<6x6xf32>
pdc.memory @w weight version : tensor<6x6xf32>
pdc.memory @frozen constant once : tensor<6x6xf32>
pdc.memory @x input microbatch : tensor<2x6xf32>
pdc.memory @labels input microbatch : tensor<2xi64>
pdc.memory @pdc.loss metric update : tensor<f32>

// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK: %[[X:.*]] = pdc.read @x
  // CHECK: %[[W:.*]] = pdc.weight_version @w latest
  %x = pdc.read @x : tensor<2x6xf32>
  %labels = pdc.read @labels : tensor<2xi64>
  %frozen = pdc.read @frozen : tensor<6x6xf32>
  %w = pdc.weight_version @w latest : tensor<6x6xf32>
  // CHECK: "/frozen"
  // CHECK: %[[A:.*]] = pdc.node "Gemm" "/first"
  %c = pdc.node "Gemm" "/frozen"(%x, %frozen) {} : (tensor<2x6xf32>, tensor<6x6xf32>) -> tensor<2x6xf32>
  %a = pdc.node "Gemm" "/first"(%c, %w) {} : (tensor<2x6xf32>, tensor<6x6xf32>) -> tensor<2x6xf32>
  %r = pdc.node "Relu" "/relu"(%a) {} : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %b = pdc.node "Gemm" "/second"(%r, %w) {} : (tensor<2x6xf32>, tensor<6x6xf32>) -> tensor<2x6xf32>
  %s = pdc.node "Add" "/skip"(%b, %r) {} : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  %loss, %logp, %scales = pdc.node "SoftmaxCrossEntropyLoss" "loss"(%s, %labels) {reduction = "sum"} : (tensor<2x6xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<2x6xf32>, tensor<2x2xf32>)
  pdc.accumulate %loss into @pdc.loss : tensor<f32>
  // CHECK: %[[ONE:.*]] = pdc.read @pdc.one : tensor<f32>
  // CHECK: %[[D:.*]] = pdc.node "SoftmaxCrossEntropyLossGrad" "loss/grad/SoftmaxCrossEntropyLossGrad"({{.*}}, %[[ONE]]) {{.*}} origin "loss"
  // CHECK: %[[DR:.*]] = pdc.node "Gemm" "/second/grad/Gemm"(%[[D]], %[[W]]) {{.*}} origin "/second"
  // CHECK: %[[DW:.*]] = pdc.node "Gemm" "/second/grad/Gemm.1"
  // CHECK-NEXT: pdc.accumulate %[[DW]] into @"w/gradient.1"
  // Both consumers of the value, in their order; planned with its producer.
  // CHECK: %[[SUM:.*]] = pdc.node "Sum" "/relu/grad/sum"(%[[DR]], %[[D]]) {} origin "/relu"
  // CHECK: pdc.node "ReluGrad" "/relu/grad/ReluGrad"(%[[SUM]]
  // No gradient of the first input, which leads to no weight.
  // CHECK-NEXT: %[[DW:.*]] = pdc.node "Gemm" "/first/grad/Gemm"
  // CHECK-NEXT: pdc.accumulate %[[DW]] into @"w/gradient"
  // CHECK-NEXT: return
  return
}
