// RUN: pdc-opt %s -label-phases | FileCheck %s

// Gradients that are the same for all microbatches are added for each of them.
pdc.memory @w weight version : tensor<6xf32>
pdc.memory @"w/gradient" gradient update : tensor<6xf32>
pdc.memory @s weight version : tensor<f32>
pdc.memory @"s/gradient" gradient update : tensor<f32>
pdc.memory @pdc.one constant once : tensor<f32> {initial = 1.0}
pdc.memory @pdc.loss metric update : tensor<f32>

// CHECK-LABEL: func.func @train
func.func @train() {
  %w = pdc.weight_version @w latest : tensor<6xf32>
  %s = pdc.weight_version @s latest : tensor<f32>
  %one = pdc.read @pdc.one : tensor<f32>
  %loss = pdc.node "Add" "/loss"(%s, %s) {} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  pdc.accumulate %loss into @pdc.loss : tensor<f32>
  // CHECK: pdc.node "Mul" "/penalty/grad/Mul"{{.*}} phase prepare rate version
  // CHECK: %[[P:.*]] = pdc.weight_version @"/penalty/grad/Mul/prepared" latest
  %d = pdc.node "Mul" "/penalty/grad/Mul"(%w, %one) {} origin "/penalty" : (tensor<6xf32>, tensor<f32>) -> tensor<6xf32>
  // CHECK: %[[A:.*]] = pdc.node "Add" "w/gradient/added"(%[[P]], %{{.*}}) {} origin "/penalty" phase backward_weight rate microbatch
  // CHECK-NEXT: pdc.accumulate %[[A]] into @"w/gradient"
  pdc.accumulate %d into @"w/gradient" : tensor<6xf32>
  // CHECK: %[[B:.*]] = pdc.node "Add" "s/gradient/added"{{.*}} origin "/loss" phase backward_weight rate microbatch
  // CHECK-NEXT: pdc.accumulate %[[B]] into @"s/gradient"
  pdc.accumulate %one into @"s/gradient" : tensor<f32>
  return
}
