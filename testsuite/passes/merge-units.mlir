// RUN: pdc-opt %s --merge-units | FileCheck %s
// RUN: pdc-opt %s --merge-units --check-against=%s -o /dev/null

// What units of one stage and phase compute alike is computed once, whatever their names.

pdc.memory @x input microbatch : tensor<4xf32>
pdc.memory @y metric update : tensor<4xf32>
pdc.memory @z metric update : tensor<4xf32>
pdc.memory @w metric update : tensor<4xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  %x = pdc.read @x : tensor<4xf32>
  // CHECK: %[[A:.*]] = pdc.unit "a"
  %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 0 : i64} {
    %1 = pdc.node "Constant" "a/two"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
    %2 = pdc.node "Mul" "a"(%0, %1) {} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  // CHECK-NOT: pdc.unit "same"
  %same = pdc.unit "same" origin "same" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 0 : i64} {
    %1 = pdc.node "Constant" "same/two"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
    %2 = pdc.node "Mul" "same"(%0, %1) {} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  // Another number.
  // CHECK: %[[OTHER:.*]] = pdc.unit "other"
  %other = pdc.unit "other" origin "other" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 0 : i64} {
    %1 = pdc.node "Constant" "other/three"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
    %2 = pdc.node "Mul" "other"(%0, %1) {} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  // Operands the other way round.
  // CHECK: %[[FIRST:.*]] = pdc.unit "first" {{.*}}(%arg0 = %[[A]] : tensor<4xf32>, %arg1 = %[[OTHER]] : tensor<4xf32>)
  %first = pdc.unit "first" origin "first" forward microbatch (%0 = %a : tensor<4xf32>, %1 = %other : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 0 : i64} {
    %2 = pdc.node "Sub" "first"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  // CHECK: %[[TURNED:.*]] = pdc.unit "turned"
  %turned = pdc.unit "turned" origin "turned" forward microbatch (%0 = %a : tensor<4xf32>, %1 = %other : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 0 : i64} {
    %2 = pdc.node "Sub" "turned"(%1, %0) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  // What reads what was merged is the same, too.
  // CHECK-NOT: pdc.unit "second"
  %second = pdc.unit "second" origin "second" forward microbatch (%0 = %same : tensor<4xf32>, %1 = %other : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 0 : i64} {
    %2 = pdc.node "Sub" "second"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  // CHECK: %[[SUM:.*]] = pdc.unit "sum" {{.*}}(%arg0 = %[[FIRST]] : tensor<4xf32>, %arg1 = %[[TURNED]] : tensor<4xf32>, %arg2 = %[[FIRST]] : tensor<4xf32>)
  %sum = pdc.unit "sum" origin "sum" forward microbatch (%0 = %first : tensor<4xf32>, %1 = %turned : tensor<4xf32>, %2 = %second : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 0 : i64} {
    %3 = pdc.node "Sum" "sum"(%0, %1, %2) {} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %3 : tensor<4xf32>
  }
  pdc.accumulate %sum into @y : tensor<4xf32>

  // Of another stage, which makes its own.
  // CHECK: pdc.unit "apart"
  %apart = pdc.unit "apart" origin "apart" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 1 : i64} {
    %1 = pdc.node "Constant" "apart/two"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
    %2 = pdc.node "Mul" "apart"(%0, %1) {} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  // Of another phase.
  // CHECK: pdc.unit "later"
  %later = pdc.unit "later" origin "a" backward_input microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 0 : i64} {
    %1 = pdc.node "Constant" "later/two"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
    %2 = pdc.node "Mul" "later"(%0, %1) {} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  // What another stage reads is sent as planned.
  // CHECK: pdc.unit "sent"
  %sent = pdc.unit "sent" origin "sent" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 0 : i64} {
    %1 = pdc.node "Constant" "sent/two"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
    %2 = pdc.node "Mul" "sent"(%0, %1) {} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    pdc.yield %2 : tensor<4xf32>
  }
  // CHECK: pdc.unit "all"
  %all = pdc.unit "all" origin "all" forward microbatch (%0 = %apart : tensor<4xf32>, %1 = %sent : tensor<4xf32>, %2 = %later : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 1 : i64} {
    %3 = pdc.node "Sum" "all"(%0, %1, %2) {} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %3 : tensor<4xf32>
  }
  pdc.accumulate %all into @z : tensor<4xf32>

  // Kernels know the names of their units, for messages.
  // CHECK: %[[KERNEL:.*]] = pdc.unit "kernel"
  %kernel = pdc.unit "kernel" origin "kernel" forward microbatch (%0 = %all : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #pdc.kernel<"K", {name = "kernel", size = 4 : i64}, workspace = 0, accumulates = false>, stage = 1 : i64} {
    %1 = pdc.node "Neg" "kernel"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %1 : tensor<4xf32>
  }
  // CHECK-NOT: pdc.unit "again"
  %again = pdc.unit "again" origin "again" forward microbatch (%0 = %all : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #pdc.kernel<"K", {name = "again", size = 4 : i64}, workspace = 0, accumulates = false>, stage = 1 : i64} {
    %1 = pdc.node "Neg" "again"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %1 : tensor<4xf32>
  }
  // CHECK: pdc.unit "narrower"
  %narrower = pdc.unit "narrower" origin "narrower" forward microbatch (%0 = %all : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #pdc.kernel<"K", {name = "narrower", size = 2 : i64}, workspace = 0, accumulates = false>, stage = 1 : i64} {
    %1 = pdc.node "Neg" "narrower"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %1 : tensor<4xf32>
  }
  // CHECK: pdc.unit "both" {{.*}}(%arg0 = %[[KERNEL]] : tensor<4xf32>, %arg1 = %[[KERNEL]] : tensor<4xf32>
  %both = pdc.unit "both" origin "both" forward microbatch (%0 = %kernel : tensor<4xf32>, %1 = %again : tensor<4xf32>, %2 = %narrower : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 1 : i64} {
    %3 = pdc.node "Sum" "both"(%0, %1, %2) {} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %3 : tensor<4xf32>
  }
  pdc.accumulate %both into @w : tensor<4xf32>
  return
}
