// Convolutions with biases and relus, one of them pooled: their gradients are one kernel on GPUs. LevelsTest.cpp holds all
// levels of it against each other.
// RUN: pdc-opt %s --infer-shapes | FileCheck %s
// CHECK: pdc.node "Gemm" "fc"{{.*}} -> tensor<3x5xf32>
pdc.memory @c1.weight weight version : tensor<4x2x3x3xf32> {initial = "file"}
pdc.memory @c1.bias weight version : tensor<4xf32> {initial = "file"}
pdc.memory @c2.weight weight version : tensor<4x4x3x3xf32> {initial = "file"}
pdc.memory @c2.bias weight version : tensor<4xf32> {initial = "file"}
pdc.memory @fc.weight weight version : tensor<5x16xf32> {initial = "file"}
pdc.memory @fc.bias weight version : tensor<5xf32> {initial = "file"}
pdc.memory @x input microbatch : tensor<3x2x6x6xf32>
pdc.memory @labels input microbatch : tensor<3xi64>
pdc.memory @pdc.loss metric update : tensor<f32>
pdc.memory @pdc.loss_weight metric update : tensor<f32>
pdc.memory @pdc.evaluation_loss metric update : tensor<f32>
pdc.memory @pdc.evaluation_loss_weight metric update : tensor<f32>
pdc.memory @pdc.evaluation_correct metric update : tensor<f32>
func.func @train() {
  %x = pdc.read @x : tensor<3x2x6x6xf32>
  %w1 = pdc.weight_version @c1.weight latest : tensor<4x2x3x3xf32>
  %b1 = pdc.weight_version @c1.bias latest : tensor<4xf32>
  %c1 = pdc.node "Conv" "c1"(%x, %w1, %b1) {pads = array<i64: 1, 1, 1, 1>} : (tensor<3x2x6x6xf32>, tensor<4x2x3x3xf32>, tensor<4xf32>) -> tensor<*xf32>
  %r1 = pdc.node "Relu" "r1"(%c1) {} : (tensor<*xf32>) -> tensor<*xf32>
  %w2 = pdc.weight_version @c2.weight latest : tensor<4x4x3x3xf32>
  %b2 = pdc.weight_version @c2.bias latest : tensor<4xf32>
  %c2 = pdc.node "Conv" "c2"(%r1, %w2, %b2) {} : (tensor<*xf32>, tensor<4x4x3x3xf32>, tensor<4xf32>) -> tensor<*xf32>
  %r2 = pdc.node "Relu" "r2"(%c2) {} : (tensor<*xf32>) -> tensor<*xf32>
  %p:2 = pdc.node "MaxPool" "pool"(%r2) {kernel_shape = array<i64: 3, 3>} : (tensor<*xf32>) -> (tensor<*xf32>, tensor<*xi64>)
  %f = pdc.node "Flatten" "flat"(%p#0) {axis = 1 : i64} : (tensor<*xf32>) -> tensor<*xf32>
  %w3 = pdc.weight_version @fc.weight latest : tensor<5x16xf32>
  %b3 = pdc.weight_version @fc.bias latest : tensor<5xf32>
  %y = pdc.node "Gemm" "fc"(%f, %w3, %b3) {transB = 1 : i64, transA = 0 : i64, alpha = 1.0 : f64, beta = 1.0 : f64} : (tensor<*xf32>, tensor<5x16xf32>, tensor<5xf32>) -> tensor<*xf32>
  %l = pdc.read @labels : tensor<3xi64>
  %loss, %lp, %scales = pdc.node "SoftmaxCrossEntropyLoss" "loss"(%y, %l) {reduction = "sum", ignore_index = -100 : i64} : (tensor<*xf32>, tensor<3xi64>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  pdc.accumulate %loss into @pdc.loss : tensor<*xf32>
  %n = pdc.node "LossWeight" "n"(%l) {ignore_index = -100 : i64} : (tensor<3xi64>) -> tensor<*xf32>
  pdc.accumulate %n into @pdc.loss_weight : tensor<*xf32>
  return
}
func.func @evaluate() {
  %x = pdc.read @x : tensor<3x2x6x6xf32>
  %w1 = pdc.weight_version @c1.weight latest : tensor<4x2x3x3xf32>
  %b1 = pdc.weight_version @c1.bias latest : tensor<4xf32>
  %c1 = pdc.node "Conv" "c1"(%x, %w1, %b1) {pads = array<i64: 1, 1, 1, 1>} : (tensor<3x2x6x6xf32>, tensor<4x2x3x3xf32>, tensor<4xf32>) -> tensor<*xf32>
  %r1 = pdc.node "Relu" "r1"(%c1) {} : (tensor<*xf32>) -> tensor<*xf32>
  %w2 = pdc.weight_version @c2.weight latest : tensor<4x4x3x3xf32>
  %b2 = pdc.weight_version @c2.bias latest : tensor<4xf32>
  %c2 = pdc.node "Conv" "c2"(%r1, %w2, %b2) {} : (tensor<*xf32>, tensor<4x4x3x3xf32>, tensor<4xf32>) -> tensor<*xf32>
  %r2 = pdc.node "Relu" "r2"(%c2) {} : (tensor<*xf32>) -> tensor<*xf32>
  %p:2 = pdc.node "MaxPool" "pool"(%r2) {kernel_shape = array<i64: 3, 3>} : (tensor<*xf32>) -> (tensor<*xf32>, tensor<*xi64>)
  %f = pdc.node "Flatten" "flat"(%p#0) {axis = 1 : i64} : (tensor<*xf32>) -> tensor<*xf32>
  %w3 = pdc.weight_version @fc.weight latest : tensor<5x16xf32>
  %b3 = pdc.weight_version @fc.bias latest : tensor<5xf32>
  %y = pdc.node "Gemm" "fc"(%f, %w3, %b3) {transB = 1 : i64, transA = 0 : i64, alpha = 1.0 : f64, beta = 1.0 : f64} : (tensor<*xf32>, tensor<5x16xf32>, tensor<5xf32>) -> tensor<*xf32>
  %l = pdc.read @labels : tensor<3xi64>
  %loss, %lp = pdc.node "SoftmaxCrossEntropyLoss" "loss"(%y, %l) {reduction = "sum", ignore_index = -100 : i64} : (tensor<*xf32>, tensor<3xi64>) -> (tensor<*xf32>, tensor<*xf32>)
  pdc.accumulate %loss into @pdc.evaluation_loss : tensor<*xf32>
  %n = pdc.node "LossWeight" "n"(%l) {ignore_index = -100 : i64} : (tensor<3xi64>) -> tensor<*xf32>
  pdc.accumulate %n into @pdc.evaluation_loss_weight : tensor<*xf32>
  %k = pdc.node "CorrectPredictions" "k"(%y, %l) {ignore_index = -100 : i64} : (tensor<*xf32>, tensor<3xi64>) -> tensor<*xf32>
  pdc.accumulate %k into @pdc.evaluation_correct : tensor<*xf32>
  return
}
