// RUN: pdc-opt %s --version-weights | FileCheck %s
// RUN: sed 's/asynchronous = true/asynchronous = false/' %s | pdc-opt --version-weights | FileCheck %s --check-prefix=SYNCHRONOUS
// RUN: sed 's/asynchronous = true/asynchronous = true, weights = 2 : i32/' %s | pdc-opt --version-weights | FileCheck %s --check-prefix=ENTRY

// The backward task reads the packed copy of `w`, so the copy has versions and the master, which only
// the update and the preparation read, has one. The bias is read forwards only; `frozen` never changes.
// Under vertical sync the forward task reads versions too, so the bias has them.

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>

// SYNCHRONOUS-NOT: of_microbatch
// SYNCHRONOUS-NOT: depth = 2
// ENTRY: pdc.memory @w weight version : tensor<4xf32> {depth = 1 : i64}
// ENTRY: pdc.memory @"w/packed" derived version : tensor<4xf32> {depth = 2 : i64}
// ENTRY: pdc.memory @bias weight version : tensor<4xf32> {depth = 2 : i64}
// ENTRY: pdc.memory @frozen weight version : tensor<4xf32> {depth = 1 : i64}
// ENTRY: pdc.task prepare
// ENTRY: pdc.weight_version @w latest
// ENTRY: pdc.task forward
// ENTRY-NEXT: pdc.weight_version @"w/packed" at_entry
// ENTRY-NEXT: pdc.weight_version @bias at_entry
// ENTRY: pdc.task backward
// ENTRY-NEXT: pdc.weight_version @"w/packed" at_entry
// ENTRY-NEXT: pdc.weight_version @frozen latest
// ENTRY: pdc.task update
// ENTRY-NEXT: pdc.weight_version @w latest
// CHECK-LABEL: pdc.program @rank_0
pdc.program @rank_0 ranks [0] {
  // CHECK: pdc.memory @w weight version : tensor<4xf32> {depth = 1 : i64}
  pdc.memory @w weight version : tensor<4xf32>
  // CHECK: pdc.memory @"w/packed" derived version : tensor<4xf32> {depth = 2 : i64}
  pdc.memory @"w/packed" derived version : tensor<4xf32>
  // CHECK: pdc.memory @bias weight version : tensor<4xf32> {depth = 1 : i64}
  pdc.memory @bias weight version : tensor<4xf32>
  // CHECK: pdc.memory @frozen weight version : tensor<4xf32> {depth = 1 : i64}
  pdc.memory @frozen weight version : tensor<4xf32>
  pdc.stage 0 attributes {slots = array<i64: 0, 1>, versions = 2 : i64} {
    pdc.task prepare {
      // CHECK: pdc.weight_version @w latest
      %w = pdc.weight_version @w latest : tensor<4xf32>
      %packed = pdc.unit "pack" origin "a" prepare version (%0 = %w : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        %1 = pdc.node "Identity" "pack"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
        pdc.yield %1 : tensor<4xf32>
      }
      pdc.write %packed to @"w/packed" : tensor<4xf32>
    }
    pdc.task forward {
      // CHECK: pdc.weight_version @"w/packed" latest
      %w = pdc.weight_version @"w/packed" latest : tensor<4xf32>
      %b = pdc.weight_version @bias latest : tensor<4xf32>
    }
    pdc.task backward {
      // CHECK: pdc.weight_version @"w/packed" of_microbatch
      %w = pdc.weight_version @"w/packed" latest : tensor<4xf32>
      // CHECK: pdc.weight_version @frozen latest
      %f = pdc.weight_version @frozen latest : tensor<4xf32>
    }
    pdc.task update {
      %w = pdc.weight_version @w latest : tensor<4xf32>
      %b = pdc.weight_version @bias latest : tensor<4xf32>
      %n:2 = pdc.unit "sgd" origin "a" update update (%0 = %w : tensor<4xf32>, %1 = %b : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {kernel = #loops} {
        pdc.yield %0, %1 : tensor<4xf32>, tensor<4xf32>
      }
      pdc.commit %n#0 to @w : tensor<4xf32>
      pdc.commit %n#1 to @bias : tensor<4xf32>
    }
    pdc.task evaluate {
    }
  }
  pdc.schedule "pipedream" attributes {asynchronous = true, microbatches = 1 : i64, period = 1 : i64} warm_up {
  } repeat {
  } drain {
  }
}
