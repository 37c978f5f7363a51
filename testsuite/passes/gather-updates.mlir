// RUN: pdc-opt %s --gather-updates | FileCheck %s

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>

pdc.program @rank_0 ranks [0] {
  pdc.memory @a weight version : tensor<4xf32>
  pdc.memory @b weight version : tensor<4xf32>
  pdc.memory @steps optimizer update : tensor<4xf32>
  pdc.memory @"a/gradient" gradient update : tensor<4xf32>
  pdc.memory @"b/gradient" gradient update : tensor<4xf32>
  pdc.stage 0 {
    // What the task reads again is written where it was, and the sum of two gradients comes before every update.
    // CHECK-LABEL: pdc.task update
    // CHECK:      pdc.unit "count"
    // CHECK:      pdc.write %{{.*}} to @steps
    // CHECK-NEXT: %[[STEPS:.*]] = pdc.read @steps
    // CHECK:      pdc.unit "sum"
    // CHECK:      %[[A:.*]] = pdc.unit "a/update"{{.*}} = %[[STEPS]]
    // CHECK:      pdc.commit %[[A]] to @a
    // CHECK-NEXT: %[[B:.*]] = pdc.unit "b/update"
    // CHECK:      pdc.commit %[[B]] to @b
    // CHECK-NEXT: }
    pdc.task update {
      %old = pdc.read @steps : tensor<4xf32>
      %next = pdc.unit "count" origin "a" update update (%0 = %old : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        pdc.yield %0 : tensor<4xf32>
      }
      pdc.write %next to @steps : tensor<4xf32>
      %steps = pdc.read @steps : tensor<4xf32>
      %a = pdc.weight_version @a latest : tensor<4xf32>
      %na = pdc.unit "a/update" origin "a" update update (%0 = %a : tensor<4xf32>, %1 = %steps : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        pdc.yield %0 : tensor<4xf32>
      }
      pdc.commit %na to @a : tensor<4xf32>
      %b = pdc.weight_version @b latest : tensor<4xf32>
      %ga = pdc.read @"a/gradient" : tensor<4xf32>
      %gb = pdc.read @"b/gradient" : tensor<4xf32>
      %sum = pdc.unit "sum" origin "a" update update (%0 = %ga : tensor<4xf32>, %1 = %gb : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        pdc.yield %0 : tensor<4xf32>
      }
      %nb = pdc.unit "b/update" origin "a" update update (%0 = %b : tensor<4xf32>, %1 = %sum : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        pdc.yield %0 : tensor<4xf32>
      }
      pdc.commit %nb to @b : tensor<4xf32>
    }
  }
}

// What an update reads is written after it by what stays: it stays before that.
pdc.program @rank_1 ranks [1] {
  pdc.memory @c weight version : tensor<4xf32>
  pdc.memory @d weight version : tensor<4xf32>
  pdc.memory @seen optimizer update : tensor<4xf32>
  pdc.stage 1 {
    // CHECK-LABEL: pdc.program @rank_1
    // CHECK:      %[[OLD:.*]] = pdc.read @seen
    // CHECK:      pdc.unit "c/update"{{.*}} = %[[OLD]]
    // CHECK:      pdc.commit %{{.*}} to @c
    // CHECK:      %[[NEXT:.*]] = pdc.unit "count"
    // CHECK:      pdc.write %[[NEXT]] to @seen
    // CHECK-NEXT: %[[SEEN:.*]] = pdc.read @seen
    // CHECK:      pdc.unit "d/update"{{.*}} = %[[SEEN]]
    // CHECK:      pdc.commit %{{.*}} to @d
    // CHECK-NEXT: }
    pdc.task update {
      %old = pdc.read @seen : tensor<4xf32>
      %c = pdc.weight_version @c latest : tensor<4xf32>
      %nc = pdc.unit "c/update" origin "c" update update (%0 = %c : tensor<4xf32>, %1 = %old : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        pdc.yield %0 : tensor<4xf32>
      }
      pdc.commit %nc to @c : tensor<4xf32>
      %next = pdc.unit "count" origin "c" update update (%0 = %old : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        pdc.yield %0 : tensor<4xf32>
      }
      pdc.write %next to @seen : tensor<4xf32>
      %seen = pdc.read @seen : tensor<4xf32>
      %d = pdc.weight_version @d latest : tensor<4xf32>
      %nd = pdc.unit "d/update" origin "c" update update (%0 = %d : tensor<4xf32>, %1 = %seen : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        pdc.yield %0 : tensor<4xf32>
      }
      pdc.commit %nd to @d : tensor<4xf32>
    }
  }
}

// A direction (of LAMB) is kept no longer than its weight's own update takes.
pdc.program @rank_2 ranks [2] {
  pdc.memory @a weight version : tensor<4xf32>
  pdc.memory @b weight version : tensor<4xf32>
  pdc.memory @"a/exp_avg" optimizer update : tensor<4xf32>
  pdc.memory @"b/exp_avg" optimizer update : tensor<4xf32>
  pdc.stage 2 {
    // CHECK-LABEL: pdc.program @rank_2
    // CHECK: pdc.unit "a/direction"
    // CHECK: pdc.unit "a/update"
    // CHECK: pdc.commit %{{.*}} to @a
    // CHECK: pdc.unit "b/direction"
    // CHECK: pdc.unit "b/update"
    // CHECK: pdc.commit %{{.*}} to @b
    pdc.task update {
      %a = pdc.weight_version @a latest : tensor<4xf32>
      %ma = pdc.read @"a/exp_avg" : tensor<4xf32>
      %da:2 = pdc.unit "a/direction" origin "a" update update (%0 = %a : tensor<4xf32>, %1 = %ma : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {kernel = #loops} {
        pdc.yield %0, %1 : tensor<4xf32>, tensor<4xf32>
      }
      pdc.write %da#1 to @"a/exp_avg" : tensor<4xf32>
      %na = pdc.unit "a/update" origin "a" update update (%0 = %a : tensor<4xf32>, %1 = %da#0 : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        pdc.yield %0 : tensor<4xf32>
      }
      pdc.commit %na to @a : tensor<4xf32>
      %b = pdc.weight_version @b latest : tensor<4xf32>
      %mb = pdc.read @"b/exp_avg" : tensor<4xf32>
      %db:2 = pdc.unit "b/direction" origin "b" update update (%0 = %b : tensor<4xf32>, %1 = %mb : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {kernel = #loops} {
        pdc.yield %0, %1 : tensor<4xf32>, tensor<4xf32>
      }
      pdc.write %db#1 to @"b/exp_avg" : tensor<4xf32>
      %nb = pdc.unit "b/update" origin "b" update update (%0 = %b : tensor<4xf32>, %1 = %db#0 : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        pdc.yield %0 : tensor<4xf32>
      }
      pdc.commit %nb to @b : tensor<4xf32>
    }
  }
}
