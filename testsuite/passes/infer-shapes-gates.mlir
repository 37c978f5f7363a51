// RUN: pdc-opt %s --infer-shapes -o - | FileCheck %s

// The gates of an LSTM as PyTorch has them: exporters write slices of each weight in ONNX's order, of which the cell knows.

pdc.memory @x input microbatch : tensor<1x2x3xf32>
pdc.memory @w weight update : tensor<16x3xf32>
pdc.memory @r weight update : tensor<16x4xf32>
pdc.memory @b weight update : tensor<16xf32>
pdc.memory @c weight update : tensor<16xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK-DAG: %[[W:.*]] = pdc.read @w
  // CHECK-DAG: %[[R:.*]] = pdc.read @r
  // CHECK-DAG: %[[B:.*]] = pdc.read @b
  // CHECK-DAG: %[[C:.*]] = pdc.read @c
  %x = pdc.read @x : tensor<1x2x3xf32>
  %w = pdc.read @w : tensor<16x3xf32>
  %r = pdc.read @r : tensor<16x4xf32>
  %b = pdc.read @b : tensor<16xf32>
  %c = pdc.read @c : tensor<16xf32>
  %0 = pdc.node "Constant" "0"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %4 = pdc.node "Constant" "4"() {value = dense<4> : tensor<1xi64>} : () -> tensor<1xi64>
  %12 = pdc.node "Constant" "12"() {value = dense<12> : tensor<1xi64>} : () -> tensor<1xi64>
  %16 = pdc.node "Constant" "16"() {value = dense<16> : tensor<1xi64>} : () -> tensor<1xi64>
  %w1 = pdc.node "Slice" "w1"(%w, %0, %4, %0) {} : (tensor<16x3xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32>
  %w2 = pdc.node "Slice" "w2"(%w, %12, %16, %0) {} : (tensor<16x3xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32>
  %w3 = pdc.node "Slice" "w3"(%w, %4, %12, %0) {} : (tensor<16x3xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32>
  %r1 = pdc.node "Slice" "r1"(%r, %0, %4, %0) {} : (tensor<16x4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32>
  %r2 = pdc.node "Slice" "r2"(%r, %12, %16, %0) {} : (tensor<16x4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32>
  %r3 = pdc.node "Slice" "r3"(%r, %4, %12, %0) {} : (tensor<16x4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32>
  %b1 = pdc.node "Slice" "b1"(%b, %0, %4, %0) {} : (tensor<16xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32>
  %b2 = pdc.node "Slice" "b2"(%b, %12, %16, %0) {} : (tensor<16xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32>
  %b3 = pdc.node "Slice" "b3"(%b, %4, %12, %0) {} : (tensor<16xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32>
  %c1 = pdc.node "Slice" "c1"(%c, %0, %4, %0) {} : (tensor<16xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32>
  %c2 = pdc.node "Slice" "c2"(%c, %12, %16, %0) {} : (tensor<16xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32>
  %c3 = pdc.node "Slice" "c3"(%c, %4, %12, %0) {} : (tensor<16xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32>
  %wo = pdc.node "Concat" "wo"(%w1, %w2, %w3) {axis = 0 : i64} : (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  %ro = pdc.node "Concat" "ro"(%r1, %r2, %r3) {axis = 0 : i64} : (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  %bo = pdc.node "Concat" "bo"(%b1, %b2, %b3) {axis = 0 : i64} : (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  %co = pdc.node "Concat" "co"(%c1, %c2, %c3) {axis = 0 : i64} : (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  %bc = pdc.node "Concat" "bc"(%bo, %co) {axis = 0 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  %wu = pdc.node "Unsqueeze" "wu"(%wo, %0) {} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
  %ru = pdc.node "Unsqueeze" "ru"(%ro, %0) {} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
  %bu = pdc.node "Unsqueeze" "bu"(%bc, %0) {} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
  // CHECK: %[[BIAS:.*]] = pdc.node "Add" "lstm/Add"(%[[B]], %[[C]])
  // CHECK: %[[X:.*]] = pdc.node "Gemm" {{.*}}(%{{.*}}, %[[W]], %[[BIAS]])
  // CHECK: %[[PRODUCT:.*]] = pdc.node "Gemm" {{.*}}(%{{.*}}, %[[R]], %[[X]])
  // CHECK: pdc.node "LstmCell" {{.*}}(%[[PRODUCT]], %{{.*}}) {gates = array<i64: 0, 3, 1, 2>}
  %y:3 = pdc.node "LSTM" "lstm"(%x, %wu, %ru, %bu) {hidden_size = 4 : i64} : (tensor<1x2x3xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  // A bias in another order: the operator's own.
  // CHECK: %[[OWN:.*]] = pdc.node "Concat" "bx"
  // CHECK: pdc.node "LstmCell" "other/LstmCell"({{.*}}) {} :
  %bx = pdc.node "Concat" "bx"(%bo, %c) {axis = 0 : i64} : (tensor<*xf32>, tensor<16xf32>) -> tensor<*xf32>
  %bv = pdc.node "Unsqueeze" "bv"(%bx, %0) {} : (tensor<*xf32>, tensor<1xi64>) -> tensor<*xf32>
  %z:3 = pdc.node "LSTM" "other"(%x, %wu, %ru, %bv) {hidden_size = 4 : i64} : (tensor<1x2x3xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return
}
