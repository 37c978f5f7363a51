// RUN: pdc-opt %s --recognise-composites --check-against=%s -o - | FileCheck %s

pdc.memory @x input microbatch : tensor<2x4x3x2xf32>
pdc.memory @scale weight version : tensor<4xf32>
pdc.memory @bias weight version : tensor<4xf32>
pdc.memory @one metric update : tensor<2x4x3x2xf32>
pdc.memory @two metric update : tensor<2x4x3x2xf32>
pdc.memory @three metric update : tensor<2x4x3x2xf32>

// As PyTorch exports GroupNorm, then SiLU: with numbers per channel, and without.
// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK-NEXT: %[[X:.*]] = pdc.read @x
  %x = pdc.read @x : tensor<2x4x3x2xf32>
  // CHECK-NEXT: %[[SCALE:.*]] = pdc.weight_version @scale
  %scale = pdc.weight_version @scale latest : tensor<4xf32>
  // CHECK-NEXT: %[[BIAS:.*]] = pdc.weight_version @bias
  %bias = pdc.weight_version @bias latest : tensor<4xf32>
  %together = pdc.node "Constant" "together"() {value = dense<[0, 2, -1]> : tensor<3xi64>} : () -> tensor<3xi64>
  %apart = pdc.node "Constant" "apart"() {value = dense<[2, 4, 3, 2]> : tensor<4xi64>} : () -> tensor<4xi64>
  %channels = pdc.node "Constant" "channels"() {value = dense<[4, 1, 1]> : tensor<3xi64>} : () -> tensor<3xi64>

  // CHECK-NEXT: %[[AFFINE:.*]]:3 = pdc.node "GroupNormalization" "swish"(%[[X]], %[[SCALE]], %[[BIAS]]) {epsilon = 9.765625E-4 : f64, num_groups = 2 : i64, swish = 1 : i64}
  // CHECK-NEXT: pdc.accumulate %[[AFFINE]]#0 into @one
  %groups = pdc.node "Reshape" "groups"(%x, %together) {} : (tensor<2x4x3x2xf32>, tensor<3xi64>) -> tensor<2x2x12xf32>
  %normal:3 = pdc.node "GroupNormalization" "normal"(%groups) {epsilon = 9.765625E-4 : f64, num_groups = 2 : i64} : (tensor<2x2x12xf32>) -> (tensor<2x2x12xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  %image = pdc.node "Reshape" "image"(%normal#0, %apart) {} : (tensor<2x2x12xf32>, tensor<4xi64>) -> tensor<2x4x3x2xf32>
  %scales = pdc.node "Reshape" "scales"(%scale, %channels) {} : (tensor<4xf32>, tensor<3xi64>) -> tensor<4x1x1xf32>
  %scaled = pdc.node "Mul" "scaled"(%image, %scales) {} : (tensor<2x4x3x2xf32>, tensor<4x1x1xf32>) -> tensor<2x4x3x2xf32>
  %biases = pdc.node "Reshape" "biases"(%bias, %channels) {} : (tensor<4xf32>, tensor<3xi64>) -> tensor<4x1x1xf32>
  %shifted = pdc.node "Add" "shifted"(%scaled, %biases) {} : (tensor<2x4x3x2xf32>, tensor<4x1x1xf32>) -> tensor<2x4x3x2xf32>
  %sigmoid = pdc.node "Sigmoid" "sigmoid"(%shifted) {} : (tensor<2x4x3x2xf32>) -> tensor<2x4x3x2xf32>
  %swish = pdc.node "Mul" "swish"(%shifted, %sigmoid) {} : (tensor<2x4x3x2xf32>, tensor<2x4x3x2xf32>) -> tensor<2x4x3x2xf32>
  pdc.accumulate %swish into @one : tensor<2x4x3x2xf32>

  // Read by another, too, it stays as it is.
  // CHECK-NEXT: %[[PLAIN:.*]]:3 = pdc.node "GroupNormalization" "plain"(%[[X]]) {epsilon = 9.765625E-4 : f64, num_groups = 2 : i64}
  // CHECK-NEXT: pdc.accumulate %[[PLAIN]]#0 into @two
  %others = pdc.node "Reshape" "others"(%x, %together) {} : (tensor<2x4x3x2xf32>, tensor<3xi64>) -> tensor<2x2x12xf32>
  %second:3 = pdc.node "GroupNormalization" "second"(%others) {epsilon = 9.765625E-4 : f64, num_groups = 2 : i64} : (tensor<2x2x12xf32>) -> (tensor<2x2x12xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  %plain = pdc.node "Reshape" "plain"(%second#0, %apart) {} : (tensor<2x2x12xf32>, tensor<4xi64>) -> tensor<2x4x3x2xf32>
  pdc.accumulate %plain into @two : tensor<2x4x3x2xf32>
  // CHECK-NEXT: %[[SWISH:.*]] = pdc.node "Swish" "other"(%[[PLAIN]]#0) {}
  // CHECK-NEXT: pdc.accumulate %[[SWISH]] into @three
  %gate = pdc.node "Sigmoid" "gate"(%plain) {} : (tensor<2x4x3x2xf32>) -> tensor<2x4x3x2xf32>
  %other = pdc.node "Mul" "other"(%gate, %plain) {} : (tensor<2x4x3x2xf32>, tensor<2x4x3x2xf32>) -> tensor<2x4x3x2xf32>
  pdc.accumulate %other into @three : tensor<2x4x3x2xf32>
  return
}

// Not quite: numbers along another dimension, groups of other elements, groups that are scaled.
// CHECK-LABEL: func.func @evaluate
func.func @evaluate() {
  %x = pdc.read @x : tensor<2x4x3x2xf32>
  %scale = pdc.weight_version @scale latest : tensor<4xf32>
  %together = pdc.node "Constant" "together"() {value = dense<[0, 2, -1]> : tensor<3xi64>} : () -> tensor<3xi64>
  %across = pdc.node "Constant" "across"() {value = dense<[4, 2, -1]> : tensor<3xi64>} : () -> tensor<3xi64>
  %apart = pdc.node "Constant" "apart"() {value = dense<[2, 4, 3, 2]> : tensor<4xi64>} : () -> tensor<4xi64>
  %column = pdc.node "Constant" "column"() {value = dense<2.0> : tensor<3x1xf32>} : () -> tensor<3x1xf32>
  %pair = pdc.node "Constant" "pair"() {value = dense<[2.0, 3.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %groups = pdc.node "Reshape" "groups"(%x, %together) {} : (tensor<2x4x3x2xf32>, tensor<3xi64>) -> tensor<2x2x12xf32>
  // CHECK: "GroupNormalization" "normal"({{.*}}) {{.*}} : (tensor<2x2x12xf32>, tensor<2xf32>)
  %normal:3 = pdc.node "GroupNormalization" "normal"(%groups, %pair) {epsilon = 9.765625E-4 : f64, num_groups = 2 : i64} : (tensor<2x2x12xf32>, tensor<2xf32>) -> (tensor<2x2x12xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  %image = pdc.node "Reshape" "image"(%normal#0, %apart) {} : (tensor<2x2x12xf32>, tensor<4xi64>) -> tensor<2x4x3x2xf32>
  pdc.accumulate %image into @one : tensor<2x4x3x2xf32>
  %halves = pdc.node "Reshape" "halves"(%x, %across) {} : (tensor<2x4x3x2xf32>, tensor<3xi64>) -> tensor<4x2x6xf32>
  // CHECK: "GroupNormalization" "half"({{.*}}) {{.*}} : (tensor<4x2x6xf32>)
  %half:3 = pdc.node "GroupNormalization" "half"(%halves) {epsilon = 9.765625E-4 : f64, num_groups = 2 : i64} : (tensor<4x2x6xf32>) -> (tensor<4x2x6xf32>, tensor<4x2xf32>, tensor<4x2xf32>)
  %whole = pdc.node "Reshape" "whole"(%half#0, %apart) {} : (tensor<4x2x6xf32>, tensor<4xi64>) -> tensor<2x4x3x2xf32>
  pdc.accumulate %whole into @two : tensor<2x4x3x2xf32>
  // CHECK: "Mul" "scaled"
  // CHECK: "Add" "shifted"
  %first = pdc.node "Reshape" "first"(%x, %together) {} : (tensor<2x4x3x2xf32>, tensor<3xi64>) -> tensor<2x2x12xf32>
  %second:3 = pdc.node "GroupNormalization" "second"(%first) {epsilon = 9.765625E-4 : f64, num_groups = 2 : i64} : (tensor<2x2x12xf32>) -> (tensor<2x2x12xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  %third = pdc.node "Reshape" "third"(%second#0, %apart) {} : (tensor<2x2x12xf32>, tensor<4xi64>) -> tensor<2x4x3x2xf32>
  %scaled = pdc.node "Mul" "scaled"(%third, %column) {} : (tensor<2x4x3x2xf32>, tensor<3x1xf32>) -> tensor<2x4x3x2xf32>
  %shifted = pdc.node "Add" "shifted"(%scaled, %column) {} : (tensor<2x4x3x2xf32>, tensor<3x1xf32>) -> tensor<2x4x3x2xf32>
  pdc.accumulate %shifted into @three : tensor<2x4x3x2xf32>
  return
}
