// RUN: pdc-opt %s --recognise-composites --check-against=%s -o - | FileCheck %s

// A product reads a transposed matrix as it is.

pdc.memory @x input microbatch : tensor<2x3x4xf32>
pdc.memory @w weight version : tensor<5x4xf32>
pdc.memory @t input microbatch : tensor<2x4x3xf32>
pdc.memory @v input microbatch : tensor<4xf32>
pdc.memory @one metric update : tensor<2x3x5xf32>
pdc.memory @two metric update : tensor<2x4x4xf32>
pdc.memory @three metric update : tensor<2x3x5xf32>
pdc.memory @four metric update : tensor<5xf32>

// CHECK-LABEL: func.func @train
// CHECK-DAG: %[[X:.*]] = pdc.read @x :
// CHECK-DAG: %[[W:.*]] = pdc.weight_version @w
// CHECK-DAG: %[[T:.*]] = pdc.read @t :
// CHECK-DAG: %[[V:.*]] = pdc.read @v :
func.func @train() {
  %x = pdc.read @x : tensor<2x3x4xf32>
  %w = pdc.weight_version @w latest : tensor<5x4xf32>
  %t = pdc.read @t : tensor<2x4x3xf32>
  %v = pdc.read @v : tensor<4xf32>

  // As PyTorch exports nn.Linear on sequences.
  // CHECK: pdc.node "FusedMatMul" "linear"(%[[X]], %[[W]]) {alpha = 1.000000e+00 : f64, transA = 0 : i64, transB = 1 : i64}
  %wt = pdc.node "Transpose" "wt"(%w) {perm = array<i64: 1, 0>} : (tensor<5x4xf32>) -> tensor<4x5xf32>
  %linear = pdc.node "MatMul" "linear"(%x, %wt) {} : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
  pdc.accumulate %linear into @one : tensor<2x3x5xf32>

  // Both at once.
  // CHECK: pdc.node "FusedMatMul" "both"(%[[X]], %[[T]]) {alpha = 1.000000e+00 : f64, transA = 1 : i64, transB = 1 : i64}
  %xt = pdc.node "Transpose" "xt"(%x) {perm = array<i64: 0, 2, 1>} : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  %tt = pdc.node "Transpose" "tt"(%t) {perm = array<i64: 0, 2, 1>} : (tensor<2x4x3xf32>) -> tensor<2x3x4xf32>
  %both = pdc.node "MatMul" "both"(%xt, %tt) {} : (tensor<2x4x3xf32>, tensor<2x3x4xf32>) -> tensor<2x4x4xf32>
  pdc.accumulate %both into @two : tensor<2x4x4xf32>

  // A transposition of other dimensions stays, and so does one whose product is that of a vector.
  // CHECK: pdc.node "Transpose" "turned"
  // CHECK: pdc.node "MatMul" "moved"
  // CHECK: pdc.node "MatMul" "vector"
  %turned = pdc.node "Transpose" "turned"(%wt) {perm = array<i64: 0, 1>} : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %moved = pdc.node "MatMul" "moved"(%x, %turned) {} : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
  pdc.accumulate %moved into @three : tensor<2x3x5xf32>
  %vector = pdc.node "MatMul" "vector"(%v, %wt) {} : (tensor<4xf32>, tensor<4x5xf32>) -> tensor<5xf32>
  pdc.accumulate %vector into @four : tensor<5xf32>
  return
}
