// RUN: pdc-opt %s --split-input-file --send-tied-weights | FileCheck %s
// RUN: pdc-opt %s --split-input-file --send-tied-weights --insert-cuts --outline-programs | FileCheck %s --check-prefix=PROGRAMS

// Stage 1 uses @tied first and holds it: stage 2 reads a copy that comes with each microbatch, in the forward and in
// the backward pass, and its gradient goes back to be summed beside stage 1's. @own has one stage.

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>

// CHECK-LABEL: func.func @train
module attributes {pdc.asynchronous} {
  pdc.memory @tied weight version : tensor<4xf32>
  pdc.memory @"tied/gradient" gradient update : tensor<4xf32>
  pdc.memory @"tied/gradient.1" gradient update : tensor<4xf32>
  pdc.memory @own weight version : tensor<4xf32>
  pdc.memory @x input microbatch : tensor<4xf32>
  func.func @train() {
    %x = pdc.read @x : tensor<4xf32>
    // CHECK: %[[TIED:.*]] = pdc.weight_version @tied latest
    // CHECK-NEXT: %[[SENT:.*]] = pdc.unit "tied/sent" origin "c" forward microbatch ({{.*}} = %[[TIED]] {{.*}}stage = 1 : i64}
    // CHECK-NEXT: pdc.node "Sum" "tied/sent"
    %w = pdc.weight_version @tied latest : tensor<4xf32>
    %v = pdc.weight_version @own latest : tensor<4xf32>
    %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<4xf32>, %1 = %v : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 0 : i64} {
      %2 = pdc.node "Mul" "a"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %2 : tensor<4xf32>
    }
    // CHECK: pdc.unit "b" {{.*}} = %[[TIED]]
    %b = pdc.unit "b" origin "b" forward microbatch (%0 = %a : tensor<4xf32>, %1 = %w : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 1 : i64} {
      %2 = pdc.node "Mul" "b"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %2 : tensor<4xf32>
    }
    // CHECK: pdc.unit "c" {{.*}} = %[[SENT]]
    %c = pdc.unit "c" origin "c" forward microbatch (%0 = %b : tensor<4xf32>, %1 = %w : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 2 : i64} {
      %2 = pdc.node "Mul" "c"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %2 : tensor<4xf32>
    }
    // CHECK: %[[LATER:.*]] = pdc.unit "c/grad" {{.*}} = %[[SENT]]
    %d = pdc.unit "c/grad" origin "c" backward_input microbatch (%0 = %c : tensor<4xf32>, %1 = %w : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 2 : i64} {
      %2 = pdc.node "Mul" "c/grad"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %2 : tensor<4xf32>
    }
    // CHECK: %[[RECEIVED:.*]] = pdc.unit "c/grad/received" origin "c" backward_input microbatch ({{.*}} = %[[LATER]] {{.*}}stage = 1 : i64}
    // CHECK: pdc.accumulate %[[RECEIVED]] into @"tied/gradient.1"
    pdc.accumulate %d into @"tied/gradient.1" : tensor<4xf32>
    %e = pdc.unit "b/grad" origin "b" backward_weight microbatch (%0 = %d : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 1 : i64} {
      %2 = pdc.node "Relu" "b/grad"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %2 : tensor<4xf32>
    }
    // CHECK: pdc.accumulate %{{.*}} into @"tied/gradient"
    pdc.accumulate %e into @"tied/gradient" : tensor<4xf32>
    %g0 = pdc.read @"tied/gradient" : tensor<4xf32>
    %g1 = pdc.read @"tied/gradient.1" : tensor<4xf32>
    %sum = pdc.unit "sum" origin "c" update update (%0 = %g0 : tensor<4xf32>, %1 = %g1 : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 2 : i64} {
      %2 = pdc.node "Add" "sum"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %2 : tensor<4xf32>
    }
    // CHECK: pdc.unit "sum" {{.*}}stage = 1 : i64}
    // CHECK: pdc.unit "sgd" {{.*}} = %[[TIED]] {{.*}}stage = 1 : i64}
    %next = pdc.unit "sgd" origin "c" update update (%0 = %w : tensor<4xf32>, %1 = %sum : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 2 : i64} {
      %2 = pdc.node "Sub" "sgd"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %2 : tensor<4xf32>
    }
    pdc.commit %next to @tied : tensor<4xf32>
    return
  }
}

// PROGRAMS-LABEL: pdc.program @rank_0
// PROGRAMS-NOT: tied
// PROGRAMS-LABEL: pdc.program @rank_1
// PROGRAMS-DAG: pdc.memory @tied weight
// PROGRAMS-DAG: pdc.memory @"tied/sent" outbox
// PROGRAMS-DAG: pdc.memory @"c/grad" inbox
// PROGRAMS-LABEL: pdc.program @rank_2
// PROGRAMS-NOT: pdc.memory @tied
// PROGRAMS: pdc.memory @"tied/sent" inbox

// -----

// A stage that reads the weight through a view alone gets the view: the weight is shared all the same.

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>

