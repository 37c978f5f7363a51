// RUN: pdc-opt %s --insert-cuts --outline-programs | FileCheck %s

// An MLP of two layers on two stages: what crosses gets a name, a tag and a box on either side.

#gemm = #pdc.kernel<"Gemm", {}, workspace = 0, accumulates = true>
#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>

pdc.memory @image input microbatch : tensor<4x2x4xf32>
pdc.memory @labels input microbatch : tensor<4xi64>
pdc.memory @pdc.learning_rate input update : tensor<f32>
pdc.memory @"fc1.weight" weight version : tensor<16x8xf32> {initial = "file"}
pdc.memory @"fc1.weight/gradient" gradient update : tensor<16x8xf32>
pdc.memory @"fc2.weight" weight version : tensor<3x16xf32> {initial = "file"}
pdc.memory @"fc2.weight/gradient" gradient update : tensor<3x16xf32>
pdc.memory @pdc.loss metric update : tensor<f32>
pdc.memory @pdc.evaluation_loss metric update : tensor<f32>

// CHECK-NOT: func.func
// CHECK-LABEL: pdc.program @rank_0 ranks [0]
// CHECK-NEXT: pdc.memory @image input microbatch
// CHECK-NEXT: pdc.memory @pdc.learning_rate input update
// CHECK-NEXT: pdc.memory @fc1.weight weight version
// CHECK-NEXT: pdc.memory @"fc1.weight/gradient" gradient update
// CHECK-NEXT: pdc.memory @relu1 outbox microbatch : tensor<4x16xf32> {transfers = [#pdc.transfer<tag = 0, from = 0, to = 1>]}
// CHECK-NEXT: pdc.memory @"fc2/grad/input" inbox microbatch : tensor<4x16xf32> {transfers = [#pdc.transfer<tag = 1, from = 1, to = 0>]}
// CHECK-NEXT: pdc.memory @"evaluate/relu1" outbox microbatch : tensor<4x16xf32> {transfers = [#pdc.transfer<tag = 2, from = 0, to = 1>]}
// CHECK-NEXT: pdc.stage 0 {
// CHECK-NEXT:   pdc.task prepare {
// CHECK-NEXT:   }
// CHECK-NEXT:   pdc.task forward {
// CHECK-NEXT:     %[[X:.*]] = pdc.read @image
// CHECK-NEXT:     %[[FLAT:.*]] = pdc.unit "flatten"
// CHECK:          %[[W:.*]] = pdc.weight_version @fc1.weight latest
// CHECK-NEXT:     %[[H:.*]] = pdc.unit "fc1" {{.*}} (%{{.*}} = %[[FLAT]] : {{.*}}, %{{.*}} = %[[W]]
// CHECK:          pdc.write %[[H]] to @relu1
// CHECK-NEXT:   }
// CHECK-NEXT:   pdc.task backward {
// The view of the input is repeated, not kept; the outbox serves as what is kept of relu1.
// CHECK-NEXT:     %[[DH:.*]] = pdc.read @"fc2/grad/input"
// CHECK-NEXT:     %[[KEPT:.*]] = pdc.read @relu1
// CHECK-NEXT:     %[[DR:.*]] = pdc.unit "relu1/grad"
// CHECK:          %[[X:.*]] = pdc.read @image
// CHECK-NEXT:     %[[FLAT:.*]] = pdc.unit "flatten"
// CHECK:          %[[DW:.*]] = pdc.unit "fc1/grad/weight" {{.*}} = %[[FLAT]]
// CHECK:          pdc.accumulate %[[DW]] into @"fc1.weight/gradient"
// CHECK-NEXT:   }
// CHECK-NEXT:   pdc.task update {
// CHECK-NEXT:     pdc.weight_version @fc1.weight latest
// CHECK-NEXT:     pdc.read @"fc1.weight/gradient"
// CHECK-NEXT:     pdc.read @pdc.learning_rate
// CHECK-NEXT:     %[[NEXT:.*]] = pdc.unit "fc1.weight/update"
// CHECK:          pdc.commit %[[NEXT]] to @fc1.weight
// CHECK-NEXT:   }
// CHECK-NEXT:   pdc.task evaluate {
// CHECK:          pdc.write %{{.*}} to @"evaluate/relu1"

// CHECK-LABEL: pdc.program @rank_1 ranks [1]
// CHECK-NEXT: pdc.memory @labels input
// CHECK:      pdc.memory @pdc.loss metric
// CHECK:      pdc.memory @relu1 inbox microbatch : tensor<4x16xf32> {transfers = [#pdc.transfer<tag = 0, from = 0, to = 1>]}
// CHECK-NEXT: pdc.memory @"loss:log_prob" activation microbatch : tensor<4x3xf32>
// CHECK-NEXT: pdc.memory @"fc2/grad/input" outbox
// CHECK-NEXT: pdc.memory @"evaluate/relu1" inbox
// CHECK-NEXT: pdc.stage 1 {
// CHECK:        pdc.task forward
// CHECK-NEXT:     pdc.read @relu1
// CHECK:          %[[LOSS:.*]]:2 = pdc.unit "loss"
// CHECK:          pdc.write %[[LOSS]]#1 to @"loss:log_prob"
// CHECK-NEXT:     pdc.accumulate %[[LOSS]]#0 into @pdc.loss
// CHECK:        pdc.task backward
// CHECK-NEXT:     pdc.read @"loss:log_prob"
// CHECK:        pdc.task update
// CHECK:        pdc.task evaluate

