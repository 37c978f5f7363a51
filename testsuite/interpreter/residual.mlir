// A network with a residual block and normalisations, whose images GPUs add and whose relus they compute again. LevelsTest.cpp
// holds all levels of it against each other.
// RUN: pdc-opt %s --infer-shapes | FileCheck %s
// CHECK: pdc.node "Gemm" "fc"{{.*}} -> tensor<3x5xf32>
pdc.memory @scale1 weight version : tensor<4xf32> {initial = "file"}
pdc.memory @bias1 weight version : tensor<4xf32> {initial = "file"}
pdc.memory @mean1 state microbatch : tensor<4xf32> {initial = "file"}
pdc.memory @var1 state microbatch : tensor<4xf32> {initial = "file"}
pdc.memory @w2 weight version : tensor<4x4x3x3xf32> {initial = "file"}
pdc.memory @scale2 weight version : tensor<4xf32> {initial = "file"}
pdc.memory @bias2 weight version : tensor<4xf32> {initial = "file"}
pdc.memory @mean2 state microbatch : tensor<4xf32> {initial = "file"}
pdc.memory @var2 state microbatch : tensor<4xf32> {initial = "file"}
pdc.memory @w1 weight version : tensor<4x4x1x1xf32> {initial = "file"}
pdc.memory @fc.weight weight version : tensor<5x4xf32> {initial = "file"}
pdc.memory @fc.bias weight version : tensor<5xf32> {initial = "file"}
pdc.memory @x input microbatch : tensor<3x4x3x3xf32>
pdc.memory @labels input microbatch : tensor<3xi64>
pdc.memory @pdc.loss metric update : tensor<f32>
pdc.memory @pdc.loss_weight metric update : tensor<f32>
pdc.memory @pdc.evaluation_loss metric update : tensor<f32>
func.func @train() {
  %x = pdc.read @x : tensor<3x4x3x3xf32>
  %w1 = pdc.weight_version @w1 latest : tensor<4x4x1x1xf32>
  %c1 = pdc.node "Conv" "c1"(%x, %w1) {} : (tensor<3x4x3x3xf32>, tensor<4x4x1x1xf32>) -> tensor<*xf32>
  %s1 = pdc.weight_version @scale1 latest : tensor<4xf32>
  %b1 = pdc.weight_version @bias1 latest : tensor<4xf32>
  %m1 = pdc.read @mean1 : tensor<4xf32>
  %v1 = pdc.read @var1 : tensor<4xf32>
  %n1:5 = pdc.node "BatchNormInternal" "n1"(%c1, %s1, %b1, %m1, %v1) {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64} : (tensor<*xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  pdc.write %n1#1 to @mean1 : tensor<*xf32>
  pdc.write %n1#2 to @var1 : tensor<*xf32>
  %r1 = pdc.node "Relu" "r1"(%n1#0) {} : (tensor<*xf32>) -> tensor<*xf32>
  %w2 = pdc.weight_version @w2 latest : tensor<4x4x3x3xf32>
  %c2 = pdc.node "Conv" "c2"(%r1, %w2) {pads = array<i64: 1, 1, 1, 1>} : (tensor<*xf32>, tensor<4x4x3x3xf32>) -> tensor<*xf32>
  %s2 = pdc.weight_version @scale2 latest : tensor<4xf32>
  %b2 = pdc.weight_version @bias2 latest : tensor<4xf32>
  %m2 = pdc.read @mean2 : tensor<4xf32>
  %v2 = pdc.read @var2 : tensor<4xf32>
  %n2:5 = pdc.node "BatchNormInternal" "n2"(%c2, %s2, %b2, %m2, %v2) {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64} : (tensor<*xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  pdc.write %n2#1 to @mean2 : tensor<*xf32>
  pdc.write %n2#2 to @var2 : tensor<*xf32>
  %sum = pdc.node "Add" "add"(%n2#0, %r1) {} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  %r2 = pdc.node "Relu" "r2"(%sum) {} : (tensor<*xf32>) -> tensor<*xf32>
  %g = pdc.node "GlobalAveragePool" "gap"(%r2) {} : (tensor<*xf32>) -> tensor<*xf32>
  %rows = pdc.node "Constant" "rows"() {value = dense<[3, 4]> : tensor<2xi64>} : () -> tensor<2xi64>
  %f = pdc.node "Reshape" "flat"(%g, %rows) {} : (tensor<*xf32>, tensor<2xi64>) -> tensor<*xf32>
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
  %x = pdc.read @x : tensor<3x4x3x3xf32>
  %w1 = pdc.weight_version @w1 latest : tensor<4x4x1x1xf32>
  %c1 = pdc.node "Conv" "c1"(%x, %w1) {} : (tensor<3x4x3x3xf32>, tensor<4x4x1x1xf32>) -> tensor<*xf32>
  %s1 = pdc.weight_version @scale2 latest : tensor<4xf32>
  %b1 = pdc.weight_version @bias2 latest : tensor<4xf32>
  %m1 = pdc.read @mean2 : tensor<4xf32>
  %v1 = pdc.read @var2 : tensor<4xf32>
  %n1 = pdc.node "BatchNormalization" "n2"(%c1, %s1, %b1, %m1, %v1) {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64, training_mode = 0 : i64} : (tensor<*xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<*xf32>
  %sum = pdc.node "Add" "add"(%c1, %n1) {} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  %r = pdc.node "Relu" "r2"(%sum) {} : (tensor<*xf32>) -> tensor<*xf32>
  %s = pdc.node "ReduceSum" "sum"(%r) {keepdims = 0 : i64} : (tensor<*xf32>) -> tensor<*xf32>
  pdc.accumulate %s into @pdc.evaluation_loss : tensor<*xf32>
  return
}
