// RUN: pdc-opt %s --assign-stages=plan=%S/Inputs/two-stages.json | FileCheck %s

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>

pdc.memory @x input microbatch : tensor<4xf32>
pdc.memory @w weight version : tensor<4xf32>
pdc.memory @"w/gradient" gradient update : tensor<4xf32>
pdc.memory @"rows/gradient" gradient update : tensor<8xf32>
pdc.memory @"w/packed" derived version : tensor<4xf32>

func.func @train() {
  // A packed weight is prepared where it is read.
  // CHECK: pdc.unit "w/reorder" {{.*}} stage = 1
  %w = pdc.weight_version @w latest : tensor<4xf32>
  %packed = pdc.unit "w/reorder" origin "?" prepare version (%0 = %w : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
    %1 = pdc.node "Identity" "w/reorder"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %1 : tensor<4xf32>
  }
  pdc.write %packed to @"w/packed" : tensor<4xf32>
  %x = pdc.read @x : tensor<4xf32>
  // CHECK: pdc.unit "a" {{.*}} stage = 0
  %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
    %1 = pdc.node "Relu" "a"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %1 : tensor<4xf32>
  }
  // CHECK: pdc.unit "b" {{.*}} stage = 0
  %b = pdc.unit "b" origin "b" forward microbatch (%0 = %a : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
    %1 = pdc.node "Relu" "b"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %1 : tensor<4xf32>
  }
  // CHECK: pdc.unit "c" {{.*}} stage = 1
  %v = pdc.weight_version @"w/packed" latest : tensor<4xf32>
  %c = pdc.unit "c" origin "c" forward microbatch (%0 = %b : tensor<4xf32>, %1 = %v : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
    %2 = pdc.node "Add" "c"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  // A backward unit goes with the unit it comes from.
  // CHECK: pdc.unit "a/grad" {{.*}} stage = 0
  %g = pdc.unit "a/grad" origin "a" backward microbatch (%0 = %c : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
    %1 = pdc.node "Neg" "a/grad"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %1 : tensor<4xf32>
  }
  // The gradient of what weights alone make is planned with c, but gradients go to earlier stages only.
  // CHECK: pdc.unit "w/grad/sum" {{.*}} stage = 0
  %s = pdc.unit "w/grad/sum" origin "c" backward microbatch (%0 = %g : tensor<4xf32>, %1 = %c : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
    %2 = pdc.node "Add" "w/grad/sum"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  pdc.accumulate %s into @"w/gradient" : tensor<4xf32>
  // What an earlier stage puts below one another, a sum puts below one another once more, and stays with its weight.
  %h = pdc.unit "c/grad" origin "c" backward microbatch (%0 = %c : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
    %1 = pdc.node "Neg" "c/grad"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %1 : tensor<4xf32>
  }
  // CHECK: pdc.unit "split/grad" {{.*}} stage = 0
  // CHECK: %[[AGAIN:.*]] = pdc.unit "split/grad/stage1" {{.*}} stage = 1
  // CHECK-NEXT: pdc.node "Concat" "split/grad.1"
  %rows = pdc.unit "split/grad" origin "a" backward microbatch (%0 = %h : tensor<4xf32>, %1 = %h : tensor<4xf32>) -> (tensor<8xf32>) attributes {kernel = #loops} {
    %2 = pdc.node "Concat" "split/grad"(%0, %1) {axis = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
    pdc.yield %2 : tensor<8xf32>
  }
  %reader = pdc.unit "a/grad.1" origin "a" backward microbatch (%0 = %rows : tensor<8xf32>) -> (tensor<8xf32>) attributes {kernel = #loops} {
    %1 = pdc.node "Neg" "a/grad.1"(%0) {} : (tensor<8xf32>) -> tensor<8xf32>
    pdc.yield %1 : tensor<8xf32>
  }
  pdc.accumulate %reader into @"rows/gradient" : tensor<8xf32>
  // CHECK: pdc.unit "rows/grad" {{.*}}(%{{.*}} = %[[AGAIN]] : tensor<8xf32>) {{.*}} stage = 1
  %sum = pdc.unit "rows/grad" origin "c" backward microbatch (%0 = %rows : tensor<8xf32>) -> (tensor<8xf32>) attributes {kernel = #loops} {
    %1 = pdc.node "Neg" "rows/grad"(%0) {} : (tensor<8xf32>) -> tensor<8xf32>
    pdc.yield %1 : tensor<8xf32>
  }
  pdc.accumulate %sum into @"rows/gradient" : tensor<8xf32>
  return
}

func.func @evaluate() {
  %x = pdc.read @x : tensor<4xf32>
  // Another unit than in @train, known by a node of it.
  // CHECK: pdc.unit "fused" {{.*}} stage = 1
  %y = pdc.unit "fused" origin "fused" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
    %1 = pdc.node "Relu" "new"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    %2 = pdc.node "Relu" "d"(%1) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  // Not in the plan at all: goes with its operands.
  // CHECK: pdc.unit "correct" {{.*}} stage = 1
  %n = pdc.unit "correct" origin "correct" forward microbatch (%0 = %y : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
    %1 = pdc.node "Neg" "correct"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %1 : tensor<4xf32>
  }
  // Its origin is on stage 0, what it reads on stage 1.
  // CHECK: pdc.unit "counted" {{.*}} stage = 1
  %m = pdc.unit "counted" origin "a" evaluate microbatch (%0 = %y : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
    %1 = pdc.node "Neg" "counted"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %1 : tensor<4xf32>
  }
  // What no microbatch changes crosses nowhere: an earlier stage may read it, where it is made again.
  // CHECK: pdc.unit "once" {{.*}} stage = 1
  %x0 = pdc.weight_version @w latest : tensor<4xf32>
  %once = pdc.unit "once" origin "d" evaluate once (%0 = %x0 : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
    %1 = pdc.node "Neg" "once"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %1 : tensor<4xf32>
  }
  // CHECK: pdc.unit "prepared" {{.*}} stage = 0
  %prepared = pdc.unit "prepared" origin "d" prepare version (%0 = %once : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
    %1 = pdc.node "Exp" "prepared"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %1 : tensor<4xf32>
  }
  // CHECK: pdc.unit "early" {{.*}} stage = 0
  %early = pdc.unit "early" origin "a" evaluate microbatch (%0 = %x : tensor<4xf32>, %1 = %prepared : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
    %2 = pdc.node "Mul" "early"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  return
}