func.func @train() {
  %image = pdc.read @image : tensor<4x2x4xf32>
  %labels = pdc.read @labels : tensor<4xi64>
  %rate = pdc.read @pdc.learning_rate : tensor<f32>
  %w1 = pdc.weight_version @"fc1.weight" latest : tensor<16x8xf32>
  %w2 = pdc.weight_version @"fc2.weight" latest : tensor<3x16xf32>
  %x = pdc.unit "flatten" origin "flatten" forward microbatch (%a = %image : tensor<4x2x4xf32>) -> (tensor<4x8xf32>) attributes {stage = 0 : i64} {
    %0 = pdc.node "Flatten" "flatten"(%a) {axis = 1 : i64} : (tensor<4x2x4xf32>) -> tensor<4x8xf32>
    pdc.yield %0 : tensor<4x8xf32>
  }
  %h = pdc.unit "fc1" origin "fc1" forward microbatch (%a = %x : tensor<4x8xf32>, %b = %w1 : tensor<16x8xf32>) -> (tensor<4x16xf32>) attributes {kernel = #gemm, stage = 0 : i64} {
    %0 = pdc.node "Gemm" "fc1"(%a, %b) {transB = 1 : i64} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
    %1 = pdc.node "Relu" "relu1"(%0) {} : (tensor<4x16xf32>) -> tensor<4x16xf32>
    pdc.yield %1 : tensor<4x16xf32>
  }
  %y = pdc.unit "fc2" origin "fc2" forward microbatch (%a = %h : tensor<4x16xf32>, %b = %w2 : tensor<3x16xf32>) -> (tensor<4x3xf32>) attributes {kernel = #gemm, stage = 1 : i64} {
    %0 = pdc.node "Gemm" "fc2"(%a, %b) {transB = 1 : i64} : (tensor<4x16xf32>, tensor<3x16xf32>) -> tensor<4x3xf32>
    pdc.yield %0 : tensor<4x3xf32>
  }
  %loss, %p = pdc.unit "loss" origin "loss" forward microbatch (%a = %y : tensor<4x3xf32>, %b = %labels : tensor<4xi64>) -> (tensor<f32>, tensor<4x3xf32>) attributes {kernel = #loops, stage = 1 : i64} {
    %0, %1 = pdc.node "SoftmaxCrossEntropyLoss" "loss"(%a, %b) {reduction = "sum"} : (tensor<4x3xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4x3xf32>)
    pdc.yield %0, %1 : tensor<f32>, tensor<4x3xf32>
  }
  pdc.accumulate %loss into @pdc.loss : tensor<f32>
  %dy = pdc.unit "loss/grad" origin "loss" backward microbatch (%a = %p : tensor<4x3xf32>, %b = %labels : tensor<4xi64>) -> (tensor<4x3xf32>) attributes {kernel = #loops, stage = 1 : i64} {
    %0 = pdc.node "SoftmaxCrossEntropyLossGrad" "loss/grad"(%a, %b) {reduction = "sum"} : (tensor<4x3xf32>, tensor<4xi64>) -> tensor<4x3xf32>
    pdc.yield %0 : tensor<4x3xf32>
  }
  %dw2 = pdc.unit "fc2/grad/weight" origin "fc2" backward microbatch (%a = %dy : tensor<4x3xf32>, %b = %h : tensor<4x16xf32>) -> (tensor<3x16xf32>) attributes {kernel = #gemm, stage = 1 : i64} {
    %0 = pdc.node "Gemm" "fc2/grad/weight"(%a, %b) {transA = 1 : i64} : (tensor<4x3xf32>, tensor<4x16xf32>) -> tensor<3x16xf32>
    pdc.yield %0 : tensor<3x16xf32>
  }
  pdc.accumulate %dw2 into @"fc2.weight/gradient" : tensor<3x16xf32>
  %dh = pdc.unit "fc2/grad/input" origin "fc2" backward microbatch (%a = %dy : tensor<4x3xf32>, %b = %w2 : tensor<3x16xf32>) -> (tensor<4x16xf32>) attributes {kernel = #gemm, stage = 1 : i64} {
    %0 = pdc.node "Gemm" "fc2/grad/input"(%a, %b) {} : (tensor<4x3xf32>, tensor<3x16xf32>) -> tensor<4x16xf32>
    pdc.yield %0 : tensor<4x16xf32>
  }
  %dr = pdc.unit "relu1/grad" origin "fc1" backward microbatch (%a = %dh : tensor<4x16xf32>, %b = %h : tensor<4x16xf32>) -> (tensor<4x16xf32>) attributes {kernel = #loops, stage = 0 : i64} {
    %0 = pdc.node "ReluGrad" "relu1/grad"(%a, %b) {} : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
    pdc.yield %0 : tensor<4x16xf32>
  }
  %dw1 = pdc.unit "fc1/grad/weight" origin "fc1" backward microbatch (%a = %dr : tensor<4x16xf32>, %b = %x : tensor<4x8xf32>) -> (tensor<16x8xf32>) attributes {kernel = #gemm, stage = 0 : i64} {
    %0 = pdc.node "Gemm" "fc1/grad/weight"(%a, %b) {transA = 1 : i64} : (tensor<4x16xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
    pdc.yield %0 : tensor<16x8xf32>
  }
  pdc.accumulate %dw1 into @"fc1.weight/gradient" : tensor<16x8xf32>
  %g1 = pdc.read @"fc1.weight/gradient" : tensor<16x8xf32>
  %n1 = pdc.unit "fc1.weight/update" origin "fc1" update update (%a = %w1 : tensor<16x8xf32>, %b = %g1 : tensor<16x8xf32>, %c = %rate : tensor<f32>) -> (tensor<16x8xf32>) attributes {kernel = #loops, stage = 0 : i64} {
    %0 = pdc.node "SgdUpdate" "fc1.weight/update"(%a, %b, %c, %c) {weight_decay = 0.0 : f64} : (tensor<16x8xf32>, tensor<16x8xf32>, tensor<f32>, tensor<f32>) -> tensor<16x8xf32>
    pdc.yield %0 : tensor<16x8xf32>
  }
  pdc.commit %n1 to @"fc1.weight" : tensor<16x8xf32>
  %g2 = pdc.read @"fc2.weight/gradient" : tensor<3x16xf32>
  %n2 = pdc.unit "fc2.weight/update" origin "fc2" update update (%a = %w2 : tensor<3x16xf32>, %b = %g2 : tensor<3x16xf32>, %c = %rate : tensor<f32>) -> (tensor<3x16xf32>) attributes {kernel = #loops, stage = 1 : i64} {
    %0 = pdc.node "SgdUpdate" "fc2.weight/update"(%a, %b, %c, %c) {weight_decay = 0.0 : f64} : (tensor<3x16xf32>, tensor<3x16xf32>, tensor<f32>, tensor<f32>) -> tensor<3x16xf32>
    pdc.yield %0 : tensor<3x16xf32>
  }
  pdc.commit %n2 to @"fc2.weight" : tensor<3x16xf32>
  return
}

func.func @evaluate() {
  %image = pdc.read @image : tensor<4x2x4xf32>
  %labels = pdc.read @labels : tensor<4xi64>
  %w1 = pdc.weight_version @"fc1.weight" latest : tensor<16x8xf32>
  %w2 = pdc.weight_version @"fc2.weight" latest : tensor<3x16xf32>
  %x = pdc.unit "flatten" origin "flatten" forward microbatch (%a = %image : tensor<4x2x4xf32>) -> (tensor<4x8xf32>) attributes {stage = 0 : i64} {
    %0 = pdc.node "Flatten" "flatten"(%a) {axis = 1 : i64} : (tensor<4x2x4xf32>) -> tensor<4x8xf32>
    pdc.yield %0 : tensor<4x8xf32>
  }
  %h = pdc.unit "fc1" origin "fc1" forward microbatch (%a = %x : tensor<4x8xf32>, %b = %w1 : tensor<16x8xf32>) -> (tensor<4x16xf32>) attributes {kernel = #gemm, stage = 0 : i64} {
    %0 = pdc.node "Gemm" "fc1"(%a, %b) {transB = 1 : i64} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
    %1 = pdc.node "Relu" "relu1"(%0) {} : (tensor<4x16xf32>) -> tensor<4x16xf32>
    pdc.yield %1 : tensor<4x16xf32>
  }
  %y = pdc.unit "fc2" origin "fc2" forward microbatch (%a = %h : tensor<4x16xf32>, %b = %w2 : tensor<3x16xf32>) -> (tensor<4x3xf32>) attributes {kernel = #gemm, stage = 1 : i64} {
    %0 = pdc.node "Gemm" "fc2"(%a, %b) {transB = 1 : i64} : (tensor<4x16xf32>, tensor<3x16xf32>) -> tensor<4x3xf32>
    pdc.yield %0 : tensor<4x3xf32>
  }
  %loss, %p = pdc.unit "loss" origin "loss" forward microbatch (%a = %y : tensor<4x3xf32>, %b = %labels : tensor<4xi64>) -> (tensor<f32>, tensor<4x3xf32>) attributes {kernel = #loops, stage = 1 : i64} {
    %0, %1 = pdc.node "SoftmaxCrossEntropyLoss" "loss"(%a, %b) {reduction = "sum"} : (tensor<4x3xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4x3xf32>)
    pdc.yield %0, %1 : tensor<f32>, tensor<4x3xf32>
  }
  pdc.accumulate %loss into @pdc.evaluation_loss : tensor<f32>
  return
}
