// RUN: pdc-opt %s --recognise-composites --check-against=%s -o - | FileCheck %s

// Views between the products of an attention, which bring samples and heads together and take them apart.

pdc.memory @rows input microbatch : tensor<4x3x2x4xf32>
pdc.memory @k input microbatch : tensor<4x2x3x4xf32>
pdc.memory @v input microbatch : tensor<4x2x3x4xf32>
pdc.memory @padding input microbatch : tensor<4x1x1x3xf32>
pdc.memory @flat input microbatch : tensor<8x3x3xf32>
pdc.memory @windows input microbatch : tensor<2x1x3x3xf32>
pdc.memory @samples input microbatch : tensor<2x1x1x1x3xf32>
pdc.memory @bias input microbatch : tensor<2x3x3xf32>
pdc.memory @temperature input microbatch : tensor<2x1x1xf32>
pdc.memory @rows5 input microbatch : tensor<2x2x3x2x4xf32>
pdc.memory @joined metric update : tensor<4x3x2x4xf32>
pdc.memory @shifted metric update : tensor<4x2x3x4xf32>
pdc.memory @both metric update : tensor<4x2x3x4xf32>
pdc.memory @five metric update : tensor<2x2x3x2x4xf32>
pdc.memory @cooled metric update : tensor<4x2x3x4xf32>
pdc.memory @random input microbatch : tensor<6xi64>
pdc.memory @flat_rows input microbatch : tensor<8x3x4xf32>
pdc.memory @drops metric update : tensor<8x3x4xf32>

