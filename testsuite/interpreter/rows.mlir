// A network of rows that are added and normalised in turn, behind one another and the other way round. LevelsTest.cpp holds all
// levels of it against each other.
// RUN: pdc-opt %s --infer-shapes | FileCheck %s
// CHECK: pdc.node "Gemm" "fc"{{.*}} -> tensor<6x5xf32>
pdc.memory @w1 weight version : tensor<8x8xf32> {initial = "file"}
pdc.memory @scale1 weight version : tensor<8xf32> {initial = "file"}
pdc.memory @bias1 weight version : tensor<8xf32> {initial = "file"}
pdc.memory @w2 weight version : tensor<8x8xf32> {initial = "file"}
pdc.memory @scale2 weight version : tensor<8xf32> {initial = "file"}
pdc.memory @bias2 weight version : tensor<8xf32> {initial = "file"}
pdc.memory @w3 weight version : tensor<8x8xf32> {initial = "file"}
pdc.memory @scale3 weight version : tensor<8xf32> {initial = "file"}
pdc.memory @fc.weight weight version : tensor<5x8xf32> {initial = "file"}
pdc.memory @fc.bias weight version : tensor<5xf32> {initial = "file"}
pdc.memory @x input microbatch : tensor<6x8xf32>
pdc.memory @labels input microbatch : tensor<6xi64>
pdc.memory @pdc.loss metric update : tensor<f32>
pdc.memory @pdc.loss_weight metric update : tensor<f32>
pdc.memory @pdc.evaluation_loss metric update : tensor<f32>
func.func @train() {
  %x = pdc.read @x : tensor<6x8xf32>
  %w1 = pdc.weight_version @w1 latest : tensor<8x8xf32>
  %h0 = pdc.node "MatMul" "h0"(%x, %w1) {} : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<*xf32>
  %h = pdc.node "Relu" "h"(%h0) {} : (tensor<*xf32>) -> tensor<*xf32>
  // Behind a sum that others read, too, as BERT has it.
  %a = pdc.node "Add" "a"(%h, %x) {} : (tensor<*xf32>, tensor<6x8xf32>) -> tensor<*xf32>
  %s1 = pdc.weight_version @scale1 latest : tensor<8xf32>
  %b1 = pdc.weight_version @bias1 latest : tensor<8xf32>
  %n1:3 = pdc.node "LayerNormalization" "n1"(%a, %s1, %b1) {axis = -1 : i64, epsilon = 1.0e-5 : f64} : (tensor<*xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  // Before a product whose result is added, as GPT has it.
  %s2 = pdc.weight_version @scale2 latest : tensor<8xf32>
  %b2 = pdc.weight_version @bias2 latest : tensor<8xf32>
  %n2:3 = pdc.node "LayerNormalization" "n2"(%n1#0, %s2, %b2) {axis = -1 : i64, epsilon = 1.0e-5 : f64} : (tensor<*xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  %w2 = pdc.weight_version @w2 latest : tensor<8x8xf32>
  %p = pdc.node "MatMul" "p"(%n2#0, %w2) {} : (tensor<*xf32>, tensor<8x8xf32>) -> tensor<*xf32>
  %c = pdc.node "Add" "c"(%n1#0, %p) {} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  // The sum is added once more; rows keep their mean.
  %s3 = pdc.weight_version @scale3 latest : tensor<8xf32>
  %n3:2 = pdc.node "RMSNormalization" "n3"(%c, %s3) {axis = -1 : i64, epsilon = 1.0e-5 : f64} : (tensor<*xf32>, tensor<8xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  %w3 = pdc.weight_version @w3 latest : tensor<8x8xf32>
  %q = pdc.node "MatMul" "q"(%n3#0, %w3) {} : (tensor<*xf32>, tensor<8x8xf32>) -> tensor<*xf32>
  %d = pdc.node "Add" "d"(%c, %q) {} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  %fw = pdc.weight_version @fc.weight latest : tensor<5x8xf32>
  %fb = pdc.weight_version @fc.bias latest : tensor<5xf32>
  %y = pdc.node "Gemm" "fc"(%d, %fw, %fb) {transB = 1 : i64, transA = 0 : i64, alpha = 1.0 : f64, beta = 1.0 : f64} : (tensor<*xf32>, tensor<5x8xf32>, tensor<5xf32>) -> tensor<*xf32>
  %l = pdc.read @labels : tensor<6xi64>
  %loss, %lp, %scales = pdc.node "SoftmaxCrossEntropyLoss" "loss"(%y, %l) {reduction = "sum", ignore_index = -100 : i64} : (tensor<*xf32>, tensor<6xi64>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  pdc.accumulate %loss into @pdc.loss : tensor<*xf32>
  %n = pdc.node "LossWeight" "n"(%l) {ignore_index = -100 : i64} : (tensor<6xi64>) -> tensor<*xf32>
  pdc.accumulate %n into @pdc.loss_weight : tensor<*xf32>
  return
}
func.func @evaluate() {
  %x = pdc.read @x : tensor<6x8xf32>
  %w1 = pdc.weight_version @w1 latest : tensor<8x8xf32>
  %h0 = pdc.node "MatMul" "h0"(%x, %w1) {} : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<*xf32>
  %h = pdc.node "Relu" "h"(%h0) {} : (tensor<*xf32>) -> tensor<*xf32>
  %a = pdc.node "Add" "a"(%h, %x) {} : (tensor<*xf32>, tensor<6x8xf32>) -> tensor<*xf32>
  %s1 = pdc.weight_version @scale1 latest : tensor<8xf32>
  %b1 = pdc.weight_version @bias1 latest : tensor<8xf32>
  %n1:3 = pdc.node "LayerNormalization" "n1"(%a, %s1, %b1) {axis = -1 : i64, epsilon = 1.0e-5 : f64} : (tensor<*xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  %s = pdc.node "ReduceSum" "sum"(%n1#0) {keepdims = 0 : i64} : (tensor<*xf32>) -> tensor<*xf32>
  pdc.accumulate %s into @pdc.evaluation_loss : tensor<*xf32>
  return
}
