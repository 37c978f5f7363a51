// A network whose products cuBLASLt computes more with: GELU, its gradient, the sums of bias gradients. LevelsTest.cpp holds
// all levels of it against each other.
// RUN: pdc-opt %s --infer-shapes | FileCheck %s
// CHECK: pdc.node "Gemm" "fc"{{.*}} -> tensor<6x5xf32>
pdc.memory @in.weight weight version : tensor<8x4xf32> {initial = "file"}
pdc.memory @in.bias weight version : tensor<8xf32> {initial = "file"}
pdc.memory @mid.weight weight version : tensor<8x16xf32> {initial = "file"}
pdc.memory @mid.bias weight version : tensor<16xf32> {initial = "file"}
pdc.memory @fc.weight weight version : tensor<5x16xf32> {initial = "file"}
pdc.memory @fc.bias weight version : tensor<5xf32> {initial = "file"}
pdc.memory @x input microbatch : tensor<2x3x4xf32>
pdc.memory @labels input microbatch : tensor<6xi64>
pdc.memory @pdc.loss metric update : tensor<f32>
pdc.memory @pdc.loss_weight metric update : tensor<f32>
pdc.memory @pdc.evaluation_loss metric update : tensor<f32>
func.func @train() {
  %x = pdc.read @x : tensor<2x3x4xf32>
  %w1 = pdc.weight_version @in.weight latest : tensor<8x4xf32>
  %b1 = pdc.weight_version @in.bias latest : tensor<8xf32>
  %h1 = pdc.node "FusedMatMul" "in"(%x, %w1) {alpha = 1.0 : f64, transA = 0 : i64, transB = 1 : i64} : (tensor<2x3x4xf32>, tensor<8x4xf32>) -> tensor<*xf32>
  %a1 = pdc.node "Add" "in/bias"(%h1, %b1) {} : (tensor<*xf32>, tensor<8xf32>) -> tensor<*xf32>
  %g1 = pdc.node "FastGelu" "gelu1"(%a1) {} : (tensor<*xf32>) -> tensor<*xf32>
  %w2 = pdc.weight_version @mid.weight latest : tensor<8x16xf32>
  %b2 = pdc.weight_version @mid.bias latest : tensor<16xf32>
  %h2 = pdc.node "MatMul" "mid"(%g1, %w2) {} : (tensor<*xf32>, tensor<8x16xf32>) -> tensor<*xf32>
  %a2 = pdc.node "Add" "mid/bias"(%h2, %b2) {} : (tensor<*xf32>, tensor<16xf32>) -> tensor<*xf32>
  %g2 = pdc.node "FastGelu" "gelu2"(%a2) {} : (tensor<*xf32>) -> tensor<*xf32>
  %rows = pdc.node "Constant" "rows"() {value = dense<[6, 16]> : tensor<2xi64>} : () -> tensor<2xi64>
  %f = pdc.node "Reshape" "flat"(%g2, %rows) {} : (tensor<*xf32>, tensor<2xi64>) -> tensor<*xf32>
  %w3 = pdc.weight_version @fc.weight latest : tensor<5x16xf32>
  %b3 = pdc.weight_version @fc.bias latest : tensor<5xf32>
  %y = pdc.node "Gemm" "fc"(%f, %w3, %b3) {transB = 1 : i64, transA = 0 : i64, alpha = 1.0 : f64, beta = 1.0 : f64} : (tensor<*xf32>, tensor<5x16xf32>, tensor<5xf32>) -> tensor<*xf32>
  %l = pdc.read @labels : tensor<6xi64>
  %loss, %lp, %scales = pdc.node "SoftmaxCrossEntropyLoss" "loss"(%y, %l) {reduction = "sum", ignore_index = -100 : i64} : (tensor<*xf32>, tensor<6xi64>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  pdc.accumulate %loss into @pdc.loss : tensor<*xf32>
  %n = pdc.node "LossWeight" "n"(%l) {ignore_index = -100 : i64} : (tensor<6xi64>) -> tensor<*xf32>
  pdc.accumulate %n into @pdc.loss_weight : tensor<*xf32>
  return
}
func.func @evaluate() {
  %x = pdc.read @x : tensor<2x3x4xf32>
  %w1 = pdc.weight_version @in.weight latest : tensor<8x4xf32>
  %b1 = pdc.weight_version @in.bias latest : tensor<8xf32>
  %h1 = pdc.node "FusedMatMul" "in"(%x, %w1) {alpha = 1.0 : f64, transA = 0 : i64, transB = 1 : i64} : (tensor<2x3x4xf32>, tensor<8x4xf32>) -> tensor<*xf32>
  %a1 = pdc.node "Add" "in/bias"(%h1, %b1) {} : (tensor<*xf32>, tensor<8xf32>) -> tensor<*xf32>
  %g1 = pdc.node "FastGelu" "gelu1"(%a1) {} : (tensor<*xf32>) -> tensor<*xf32>
  %s = pdc.node "ReduceSum" "sum"(%g1) {keepdims = 0 : i64} : (tensor<*xf32>) -> tensor<*xf32>
  pdc.accumulate %s into @pdc.evaluation_loss : tensor<*xf32>
  return
}