// CHECK-LABEL: func.func @train
// CHECK-DAG: %[[ROWS:.*]] = pdc.read @rows :
// CHECK-DAG: %[[K:.*]] = pdc.read @k
// CHECK-DAG: %[[V:.*]] = pdc.read @v
// CHECK-DAG: %[[PADDING:.*]] = pdc.read @padding
// CHECK-DAG: %[[FLAT:.*]] = pdc.read @flat
// CHECK-DAG: %[[WINDOWS:.*]] = pdc.read @windows
// CHECK-DAG: %[[SAMPLES:.*]] = pdc.read @samples
// CHECK-DAG: %[[BIAS:.*]] = pdc.read @bias
// CHECK-DAG: %[[FIVE:.*]] = pdc.read @rows5
func.func @train() {
  %rows = pdc.read @rows : tensor<4x3x2x4xf32>
  %k = pdc.read @k : tensor<4x2x3x4xf32>
  %v = pdc.read @v : tensor<4x2x3x4xf32>
  %padding = pdc.read @padding : tensor<4x1x1x3xf32>
  %flat = pdc.read @flat : tensor<8x3x3xf32>
  %windows = pdc.read @windows : tensor<2x1x3x3xf32>
  %samples = pdc.read @samples : tensor<2x1x1x1x3xf32>
  %bias = pdc.read @bias : tensor<2x3x3xf32>
  %temperature = pdc.read @temperature : tensor<2x1x1xf32>
  %rows5 = pdc.read @rows5 : tensor<2x2x3x2x4xf32>

  // Products of all heads in one dimension, some masks of which tell, and others of samples and heads: the transposition behind takes views apart.
  // CHECK: %[[APART:.*]] = pdc.node "Reshape" "joined/mask"(%[[FLAT]], %{{.*}} -> tensor<4x2x3x3xf32>
  // CHECK: %[[ALL:.*]] = pdc.node "Add" {{.*}}(%[[PADDING]], %[[APART]])
  // CHECK: pdc.node "SoftmaxAttention" "joined"(%[[ROWS]], %[[K]], %[[V]], %[[ALL]]) {rows_first = array<i64: 1, 0, 0, 1>
  %joined_h = pdc.node "Transpose" "joined_h"(%rows) {perm = array<i64: 0, 2, 1, 3>} : (tensor<4x3x2x4xf32>) -> tensor<4x2x3x4xf32>
  %joined_q_shape = pdc.node "Constant" "joined_q_shape"() {value = dense<[8, 3, 4]> : tensor<3xi64>} : () -> tensor<3xi64>
  %joined_q = pdc.node "Reshape" "joined_q"(%joined_h, %joined_q_shape) {} : (tensor<4x2x3x4xf32>, tensor<3xi64>) -> tensor<8x3x4xf32>
  %joined_k_shape = pdc.node "Constant" "joined_k_shape"() {value = dense<[8, 3, 4]> : tensor<3xi64>} : () -> tensor<3xi64>
  %joined_k = pdc.node "Reshape" "joined_k"(%k, %joined_k_shape) {} : (tensor<4x2x3x4xf32>, tensor<3xi64>) -> tensor<8x3x4xf32>
  %joined_v_shape = pdc.node "Constant" "joined_v_shape"() {value = dense<[8, 3, 4]> : tensor<3xi64>} : () -> tensor<3xi64>
  %joined_v = pdc.node "Reshape" "joined_v"(%v, %joined_v_shape) {} : (tensor<4x2x3x4xf32>, tensor<3xi64>) -> tensor<8x3x4xf32>
  %joined_kt = pdc.node "Transpose" "joined_kt"(%joined_k) {perm = array<i64: 0, 2, 1>} : (tensor<8x3x4xf32>) -> tensor<8x4x3xf32>
  %joined_qk = pdc.node "MatMul" "joined_qk"(%joined_q, %joined_kt) {} : (tensor<8x3x4xf32>, tensor<8x4x3xf32>) -> tensor<8x3x3xf32>
  %joined_a = pdc.node "Add" "joined_a"(%joined_qk, %flat) {} : (tensor<8x3x3xf32>, tensor<8x3x3xf32>) -> tensor<8x3x3xf32>
  %joined_w_shape = pdc.node "Constant" "joined_w_shape"() {value = dense<[4, 2, 3, 3]> : tensor<4xi64>} : () -> tensor<4xi64>
  %joined_w = pdc.node "Reshape" "joined_w"(%joined_a, %joined_w_shape) {} : (tensor<8x3x3xf32>, tensor<4xi64>) -> tensor<4x2x3x3xf32>
  %joined_b = pdc.node "Add" "joined_b"(%joined_w, %padding) {} : (tensor<4x2x3x3xf32>, tensor<4x1x1x3xf32>) -> tensor<4x2x3x3xf32>
  %joined_p = pdc.node "Softmax" "joined_p"(%joined_b) {axis = -1 : i64} : (tensor<4x2x3x3xf32>) -> tensor<4x2x3x3xf32>
  %joined_s_shape = pdc.node "Constant" "joined_s_shape"() {value = dense<[8, 3, 3]> : tensor<3xi64>} : () -> tensor<3xi64>
  %joined_s = pdc.node "Reshape" "joined_s"(%joined_p, %joined_s_shape) {} : (tensor<4x2x3x3xf32>, tensor<3xi64>) -> tensor<8x3x3xf32>
  %joined_y = pdc.node "MatMul" "joined_y"(%joined_s, %joined_v) {} : (tensor<8x3x3xf32>, tensor<8x3x4xf32>) -> tensor<8x3x4xf32>
  %joined_r_shape = pdc.node "Constant" "joined_r_shape"() {value = dense<[4, 2, 3, 4]> : tensor<4xi64>} : () -> tensor<4xi64>
  %joined_r = pdc.node "Reshape" "joined_r"(%joined_y, %joined_r_shape) {} : (tensor<8x3x4xf32>, tensor<4xi64>) -> tensor<4x2x3x4xf32>
  %joined = pdc.node "Transpose" "joined"(%joined_r) {perm = array<i64: 0, 2, 1, 3>} : (tensor<4x2x3x4xf32>) -> tensor<4x3x2x4xf32>
  pdc.accumulate %joined into @joined : tensor<4x3x2x4xf32>

  // Windows of images, whose masks the samples take in turn; the heads' bias is one for all.
  // CHECK: %[[TURNS:.*]] = pdc.node "Add" "shifted/mask"(%[[WINDOWS]], %[[BIAS]]) {} : (tensor<2x1x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x2x3x3xf32>
  // CHECK: pdc.node "SoftmaxAttention" "shifted"(%[[ROWS]], %[[K]], %[[V]], %[[TURNS]])
  %kt = pdc.node "Transpose" "kt"(%k) {perm = array<i64: 0, 1, 3, 2>} : (tensor<4x2x3x4xf32>) -> tensor<4x2x4x3xf32>
  %shifted_qk = pdc.node "MatMul" "shifted_qk"(%joined_h, %kt) {} : (tensor<4x2x3x4xf32>, tensor<4x2x4x3xf32>) -> tensor<4x2x3x3xf32>
  %shifted_a = pdc.node "Add" "shifted_a"(%shifted_qk, %bias) {} : (tensor<4x2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<4x2x3x3xf32>
  %shifted_w_shape = pdc.node "Constant" "shifted_w_shape"() {value = dense<[2, 2, 2, 3, 3]> : tensor<5xi64>} : () -> tensor<5xi64>
  %shifted_w = pdc.node "Reshape" "shifted_w"(%shifted_a, %shifted_w_shape) {} : (tensor<4x2x3x3xf32>, tensor<5xi64>) -> tensor<2x2x2x3x3xf32>
  %shifted_b = pdc.node "Add" "shifted_b"(%shifted_w, %windows) {} : (tensor<2x2x2x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x2x2x3x3xf32>
  %shifted_u_shape = pdc.node "Constant" "shifted_u_shape"() {value = dense<[4, 2, 3, 3]> : tensor<4xi64>} : () -> tensor<4xi64>
  %shifted_u = pdc.node "Reshape" "shifted_u"(%shifted_b, %shifted_u_shape) {} : (tensor<2x2x2x3x3xf32>, tensor<4xi64>) -> tensor<4x2x3x3xf32>
  %shifted_p = pdc.node "Softmax" "shifted_p"(%shifted_u) {axis = -1 : i64} : (tensor<4x2x3x3xf32>) -> tensor<4x2x3x3xf32>
  %shifted = pdc.node "MatMul" "shifted"(%shifted_p, %v) {} : (tensor<4x2x3x3xf32>, tensor<4x2x3x4xf32>) -> tensor<4x2x3x4xf32>
  pdc.accumulate %shifted into @shifted : tensor<4x2x3x4xf32>

  // What tells of images but not of windows is repeated for these, and so is what goes with it.
  // CHECK: pdc.node "Expand" {{.*}}(%[[SAMPLES]], %
  // CHECK: pdc.node "Expand" {{.*}}(%[[WINDOWS]], %
  // CHECK: pdc.node "SoftmaxAttention" "both"({{.*}} tensor<4x1x3x3xf32>) -> (tensor<4x2x3x4xf32>
  %both_qk = pdc.node "MatMul" "both_qk"(%joined_h, %kt) {} : (tensor<4x2x3x4xf32>, tensor<4x2x4x3xf32>) -> tensor<4x2x3x3xf32>
  %both_w_shape = pdc.node "Constant" "both_w_shape"() {value = dense<[2, 2, 2, 3, 3]> : tensor<5xi64>} : () -> tensor<5xi64>
  %both_w = pdc.node "Reshape" "both_w"(%both_qk, %both_w_shape) {} : (tensor<4x2x3x3xf32>, tensor<5xi64>) -> tensor<2x2x2x3x3xf32>
  %both_b = pdc.node "Add" "both_b"(%both_w, %windows) {} : (tensor<2x2x2x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x2x2x3x3xf32>
  %both_c = pdc.node "Add" "both_c"(%both_b, %samples) {} : (tensor<2x2x2x3x3xf32>, tensor<2x1x1x1x3xf32>) -> tensor<2x2x2x3x3xf32>
  %both_u_shape = pdc.node "Constant" "both_u_shape"() {value = dense<[4, 2, 3, 3]> : tensor<4xi64>} : () -> tensor<4xi64>
  %both_u = pdc.node "Reshape" "both_u"(%both_c, %both_u_shape) {} : (tensor<2x2x2x3x3xf32>, tensor<4xi64>) -> tensor<4x2x3x3xf32>
  %both_p = pdc.node "Softmax" "both_p"(%both_u) {axis = -1 : i64} : (tensor<4x2x3x3xf32>) -> tensor<4x2x3x3xf32>
  %both = pdc.node "MatMul" "both"(%both_p, %v) {} : (tensor<4x2x3x3xf32>, tensor<4x2x3x4xf32>) -> tensor<4x2x3x4xf32>
  pdc.accumulate %both into @both : tensor<4x2x3x4xf32>

  // Five dimensions throughout.
  // CHECK: %[[HEADED:.*]] = pdc.node "Reshape" "five/headed"(%[[FIVE]], %{{.*}} -> tensor<4x3x2x4xf32>
  // CHECK: pdc.node "SoftmaxAttention" "five"(%[[HEADED]], %[[K]], %[[V]]) {rows_first = array<i64: 1, 0, 0, 1>
  %five_q = pdc.node "Transpose" "five_q"(%rows5) {perm = array<i64: 0, 1, 3, 2, 4>} : (tensor<2x2x3x2x4xf32>) -> tensor<2x2x2x3x4xf32>
  %five_k_shape = pdc.node "Constant" "five_k_shape"() {value = dense<[2, 2, 2, 3, 4]> : tensor<5xi64>} : () -> tensor<5xi64>
  %five_k = pdc.node "Reshape" "five_k"(%k, %five_k_shape) {} : (tensor<4x2x3x4xf32>, tensor<5xi64>) -> tensor<2x2x2x3x4xf32>
  %five_v_shape = pdc.node "Constant" "five_v_shape"() {value = dense<[2, 2, 2, 3, 4]> : tensor<5xi64>} : () -> tensor<5xi64>
  %five_v = pdc.node "Reshape" "five_v"(%v, %five_v_shape) {} : (tensor<4x2x3x4xf32>, tensor<5xi64>) -> tensor<2x2x2x3x4xf32>
  %five_kt = pdc.node "Transpose" "five_kt"(%five_k) {perm = array<i64: 0, 1, 2, 4, 3>} : (tensor<2x2x2x3x4xf32>) -> tensor<2x2x2x4x3xf32>
  %five_qk = pdc.node "MatMul" "five_qk"(%five_q, %five_kt) {} : (tensor<2x2x2x3x4xf32>, tensor<2x2x2x4x3xf32>) -> tensor<2x2x2x3x3xf32>
  %five_p = pdc.node "Softmax" "five_p"(%five_qk) {axis = -1 : i64} : (tensor<2x2x2x3x3xf32>) -> tensor<2x2x2x3x3xf32>
  %five_y = pdc.node "MatMul" "five_y"(%five_p, %five_v) {} : (tensor<2x2x2x3x3xf32>, tensor<2x2x2x3x4xf32>) -> tensor<2x2x2x3x4xf32>
  %five = pdc.node "Transpose" "five"(%five_y) {perm = array<i64: 0, 1, 3, 2, 4>} : (tensor<2x2x2x3x4xf32>) -> tensor<2x2x3x2x4xf32>
  pdc.accumulate %five into @five : tensor<2x2x3x2x4xf32>

  // Scores that are divided by a temperature of each head.
  // CHECK: pdc.node "Div" "cooled/scaled"(%[[ROWS]], %
  %cooled_qk = pdc.node "MatMul" "cooled_qk"(%joined_h, %kt) {} : (tensor<4x2x3x4xf32>, tensor<4x2x4x3xf32>) -> tensor<4x2x3x3xf32>
  %cooled_d = pdc.node "Div" "cooled_d"(%cooled_qk, %temperature) {} : (tensor<4x2x3x3xf32>, tensor<2x1x1xf32>) -> tensor<4x2x3x3xf32>
  %cooled_p = pdc.node "Softmax" "cooled_p"(%cooled_d) {axis = -1 : i64} : (tensor<4x2x3x3xf32>) -> tensor<4x2x3x3xf32>
  %cooled = pdc.node "MatMul" "cooled"(%cooled_p, %v) {} : (tensor<4x2x3x3xf32>, tensor<4x2x3x4xf32>) -> tensor<4x2x3x4xf32>
  pdc.accumulate %cooled into @cooled : tensor<4x2x3x4xf32>

  // Dropout draws as for the shares that it reads, whatever the softmax had for samples.
  // CHECK: pdc.node "SoftmaxAttention" "drops"({{.*}} {key = 5 : i64, ratio = 5.000000e-01 : f64, rows_first = array<i64: 0, 0, 0, 0>, samples = 4 : i64
  %random = pdc.read @random : tensor<6xi64>
  %flat_rows = pdc.read @flat_rows : tensor<8x3x4xf32>
  %drops_t = pdc.node "Transpose" "drops_t"(%flat_rows) {perm = array<i64: 0, 2, 1>} : (tensor<8x3x4xf32>) -> tensor<8x4x3xf32>
  %drops_qk = pdc.node "MatMul" "drops_qk"(%flat_rows, %drops_t) {} : (tensor<8x3x4xf32>, tensor<8x4x3xf32>) -> tensor<8x3x3xf32>
  %drops_w_shape = pdc.node "Constant" "drops_w_shape"() {value = dense<[1, 8, 3, 3]> : tensor<4xi64>} : () -> tensor<4xi64>
  %drops_w = pdc.node "Reshape" "drops_w"(%drops_qk, %drops_w_shape) {} : (tensor<8x3x3xf32>, tensor<4xi64>) -> tensor<1x8x3x3xf32>
  %drops_p = pdc.node "Softmax" "drops_p"(%drops_w) {axis = -1 : i64} : (tensor<1x8x3x3xf32>) -> tensor<1x8x3x3xf32>
  %drops_u_shape = pdc.node "Constant" "drops_u_shape"() {value = dense<[8, 3, 3]> : tensor<3xi64>} : () -> tensor<3xi64>
  %drops_u = pdc.node "Reshape" "drops_u"(%drops_p, %drops_u_shape) {} : (tensor<1x8x3x3xf32>, tensor<3xi64>) -> tensor<8x3x3xf32>
  %drops_d = pdc.node "Dropout" "drops_d"(%drops_u, %random) {key = 5 : i64, ratio = 5.0e-01 : f64} : (tensor<8x3x3xf32>, tensor<6xi64>) -> tensor<8x3x3xf32>
  %drops = pdc.node "MatMul" "drops"(%drops_d, %flat_rows) {} : (tensor<8x3x3xf32>, tensor<8x3x4xf32>) -> tensor<8x3x4xf32>
  pdc.accumulate %drops into @drops : tensor<8x3x4xf32>
  return
}
