// A network with everything that makes levels hard: running statistics, a skip connection, dropout,
// packed weights, two entry functions. LevelsTest.cpp holds all levels of it against each other.
// RUN: pdc-opt %s --infer-shapes | FileCheck %s
// CHECK: pdc.node "Gemm" "fc"{{.*}} -> tensor<3x5xf32>
pdc.memory @c1.weight weight version : tensor<4x2x3x3xf32> {initial = "file"}
pdc.memory @c1.bias weight version : tensor<4xf32> {initial = "file"}
pdc.memory @bn.weight weight version : tensor<4xf32> {initial = "file"}
pdc.memory @bn.bias weight version : tensor<4xf32> {initial = "file"}
pdc.memory @bn.mean state microbatch : tensor<4xf32> {initial = "file"}
pdc.memory @bn.var state microbatch : tensor<4xf32> {initial = "file"}
pdc.memory @c2.weight weight version : tensor<4x4x3x3xf32> {initial = "file"}
pdc.memory @fc.weight weight version : tensor<5x4xf32> {initial = "file"}
pdc.memory @fc.bias weight version : tensor<5xf32> {initial = "file"}
pdc.memory @x input microbatch : tensor<3x2x8x8xf32>
pdc.memory @labels input microbatch : tensor<3xi64>
pdc.memory @pdc.random input microbatch : tensor<5xi64>
pdc.memory @pdc.loss metric update : tensor<f32>
pdc.memory @pdc.loss_weight metric update : tensor<f32>
pdc.memory @pdc.evaluation_loss metric update : tensor<f32>
pdc.memory @pdc.evaluation_loss_weight metric update : tensor<f32>
pdc.memory @pdc.evaluation_correct metric update : tensor<f32>
func.func @train() {
  %x = pdc.read @x : tensor<3x2x8x8xf32>
  %w1 = pdc.weight_version @c1.weight latest : tensor<4x2x3x3xf32>
  %b1 = pdc.weight_version @c1.bias latest : tensor<4xf32>
  %c1 = pdc.node "Conv" "c1"(%x, %w1, %b1) {pads = array<i64: 1, 1, 1, 1>} : (tensor<3x2x8x8xf32>, tensor<4x2x3x3xf32>, tensor<4xf32>) -> tensor<*xf32>
  %s = pdc.weight_version @bn.weight latest : tensor<4xf32>
  %o = pdc.weight_version @bn.bias latest : tensor<4xf32>
  %m = pdc.read @bn.mean : tensor<4xf32>
  %v = pdc.read @bn.var : tensor<4xf32>
  %bn:5 = pdc.node "BatchNormInternal" "bn"(%c1, %s, %o, %m, %v) {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64} : (tensor<*xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<*xf32>, tensor<4xf32>, tensor<4xf32>, tensor<*xf32>, tensor<*xf32>)
  pdc.write %bn#1 to @bn.mean : tensor<4xf32>
  pdc.write %bn#2 to @bn.var : tensor<4xf32>
  %r1 = pdc.node "Relu" "r1"(%bn#0) {} : (tensor<*xf32>) -> tensor<*xf32>
  %p:2 = pdc.node "MaxPool" "pool"(%r1) {kernel_shape = array<i64: 2, 2>, strides = array<i64: 2, 2>} : (tensor<*xf32>) -> (tensor<*xf32>, tensor<*xi64>)
  %w2 = pdc.weight_version @c2.weight latest : tensor<4x4x3x3xf32>
  %c2 = pdc.node "Conv" "c2"(%p#0, %w2) {pads = array<i64: 1, 1, 1, 1>} : (tensor<*xf32>, tensor<4x4x3x3xf32>) -> tensor<*xf32>
  %a = pdc.node "Add" "skip"(%c2, %p#0) {} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  %r2 = pdc.node "Relu" "r2"(%a) {} : (tensor<*xf32>) -> tensor<*xf32>
  %rand = pdc.read @pdc.random : tensor<5xi64>
  %d = pdc.node "Dropout" "drop"(%r2, %rand) {ratio = 0.25 : f64, key = 77 : i64} : (tensor<*xf32>, tensor<5xi64>) -> tensor<*xf32>
  %g = pdc.node "GlobalAveragePool" "gap"(%d) {} : (tensor<*xf32>) -> tensor<*xf32>
  %f = pdc.node "Flatten" "flat"(%g) {axis = 1 : i64} : (tensor<*xf32>) -> tensor<*xf32>
  %w3 = pdc.weight_version @fc.weight latest : tensor<5x4xf32>
  %b3 = pdc.weight_version @fc.bias latest : tensor<5xf32>
  %y = pdc.node "Gemm" "fc"(%f, %w3, %b3) {transB = 1 : i64, transA = 0 : i64, alpha = 1.0 : f64, beta = 1.0 : f64} : (tensor<*xf32>, tensor<5x4xf32>, tensor<5xf32>) -> tensor<*xf32>
  %l = pdc.read @labels : tensor<3xi64>
  %loss, %lp, %scales = pdc.node "SoftmaxCrossEntropyLoss" "loss"(%y, %l) {reduction = "sum", ignore_index = -100 : i64} : (tensor<*xf32>, tensor<3xi64>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  pdc.accumulate %loss into @pdc.loss : tensor<*xf32>
  %n = pdc.node "LossWeight" "n"(%l) {ignore_index = -100 : i64} : (tensor<3xi64>) -> tensor<*xf32>
  pdc.accumulate %n into @pdc.loss_weight : tensor<*xf32>
  return
}
func.func @evaluate() {
  %x = pdc.read @x : tensor<3x2x8x8xf32>
  %w1 = pdc.weight_version @c1.weight latest : tensor<4x2x3x3xf32>
  %b1 = pdc.weight_version @c1.bias latest : tensor<4xf32>
  %c1 = pdc.node "Conv" "c1"(%x, %w1, %b1) {pads = array<i64: 1, 1, 1, 1>} : (tensor<3x2x8x8xf32>, tensor<4x2x3x3xf32>, tensor<4xf32>) -> tensor<*xf32>
  %s = pdc.weight_version @bn.weight latest : tensor<4xf32>
  %o = pdc.weight_version @bn.bias latest : tensor<4xf32>
  %m = pdc.read @bn.mean : tensor<4xf32>
  %v = pdc.read @bn.var : tensor<4xf32>
  %bn = pdc.node "BatchNormalization" "bn"(%c1, %s, %o, %m, %v) {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64, training_mode = 0 : i64} : (tensor<*xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<*xf32>
  %r1 = pdc.node "Relu" "r1"(%bn) {} : (tensor<*xf32>) -> tensor<*xf32>
  %p:2 = pdc.node "MaxPool" "pool"(%r1) {kernel_shape = array<i64: 2, 2>, strides = array<i64: 2, 2>} : (tensor<*xf32>) -> (tensor<*xf32>, tensor<*xi64>)
  %w2 = pdc.weight_version @c2.weight latest : tensor<4x4x3x3xf32>
  %c2 = pdc.node "Conv" "c2"(%p#0, %w2) {pads = array<i64: 1, 1, 1, 1>} : (tensor<*xf32>, tensor<4x4x3x3xf32>) -> tensor<*xf32>
  %a = pdc.node "Add" "skip"(%c2, %p#0) {} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  %r2 = pdc.node "Relu" "r2"(%a) {} : (tensor<*xf32>) -> tensor<*xf32>
  %g = pdc.node "GlobalAveragePool" "gap"(%r2) {} : (tensor<*xf32>) -> tensor<*xf32>
  %f = pdc.node "Flatten" "flat"(%g) {axis = 1 : i64} : (tensor<*xf32>) -> tensor<*xf32>
  %w3 = pdc.weight_version @fc.weight latest : tensor<5x4xf32>
  %b3 = pdc.weight_version @fc.bias latest : tensor<5xf32>
  %y = pdc.node "Gemm" "fc"(%f, %w3, %b3) {transB = 1 : i64, transA = 0 : i64, alpha = 1.0 : f64, beta = 1.0 : f64} : (tensor<*xf32>, tensor<5x4xf32>, tensor<5xf32>) -> tensor<*xf32>
  %l = pdc.read @labels : tensor<3xi64>
  %loss, %lp = pdc.node "SoftmaxCrossEntropyLoss" "loss"(%y, %l) {reduction = "sum", ignore_index = -100 : i64} : (tensor<*xf32>, tensor<3xi64>) -> (tensor<*xf32>, tensor<*xf32>)
  pdc.accumulate %loss into @pdc.evaluation_loss : tensor<*xf32>
  %n = pdc.node "LossWeight" "n"(%l) {ignore_index = -100 : i64} : (tensor<3xi64>) -> tensor<*xf32>
  pdc.accumulate %n into @pdc.evaluation_loss_weight : tensor<*xf32>
  %k = pdc.node "CorrectPredictions" "k"(%y, %l) {ignore_index = -100 : i64} : (tensor<*xf32>, tensor<3xi64>) -> tensor<*xf32>
  pdc.accumulate %k into @pdc.evaluation_correct : tensor<*xf32>
  return
}
