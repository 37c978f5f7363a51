// RUN: pdc-opt %s --join-sums | FileCheck %s

// All uses of a weight add to its first sum, wherever they stand; another weight and the loss keep theirs.

pdc.memory @w weight version : tensor<4xf32>
// CHECK: pdc.memory @"w/gradient" gradient
pdc.memory @"w/gradient" gradient update : tensor<4xf32>
// CHECK-NOT: w/gradient.
pdc.memory @"w/gradient.1" gradient update : tensor<4xf32>
pdc.memory @"w/gradient.2" gradient update : tensor<4xf32>
pdc.memory @v weight version : tensor<4xf32>
// CHECK: pdc.memory @"v/gradient" gradient
pdc.memory @"v/gradient" gradient update : tensor<4xf32>
pdc.memory @x input microbatch : tensor<4xf32>
pdc.memory @pdc.loss metric update : tensor<4xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK: %[[X:.*]] = pdc.read @x
  %x = pdc.read @x : tensor<4xf32>
  // CHECK: %[[THIRD:.*]] = pdc.node "Neg"
  %third = pdc.node "Neg" "third"(%x) {} origin "c" : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: pdc.accumulate %[[THIRD]] into @"w/gradient"
  pdc.accumulate %third into @"w/gradient.2" : tensor<4xf32>
  // CHECK: pdc.accumulate %[[X]] into @"v/gradient"
  pdc.accumulate %x into @"v/gradient" : tensor<4xf32>
  // CHECK: %[[SECOND:.*]] = pdc.node "Exp"
  %second = pdc.node "Exp" "second"(%x) {} origin "b" : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: pdc.accumulate %[[SECOND]] into @"w/gradient"
  pdc.accumulate %second into @"w/gradient.1" : tensor<4xf32>
  // CHECK: pdc.accumulate %[[X]] into @"w/gradient"
  pdc.accumulate %x into @"w/gradient" : tensor<4xf32>
  // CHECK: pdc.accumulate %[[X]] into @pdc.loss
  pdc.accumulate %x into @pdc.loss : tensor<4xf32>
  return
}
