// RUN: pdc-opt %s --merge-constants --check-against=%s -o - | FileCheck %s

// Masks that each layer makes of the same constants are one.

pdc.memory @x input microbatch : tensor<3x3xf32>
pdc.memory @w weight version : tensor<3x3xf32>
pdc.memory @one metric update : tensor<3x3xf32>
pdc.memory @two metric update : tensor<3x3xf32>
pdc.memory @three metric update : tensor<3x3xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  %x = pdc.read @x : tensor<3x3xf32>
  %w = pdc.weight_version @w latest : tensor<3x3xf32>
  %column = pdc.node "Constant" "column"() {value = dense<[0, 1, 2]> : tensor<3xi64>} : () -> tensor<3xi64>
  %row = pdc.node "Constant" "row"() {value = dense<[[0], [1], [2]]> : tensor<3x1xi64>} : () -> tensor<3x1xi64>
  %zero1 = pdc.node "Constant" "zero1"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %zero2 = pdc.node "Constant" "zero2"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %low1 = pdc.node "Constant" "low1"() {value = dense<-1.0e+09> : tensor<f32>} : () -> tensor<f32>
  %low2 = pdc.node "Constant" "low2"() {value = dense<-1.0e+09> : tensor<f32>} : () -> tensor<f32>
  %lower = pdc.node "Constant" "lower"() {value = dense<-2.0e+09> : tensor<f32>} : () -> tensor<f32>

  // CHECK: %[[SEEN:.*]] = pdc.node "LessOrEqual" "seen1"
  // CHECK-NOT: "seen2"
  // CHECK: %[[MASK:.*]] = pdc.node "Where" "mask1"(%[[SEEN]],
  // CHECK-NOT: "mask2"
  // CHECK: pdc.node "Add" "sum1"(%{{.*}}, %[[MASK]])
  // CHECK: pdc.node "Sub" "sum2"(%{{.*}}, %[[MASK]])
  %seen1 = pdc.node "LessOrEqual" "seen1"(%column, %row) {} : (tensor<3xi64>, tensor<3x1xi64>) -> tensor<3x3xi1>
  %mask1 = pdc.node "Where" "mask1"(%seen1, %zero1, %low1) {} : (tensor<3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<3x3xf32>
  %sum1 = pdc.node "Add" "sum1"(%x, %mask1) {} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  pdc.accumulate %sum1 into @one : tensor<3x3xf32>
  %seen2 = pdc.node "LessOrEqual" "seen2"(%column, %row) {} : (tensor<3xi64>, tensor<3x1xi64>) -> tensor<3x3xi1>
  %mask2 = pdc.node "Where" "mask2"(%seen2, %zero2, %low2) {} : (tensor<3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<3x3xf32>
  %sum2 = pdc.node "Sub" "sum2"(%x, %mask2) {} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  pdc.accumulate %sum2 into @two : tensor<3x3xf32>

  // Another number, and what depends on weights or data, as two stages may each make it.
  // CHECK: pdc.node "Where" "mask3"(%[[SEEN]],
  // CHECK: pdc.node "Where" "weight1"
  // CHECK: pdc.node "Where" "weight2"
  // CHECK: pdc.node "Where" "data1"
  // CHECK: pdc.node "Where" "data2"
  %mask3 = pdc.node "Where" "mask3"(%seen2, %zero2, %lower) {} : (tensor<3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<3x3xf32>
  %weight1 = pdc.node "Where" "weight1"(%seen1, %w, %zero1) {} : (tensor<3x3xi1>, tensor<3x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %weight2 = pdc.node "Where" "weight2"(%seen2, %w, %zero1) {} : (tensor<3x3xi1>, tensor<3x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %data1 = pdc.node "Where" "data1"(%seen1, %x, %zero1) {} : (tensor<3x3xi1>, tensor<3x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %data2 = pdc.node "Where" "data2"(%seen2, %x, %zero1) {} : (tensor<3x3xi1>, tensor<3x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %all = pdc.node "Sum" "all"(%mask3, %weight1, %weight2, %data1, %data2) {} : (tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  pdc.accumulate %all into @three : tensor<3x3xf32>
  return
}
