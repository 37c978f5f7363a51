// RUN: pdc-opt %s --divide-sums | FileCheck %s
// RUN: pdc-opt %s --divide-sums --hold-tied-weights --insert-cuts --outline-programs | FileCheck %s --check-prefix=PROGRAMS

// Stage 0 uses @tied once and stage 1 twice: each has one sum, and the update in stage 0 reads both. The uses of @own lie in one
// stage.

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>

pdc.memory @tied weight version : tensor<4xf32>
// CHECK: pdc.memory @"tied/gradient" gradient
// CHECK-NEXT: pdc.memory @"tied/gradient.1" gradient update : tensor<4xf32>
pdc.memory @"tied/gradient" gradient update : tensor<4xf32>
pdc.memory @own weight version : tensor<4xf32>
// CHECK: pdc.memory @"own/gradient" gradient
// CHECK-NOT: own/gradient.
pdc.memory @"own/gradient" gradient update : tensor<4xf32>
pdc.memory @x input microbatch : tensor<4xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  %x = pdc.read @x : tensor<4xf32>
  %w = pdc.weight_version @tied latest : tensor<4xf32>
  %v = pdc.weight_version @own latest : tensor<4xf32>
  // CHECK: %[[A:.*]] = pdc.unit "a"
  %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<4xf32>, %1 = %w : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 0 : i64} {
    %2 = pdc.node "Mul" "a"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  // CHECK: %[[B:.*]] = pdc.unit "b"
  %b = pdc.unit "b" origin "b" forward microbatch (%0 = %a : tensor<4xf32>, %1 = %w : tensor<4xf32>, %2 = %v : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 1 : i64} {
    %3 = pdc.node "Mul" "b"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %4 = pdc.node "Mul" "b2"(%3, %2) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %4 : tensor<4xf32>
  }
  // CHECK: %[[C:.*]] = pdc.unit "c"
  %c = pdc.unit "c" origin "c" forward microbatch (%0 = %b : tensor<4xf32>, %1 = %w : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 1 : i64} {
    %2 = pdc.node "Mul" "c"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  // CHECK: pdc.accumulate %[[C]] into @"tied/gradient.1"
  // CHECK: pdc.accumulate %[[B]] into @"tied/gradient.1"
  // CHECK: pdc.accumulate %[[A]] into @"tied/gradient" :
  // CHECK: pdc.accumulate %[[C]] into @"own/gradient"
  // CHECK: pdc.accumulate %[[B]] into @"own/gradient"
  pdc.accumulate %c into @"tied/gradient" : tensor<4xf32>
  pdc.accumulate %b into @"tied/gradient" : tensor<4xf32>
  pdc.accumulate %a into @"tied/gradient" : tensor<4xf32>
  pdc.accumulate %c into @"own/gradient" : tensor<4xf32>
  pdc.accumulate %b into @"own/gradient" : tensor<4xf32>
  // CHECK: %[[FIRST:.*]] = pdc.read @"tied/gradient" :
  // CHECK: %[[OTHER:.*]] = pdc.read @"tied/gradient.1"
  // CHECK: %[[SUM:.*]] = pdc.unit "tied/gradient/sum" origin "a" update update (%{{.*}} = %[[FIRST]] : tensor<4xf32>, %{{.*}} = %[[OTHER]] : tensor<4xf32>){{.*}} attributes {{{.*}}kernel = {{.*}}stage = 0 : i64}
  // CHECK-NEXT: pdc.node "Sum" "tied/gradient/sum"
  %g = pdc.read @"tied/gradient" : tensor<4xf32>
  // CHECK: pdc.unit "sgd" {{.*}} = %[[SUM]] : tensor<4xf32>)
  %next = pdc.unit "sgd" origin "a" update update (%0 = %w : tensor<4xf32>, %1 = %g : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 0 : i64} {
    %2 = pdc.node "Sub" "sgd"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  pdc.commit %next to @tied : tensor<4xf32>
  // CHECK: %[[OWN:.*]] = pdc.read @"own/gradient"
  %h = pdc.read @"own/gradient" : tensor<4xf32>
  // CHECK: pdc.unit "sgd2" {{.*}} = %[[OWN]] : tensor<4xf32>)
  %then = pdc.unit "sgd2" origin "b" update update (%0 = %v : tensor<4xf32>, %1 = %h : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 1 : i64} {
    %2 = pdc.node "Sub" "sgd2"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  pdc.commit %then to @own : tensor<4xf32>
  return
}

// Each makes the next weight of both sums.
// PROGRAMS-LABEL: pdc.program @rank_0
// PROGRAMS: pdc.memory @"tied/gradient" gradient
// PROGRAMS: pdc.memory @"tied/gradient.1" gathered
// PROGRAMS: pdc.unit "tied/gradient/sum"
// PROGRAMS-LABEL: pdc.program @rank_1
// PROGRAMS: pdc.memory @"tied/gradient" gathered
// PROGRAMS: pdc.memory @"tied/gradient.1" gradient
// PROGRAMS: pdc.unit "tied/gradient/sum/stage.1"
