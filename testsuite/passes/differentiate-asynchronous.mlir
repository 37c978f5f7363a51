// RUN: pdc-opt %s -differentiate | FileCheck %s

// Each microbatch is an update of its own, so its gradient is divided by its own weight.
module attributes {pdc.asynchronous} {
  pdc.memory @w weight version : tensor<1x1x2x2xf32>
  pdc.memory @x input microbatch : tensor<1x1x4x4xf32>
  pdc.memory @target input microbatch : tensor<1x1x1x1xf32>
  pdc.memory @pdc.loss metric update : tensor<f32>
  pdc.memory @pdc.loss_weight metric update : tensor<f32>
  func.func @train() {
    %x = pdc.read @x : tensor<1x1x4x4xf32>
    %target = pdc.read @target : tensor<1x1x1x1xf32>
    %w = pdc.weight_version @w latest : tensor<1x1x2x2xf32>
    %c = pdc.node "Conv" "/conv"(%x, %w) {kernel_shape = array<i64: 2, 2>, strides = array<i64: 1, 1>} : (tensor<1x1x4x4xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x3x3xf32>
    %p = pdc.node "GlobalAveragePool" "/pool"(%c) {} : (tensor<1x1x3x3xf32>) -> tensor<1x1x1x1xf32>
    %loss = pdc.node "MeanSquaredError" "loss"(%p, %target) {reduction = "sum"} : (tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>) -> tensor<f32>
    // CHECK: %[[WEIGHT:.*]] = pdc.node "LossWeight"
    %weight = pdc.node "LossWeight" "weight"(%target) {} : (tensor<1x1x1x1xf32>) -> tensor<f32>
    pdc.accumulate %loss into @pdc.loss : tensor<f32>
    pdc.accumulate %weight into @pdc.loss_weight : tensor<f32>
    // CHECK: %[[SEED:.*]] = pdc.node "ReciprocalOrZero" "loss/grad/seed"(%[[WEIGHT]])
    // CHECK: pdc.node "MeanSquaredErrorGrad" "loss/grad/MeanSquaredErrorGrad"(%{{.*}}, %{{.*}}, %[[SEED]])
    return
  }
}
