// RUN: pdc-opt %s --insert-cuts | FileCheck %s

// A value goes straight from its producer to each stage that reads it, once per stage; an input is
// read where it is needed and never cut.

pdc.memory @x input microbatch : tensor<4xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK: %[[X:.*]] = pdc.read @x
  %x = pdc.read @x : tensor<4xf32>
  // CHECK: %[[A:.*]] = pdc.unit "a"
  %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 0 : i64} {
    %1 = pdc.node "Relu" "a"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %1 : tensor<4xf32>
  }
  // CHECK: %[[TO1:.*]] = pdc.cut %[[A]] from 0 to 1
  // CHECK-NEXT: %[[TO2:.*]] = pdc.cut %[[A]] from 0 to 2
  // CHECK-NEXT: %[[B:.*]] = pdc.unit "b" {{.*}} = %[[TO1]] {{.*}} = %[[X]]
  %b = pdc.unit "b" origin "b" forward microbatch (%0 = %a : tensor<4xf32>, %1 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 1 : i64} {
    %2 = pdc.node "Add" "b"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  // CHECK: %[[B2:.*]] = pdc.cut %[[B]] from 1 to 2
  // CHECK-NEXT: %[[C:.*]] = pdc.unit "c" {{.*}} = %[[TO2]] {{.*}} = %[[B2]]
  %c = pdc.unit "c" origin "c" forward microbatch (%0 = %a : tensor<4xf32>, %1 = %b : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 2 : i64} {
    %2 = pdc.node "Add" "c"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  // CHECK-NOT: pdc.cut
  // CHECK: pdc.unit "d" {{.*}} = %[[TO2]] {{.*}} = %[[C]]
  %d = pdc.unit "d" origin "d" forward microbatch (%0 = %a : tensor<4xf32>, %1 = %c : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 2 : i64} {
    %2 = pdc.node "Add" "d"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  return
}
