// RUN: pdc-opt %s --split-input-file --hold-tied-weights | FileCheck %s
// RUN: pdc-opt %s --split-input-file --hold-tied-weights | FileCheck %s --check-prefix=VIEWS
// RUN: pdc-opt %s --split-input-file --hold-tied-weights | FileCheck %s --check-prefix=COPIES
// RUN: pdc-opt %s --split-input-file --hold-tied-weights --insert-cuts --outline-programs | FileCheck %s --check-prefix=PROGRAMS

// Stages 0 and 2 read @tied: both make its next version from the gradients of both uses. Stage 1 has
// nothing to do with it, and @own has one stage.

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>

pdc.memory @tied weight version : tensor<4xf32>
pdc.memory @"tied/gradient" gradient update : tensor<4xf32>
pdc.memory @"tied/gradient.1" gradient update : tensor<4xf32>
pdc.memory @own weight version : tensor<4xf32>
pdc.memory @x input microbatch : tensor<4xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  %x = pdc.read @x : tensor<4xf32>
  %w = pdc.weight_version @tied latest : tensor<4xf32>
  %v = pdc.weight_version @own latest : tensor<4xf32>
  %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<4xf32>, %1 = %w : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 0 : i64} {
    %2 = pdc.node "Mul" "a"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  %b = pdc.unit "b" origin "b" forward microbatch (%0 = %a : tensor<4xf32>, %1 = %v : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 1 : i64} {
    %2 = pdc.node "Mul" "b"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  %c = pdc.unit "c" origin "c" forward microbatch (%0 = %b : tensor<4xf32>, %1 = %w : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 2 : i64} {
    %2 = pdc.node "Mul" "c"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  pdc.accumulate %c into @"tied/gradient.1" : tensor<4xf32>
  pdc.accumulate %a into @"tied/gradient" : tensor<4xf32>
  %g0 = pdc.read @"tied/gradient" : tensor<4xf32>
  %g1 = pdc.read @"tied/gradient.1" : tensor<4xf32>
  // CHECK: %[[SUM:.*]] = pdc.unit "sum" origin "a" update update {{.*}} stage = 0 : i64}
  // CHECK: %[[SUM2:.*]] = pdc.unit "sum/stage.2" origin "a" update update {{.*}} stage = 2 : i64}
  %sum = pdc.unit "sum" origin "a" update update (%0 = %g0 : tensor<4xf32>, %1 = %g1 : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 0 : i64} {
    %2 = pdc.node "Add" "sum"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  // CHECK: %[[NEXT:.*]] = pdc.unit "sgd" {{.*}} = %[[SUM]] {{.*}} stage = 0 : i64}
  // CHECK: %[[NEXT2:.*]] = pdc.unit "sgd/stage.2" {{.*}} = %[[SUM2]] {{.*}} stage = 2 : i64}
  // CHECK-DAG: pdc.commit %[[NEXT]] to @tied
  // CHECK-DAG: pdc.commit %[[NEXT2]] to @tied
  %next = pdc.unit "sgd" origin "a" update update (%0 = %w : tensor<4xf32>, %1 = %sum : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 0 : i64} {
    %2 = pdc.node "Sub" "sgd"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  pdc.commit %next to @tied : tensor<4xf32>
  // CHECK-NOT: pdc.unit
  // CHECK: return
  return
}

// PROGRAMS-LABEL: pdc.program @rank_0
// PROGRAMS: pdc.memory @tied weight
// PROGRAMS: pdc.memory @"tied/gradient" gradient
// PROGRAMS: pdc.memory @"tied/gradient.1" gathered
// PROGRAMS-LABEL: pdc.program @rank_1
// PROGRAMS-NOT: @tied
// PROGRAMS-LABEL: pdc.program @rank_2
// PROGRAMS: pdc.memory @tied weight
// PROGRAMS: pdc.memory @"tied/gradient" gathered
// PROGRAMS: pdc.memory @"tied/gradient.1" gradient

// -----

// A view of a weight is made where it is read, and what it is made of too.

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>

pdc.memory @w weight version : tensor<4xf32>
pdc.memory @x input microbatch : tensor<2x2xf32>

// VIEWS-LABEL: func.func @train
// VIEWS: %[[FIRST:.*]] = pdc.unit "first" {{.*}}stage = 0 : i64}
// VIEWS: %[[COPY:.*]] = pdc.unit "first/stage.1" {{.*}}stage = 1 : i64}
// VIEWS: %[[VIEW:.*]] = pdc.unit "view/stage.1" {{.*}} = %[[COPY]] {{.*}}stage = 1 : i64}
// VIEWS: pdc.unit "b" {{.*}} = %[[VIEW]] {{.*}}stage = 1 : i64}
func.func @train() {
  %x = pdc.read @x : tensor<2x2xf32>
  %w = pdc.weight_version @w latest : tensor<4xf32>
  %first = pdc.unit "first" origin "a" forward version (%0 = %w : tensor<4xf32>) -> (tensor<1x4xf32>) attributes {stage = 0 : i64} {
    %2 = pdc.node "Reshape" "first"(%0) {} : (tensor<4xf32>) -> tensor<1x4xf32>
    pdc.yield %2 : tensor<1x4xf32>
  }
  %view = pdc.unit "view" origin "a" forward version (%0 = %first : tensor<1x4xf32>) -> (tensor<2x2xf32>) attributes {stage = 0 : i64} {
    %2 = pdc.node "Reshape" "view"(%0) {} : (tensor<1x4xf32>) -> tensor<2x2xf32>
    pdc.yield %2 : tensor<2x2xf32>
  }
  %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<2x2xf32>, %1 = %view : tensor<2x2xf32>) -> (tensor<2x2xf32>) attributes {kernel = #loops, stage = 0 : i64} {
    %2 = pdc.node "Mul" "a"(%0, %1) {} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    pdc.yield %2 : tensor<2x2xf32>
  }
  %b = pdc.unit "b" origin "b" forward microbatch (%0 = %a : tensor<2x2xf32>, %1 = %view : tensor<2x2xf32>) -> (tensor<2x2xf32>) attributes {kernel = #loops, stage = 1 : i64} {
    %2 = pdc.node "Mul" "b"(%0, %1) {} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    pdc.yield %2 : tensor<2x2xf32>
  }
  return
}

// -----

// What stages 0 and 1 prepare of one view, stage 2 prepares of one copy of it, too.

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>

pdc.memory @w weight version : tensor<4xf32>
pdc.memory @x input microbatch : tensor<4xf32>
pdc.memory @p derived version : tensor<4xf32>
pdc.memory @q derived version : tensor<4xf32>

// COPIES: pdc.unit "base" {{.*}}stage = 0 : i64}
// COPIES: %[[THIRD:.*]] = pdc.unit "base/stage.2" {{.*}}stage = 2 : i64}
// COPIES: %[[SECOND:.*]] = pdc.unit "base/stage.1" {{.*}}stage = 1 : i64}
// COPIES-NOT: pdc.unit "base
// COPIES: pdc.unit "first/stage.2" {{.*}} = %[[THIRD]] {{.*}}stage = 2 : i64}
// COPIES-NOT: pdc.unit "base
// COPIES: pdc.unit "second/stage.2" {{.*}} = %[[THIRD]] {{.*}}stage = 2 : i64}
// COPIES-NOT: pdc.unit "base
// COPIES: return
func.func @train() {
  %x = pdc.read @x : tensor<4xf32>
  %w = pdc.weight_version @w latest : tensor<4xf32>
  %base = pdc.unit "base" origin "a" prepare version (%0 = %w : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 0 : i64} {
    %2 = pdc.node "Neg" "base"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  %first = pdc.unit "first" origin "a" prepare version (%0 = %base : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 0 : i64} {
    %2 = pdc.node "Cos" "first"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  pdc.write %first to @p : tensor<4xf32>
  %second = pdc.unit "second" origin "b" prepare version (%0 = %base : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 1 : i64} {
    %2 = pdc.node "Sin" "second"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  pdc.write %second to @q : tensor<4xf32>
  %p = pdc.weight_version @p latest : tensor<4xf32>
  %q = pdc.weight_version @q latest : tensor<4xf32>
  %c = pdc.unit "c" origin "c" forward microbatch (%0 = %x : tensor<4xf32>, %1 = %p : tensor<4xf32>, %2 = %q : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 2 : i64} {
    %3 = pdc.node "Mul" "c"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %4 = pdc.node "Mul" "c2"(%3, %2) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %4 : tensor<4xf32>
  }
  return
}