// CHECK-LABEL: func.func @train
module attributes {pdc.asynchronous} {
  pdc.memory @w weight version : tensor<4xf32>
  pdc.memory @x input microbatch : tensor<4xf32>
  func.func @train() {
    %x = pdc.read @x : tensor<4xf32>
    %w = pdc.weight_version @w latest : tensor<4xf32>
    // CHECK: %[[VIEW:.*]] = pdc.unit "view" {{.*}}stage = 0 : i64}
    // CHECK: %[[SENT:.*]] = pdc.unit "view/sent" {{.*}} = %[[VIEW]] {{.*}}stage = 0 : i64}
    %view = pdc.unit "view" origin "b" forward version (%0 = %w : tensor<4xf32>) -> (tensor<2x2xf32>) attributes {stage = 1 : i64} {
      %2 = pdc.node "Reshape" "view"(%0) {} : (tensor<4xf32>) -> tensor<2x2xf32>
      pdc.yield %2 : tensor<2x2xf32>
    }
    %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<4xf32>, %1 = %w : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 0 : i64} {
      %2 = pdc.node "Mul" "a"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %2 : tensor<4xf32>
    }
    // CHECK: pdc.unit "b" {{.*}} = %[[SENT]]
    %b = pdc.unit "b" origin "b" forward microbatch (%0 = %view : tensor<2x2xf32>) -> (tensor<2x2xf32>) attributes {kernel = #loops, stage = 1 : i64} {
      %2 = pdc.node "Relu" "b"(%0) {} : (tensor<2x2xf32>) -> tensor<2x2xf32>
      pdc.yield %2 : tensor<2x2xf32>
    }
    pdc.commit %a to @w : tensor<4xf32>
    return
  }
}

// -----

// Where stages have a step in common, nothing is sent: hold-tied-weights does that.

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>

// CHECK-LABEL: func.func @train
// CHECK-NOT: sent
// CHECK: return
module {
  pdc.memory @w weight version : tensor<4xf32>
  func.func @train() {
    %w = pdc.weight_version @w latest : tensor<4xf32>
    %a = pdc.unit "a" origin "a" forward microbatch (%0 = %w : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 0 : i64} {
      %2 = pdc.node "Relu" "a"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %2 : tensor<4xf32>
    }
    %b = pdc.unit "b" origin "b" forward microbatch (%0 = %a : tensor<4xf32>, %1 = %w : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 1 : i64} {
      %2 = pdc.node "Mul" "b"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %2 : tensor<4xf32>
    }
    pdc.commit %b to @w : tensor<4xf32>
    return
  }
}

// -----

// Gradients that stage 1 adds to one sum come home as one.

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>

// CHECK-LABEL: func.func @train
module attributes {pdc.asynchronous} {
  pdc.memory @w weight version : tensor<4xf32>
  pdc.memory @"w/gradient" gradient update : tensor<4xf32>
  func.func @train() {
    %w = pdc.weight_version @w latest : tensor<4xf32>
    %a = pdc.unit "a" origin "a" forward microbatch (%0 = %w : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 0 : i64} {
      %2 = pdc.node "Relu" "a"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %2 : tensor<4xf32>
    }
    // CHECK: %[[B:.*]] = pdc.unit "b/grad"
    %b = pdc.unit "b/grad" origin "b" backward microbatch (%0 = %a : tensor<4xf32>, %1 = %w : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 1 : i64} {
      %2 = pdc.node "Mul" "b/grad"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %2 : tensor<4xf32>
    }
    // CHECK-NOT: pdc.accumulate
    // CHECK: %[[C:.*]] = pdc.unit "c/grad"
    pdc.accumulate %b into @"w/gradient" : tensor<4xf32>
    %c = pdc.unit "c/grad" origin "c" backward microbatch (%0 = %b : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 1 : i64} {
      %2 = pdc.node "Neg" "c/grad"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %2 : tensor<4xf32>
    }
    // CHECK: %[[SUM:.*]] = pdc.unit "w/gradient/returned" origin "c" backward microbatch (%{{.*}} = %[[C]] : tensor<4xf32>, %{{.*}} = %[[B]] : tensor<4xf32>) {{.*}}stage = 1 : i64}
    // CHECK: %[[HOME:.*]] = pdc.unit "{{.*}}received" {{.*}} = %[[SUM]] {{.*}}stage = 0 : i64}
    // CHECK: pdc.accumulate %[[HOME]] into @"w/gradient"
    pdc.accumulate %c into @"w/gradient" : tensor<4xf32>
    // CHECK: pdc.accumulate %{{.*}} into @"w/gradient"
    // CHECK-NOT: pdc.accumulate
    pdc.accumulate %a into @"w/gradient" : tensor<4xf32>
    %g = pdc.read @"w/gradient" : tensor<4xf32>
    %next = pdc.unit "sgd" origin "a" update update (%0 = %w : tensor<4xf32>, %1 = %g : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops, stage = 0 : i64} {
      %2 = pdc.node "Sub" "sgd"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %2 : tensor<4xf32>
    }
    pdc.commit %next to @w : tensor<4xf32>
    return
  }
}
