// RUN: pdc-opt %s --recognise-composites --check-against=%s -o - | FileCheck %s

// Bounds that are numbers, as the newer exporter writes clamp and says so.

pdc.memory @x input microbatch : tensor<2x3xf32>
pdc.memory @row input microbatch : tensor<3xf32>
pdc.memory @one metric update : tensor<2x3xf32>
pdc.memory @two metric update : tensor<2x3xf32>
pdc.memory @three metric update : tensor<2x3xf32>
pdc.memory @four metric update : tensor<2x3xf32>
pdc.memory @five metric update : tensor<2x3xf32>
pdc.memory @six metric update : tensor<2x3xf32>
pdc.memory @seven metric update : tensor<2x3xf32>
pdc.memory @eight metric update : tensor<2x3xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK: %[[X:.*]] = pdc.read @x
  %x = pdc.read @x : tensor<2x3xf32>
  %row = pdc.read @row : tensor<3xf32>
  // CHECK: %[[LOW:.*]] = pdc.node "Constant" "low"
  %low = pdc.node "Constant" "low"() {value = dense<-1.0> : tensor<f32>} : () -> tensor<f32>
  // CHECK: %[[HIGH:.*]] = pdc.node "Constant" "high"
  %high = pdc.node "Constant" "high"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>

  // CHECK: pdc.node "AtLeast" "one"(%[[X]], %[[LOW]])
  %one = pdc.node "Max" "one"(%low, %x) {clamps = 1 : i64} : (tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  pdc.accumulate %one into @one : tensor<2x3xf32>
  // CHECK: pdc.node "AtMost" "two"(%[[X]], %[[HIGH]])
  %two = pdc.node "Min" "two"(%x, %high) {clamps = 1 : i64} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  pdc.accumulate %two into @two : tensor<2x3xf32>
  // CHECK-NOT: "inner3"
  // CHECK: pdc.node "Clip" "three"(%[[X]], %[[LOW]], %[[HIGH]])
  %inner3 = pdc.node "Max" "inner3"(%x, %low) {clamps = 1 : i64} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %three = pdc.node "Min" "three"(%inner3, %high) {clamps = 1 : i64} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  pdc.accumulate %three into @three : tensor<2x3xf32>
  // CHECK: pdc.node "Clip" "four"(%[[X]], %[[LOW]], %[[HIGH]])
  %inner4 = pdc.node "Min" "inner4"(%x, %high) {clamps = 1 : i64} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %four = pdc.node "Max" "four"(%inner4, %low) {clamps = 1 : i64} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  pdc.accumulate %four into @four : tensor<2x3xf32>
  // The outer bound goes before the inner one: the wrong way round they are no Clip.
  // CHECK: pdc.node "AtMost" "inner5"
  // CHECK: pdc.node "AtLeast" "five"
  %inner5 = pdc.node "Min" "inner5"(%x, %low) {clamps = 1 : i64} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %five = pdc.node "Max" "five"(%inner5, %high) {clamps = 1 : i64} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  pdc.accumulate %five into @five : tensor<2x3xf32>
  // A row of bounds is none.
  // CHECK: pdc.node "Max" "six"
  %six = pdc.node "Max" "six"(%x, %row) {clamps = 1 : i64} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  pdc.accumulate %six into @six : tensor<2x3xf32>
  // Of equals torch.maximum gives half the gradient.
  // CHECK: pdc.node "Max" "seven"
  %seven = pdc.node "Max" "seven"(%low, %x) {} : (tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  pdc.accumulate %seven into @seven : tensor<2x3xf32>
  // CHECK: %[[P:.*]] = pdc.node "Abs" "size"
  // CHECK: pdc.node "LogAtLeast" "eight"(%[[P]], %[[LOW]])
  %size = pdc.node "Abs" "size"(%x) {} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %log = pdc.node "Log" "log"(%size) {} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %eight = pdc.node "Max" "eight"(%log, %low) {} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  pdc.accumulate %eight into @eight : tensor<2x3xf32>
  return
}
