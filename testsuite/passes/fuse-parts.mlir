// RUN: pdc-opt %s --split-input-file --fuse-parts | FileCheck %s
// RUN: pdc-opt %s --split-input-file --fuse-parts --choose-kernels | FileCheck %s --check-prefix=KERNEL

// A gated unit of a packed projection: the forward loop and that of the backward pass read the halves where they lie, and the
// gradients of both go where the product of their gradient reads them.

pdc.memory @h input microbatch : tensor<3x8xf32>
pdc.memory @dy input microbatch : tensor<3x4xf32>
pdc.memory @y activation microbatch : tensor<3x4xf32>
pdc.memory @dh activation microbatch : tensor<3x8xf32>

// CHECK-LABEL: func.func @train
// CHECK-NOT: pdc.unit "split"
// CHECK: pdc.unit "gate" origin "gate" forward microbatch (%{{.*}} = %[[H:.*]] : tensor<3x8xf32>) -> (tensor<3x4xf32>)
// CHECK: %[[HALVES:.*]]:2 = pdc.node "Split" "split"(
// CHECK: %[[S:.*]] = pdc.node "Sigmoid" "gate"(%[[HALVES]]#1)
// CHECK: pdc.node "Mul" "mul"(%[[HALVES]]#0, %[[S]])
// CHECK: pdc.unit "{{.*}}" origin "gate" backward_input microbatch ({{.*}}) -> (tensor<3x8xf32>)
// CHECK: %[[AGAIN:.*]]:2 = pdc.node "Split" "split/again{{.*}}"({{.*}} origin "split"
// CHECK-NOT: "Split"
// CHECK: %[[A:.*]] = pdc.node "Mul" "mul/grad/Mul"(%{{.*}}, %[[AGAIN]]#1)
// CHECK: %[[B:.*]] = pdc.node "Mul" "mul/grad/Mul.1"(%{{.*}}, %[[AGAIN]]#0)
// CHECK: %[[BOTH:.*]] = pdc.node "Concat" "split/grad"(%[[A]], %[[B]])
// CHECK: pdc.yield %[[BOTH]]
// CHECK-NOT: pdc.unit
// CHECK: return

// KERNEL: pdc.unit "gate" {{.*}}kernel = #pdc.kernel<"Broadcast", {extents = array<i64: 3, 4>, offsets = array<i64: 0, 4>, resultOffsets = array<i64: 0>, resultStrides = array<i64: 4, 1>, strides = array<i64: 8, 1, 8, 1>}
// A result may take the place of what it divides alike.
// KERNEL: pdc.unit "{{.*}}split/grad" {{.*}}in_place = array<i64: 1, 0>, kernel = #pdc.kernel<"Broadcast", {extents = array<i64: 3, 4>, offsets = array<i64: 0, 0, 4>, resultOffsets = array<i64: 0, 4>, resultStrides = array<i64: 8, 1, 8, 1>, strides = array<i64: 4, 1, 8, 1, 8, 1>}
func.func @train() {
  %h = pdc.read @h : tensor<3x8xf32>
  %dy = pdc.read @dy : tensor<3x4xf32>
  %s:2 = pdc.unit "split" origin "split" forward microbatch (%0 = %h : tensor<3x8xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
    %1:2 = pdc.node "Split" "split"(%0) {axis = -1 : i64} phase forward rate microbatch : (tensor<3x8xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>)
    pdc.yield %1#0, %1#1 : tensor<3x4xf32>, tensor<3x4xf32>
  }
  %y = pdc.unit "gate" origin "gate" forward microbatch (%0 = %s#0 : tensor<3x4xf32>, %1 = %s#1 : tensor<3x4xf32>) -> (tensor<3x4xf32>) {
    %2 = pdc.node "Sigmoid" "gate"(%1) {} phase forward rate microbatch : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %3 = pdc.node "Mul" "mul"(%0, %2) {} phase forward rate microbatch : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    pdc.yield %3 : tensor<3x4xf32>
  }
  pdc.write %y to @y : tensor<3x4xf32>
  %a = pdc.unit "mul/grad/Mul" origin "gate" backward_input microbatch (%0 = %dy : tensor<3x4xf32>, %1 = %s#1 : tensor<3x4xf32>) -> (tensor<3x4xf32>) {
    %2 = pdc.node "Mul" "mul/grad/Mul"(%0, %1) {} origin "mul" phase backward_input rate microbatch : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    pdc.yield %2 : tensor<3x4xf32>
  }
  %b = pdc.unit "mul/grad/Mul.1" origin "gate" backward_input microbatch (%0 = %dy : tensor<3x4xf32>, %1 = %s#0 : tensor<3x4xf32>) -> (tensor<3x4xf32>) {
    %2 = pdc.node "Mul" "mul/grad/Mul.1"(%0, %1) {} origin "mul" phase backward_input rate microbatch : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    pdc.yield %2 : tensor<3x4xf32>
  }
  %dh = pdc.unit "split/grad" origin "split" backward_input microbatch (%0 = %a : tensor<3x4xf32>, %1 = %b : tensor<3x4xf32>) -> (tensor<3x8xf32>) {
    %2 = pdc.node "Concat" "split/grad"(%0, %1) {axis = -1 : i64} origin "split" phase backward_input rate microbatch : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>
    pdc.yield %2 : tensor<3x8xf32>
  }
  pdc.write %dh to @dh : tensor<3x8xf32>
  return
}

// -----

// A product reads one part, which is copied for it: the others are copied with it. What lies behind one another needs no copy.

pdc.memory @h input microbatch : tensor<4x8xf32>
pdc.memory @m input microbatch : tensor<4x2xf32>
pdc.memory @y activation microbatch : tensor<4x4xf32>
pdc.memory @z activation microbatch : tensor<2x8xf32>

// CHECK-LABEL: func.func @train
// CHECK: pdc.unit "split"
// CHECK: pdc.unit "loop" {{.*}} = %{{.*}}#0 : tensor<4x4xf32>)
// CHECK: pdc.unit "rows"
// CHECK: pdc.unit "sum" {{.*}} = %{{.*}}#0 : tensor<2x8xf32>, %{{.*}} = %{{.*}}#1 : tensor<2x8xf32>)
func.func @train() {
  %h = pdc.read @h : tensor<4x8xf32>
  %m = pdc.read @m : tensor<4x2xf32>
  %s:2 = pdc.unit "split" origin "split" forward microbatch (%0 = %h : tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
    %1:2 = pdc.node "Split" "split"(%0) {axis = 1 : i64} phase forward rate microbatch : (tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
    pdc.yield %1#0, %1#1 : tensor<4x4xf32>, tensor<4x4xf32>
  }
  %y = pdc.unit "loop" origin "loop" forward microbatch (%0 = %s#0 : tensor<4x4xf32>) -> (tensor<4x4xf32>) {
    %2 = pdc.node "Relu" "loop"(%0) {} phase forward rate microbatch : (tensor<4x4xf32>) -> tensor<4x4xf32>
    pdc.yield %2 : tensor<4x4xf32>
  }
  pdc.write %y to @y : tensor<4x4xf32>
  %p = pdc.unit "product" origin "product" forward microbatch (%0 = %s#1 : tensor<4x4xf32>, %1 = %m : tensor<4x2xf32>) -> (tensor<4x2xf32>) {
    %2 = pdc.node "MatMul" "product"(%0, %1) {} phase forward rate microbatch : (tensor<4x4xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    pdc.yield %2 : tensor<4x2xf32>
  }
  %r:2 = pdc.unit "rows" origin "rows" forward microbatch (%0 = %h : tensor<4x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>) {
    %1:2 = pdc.node "Split" "rows"(%0) {axis = 0 : i64} phase forward rate microbatch : (tensor<4x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
    pdc.yield %1#0, %1#1 : tensor<2x8xf32>, tensor<2x8xf32>
  }
  %z = pdc.unit "sum" origin "sum" forward microbatch (%0 = %r#0 : tensor<2x8xf32>, %1 = %r#1 : tensor<2x8xf32>) -> (tensor<2x8xf32>) {
    %2 = pdc.node "Add" "sum"(%0, %1) {} phase forward rate microbatch : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
    pdc.yield %2 : tensor<2x8xf32>
  }
  pdc.write %z to @z : tensor<2x8xf32>
  return
}

// -----

// The backward pass reads a quarter: keeping the whole for it would keep four times as much.

pdc.memory @h input microbatch : tensor<3x16xf32>
pdc.memory @dy input microbatch : tensor<3x4xf32>
pdc.memory @y activation microbatch : tensor<3x4xf32>
pdc.memory @dx activation microbatch : tensor<3x4xf32>

// CHECK-LABEL: func.func @train
// CHECK: pdc.unit "split"
func.func @train() {
  %h = pdc.read @h : tensor<3x16xf32>
  %dy = pdc.read @dy : tensor<3x4xf32>
  %s:4 = pdc.unit "split" origin "split" forward microbatch (%0 = %h : tensor<3x16xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) {
    %1:4 = pdc.node "Split" "split"(%0) {axis = 1 : i64} phase forward rate microbatch : (tensor<3x16xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>)
    pdc.yield %1#0, %1#1, %1#2, %1#3 : tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  }
  %y = pdc.unit "sum" origin "sum" forward microbatch (%0 = %s#0 : tensor<3x4xf32>, %1 = %s#1 : tensor<3x4xf32>, %2 = %s#2 : tensor<3x4xf32>, %3 = %s#3 : tensor<3x4xf32>) -> (tensor<3x4xf32>) {
    %4 = pdc.node "Sum" "sum"(%0, %1, %2, %3) {} phase forward rate microbatch : (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    pdc.yield %4 : tensor<3x4xf32>
  }
  pdc.write %y to @y : tensor<3x4xf32>
  %dx = pdc.unit "sum/grad" origin "sum" backward_input microbatch (%0 = %dy : tensor<3x4xf32>, %1 = %s#1 : tensor<3x4xf32>) -> (tensor<3x4xf32>) {
    %2 = pdc.node "ReluGrad" "sum/grad"(%0, %1) {} origin "sum" phase backward_input rate microbatch : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    pdc.yield %2 : tensor<3x4xf32>
  }
  pdc.write %dx to @dx : tensor<3x4xf32>
  return
}

// -----

// What divides for the backward pass alone is planned with no loop of the forward pass: it stays.

pdc.memory @h input microbatch : tensor<3x8xf32>
pdc.memory @dx activation microbatch : tensor<3x4xf32>

// CHECK-LABEL: func.func @train
// CHECK: pdc.unit "split" origin "split"
// CHECK: pdc.unit "grad" origin "split"
func.func @train() {
  %h = pdc.read @h : tensor<3x8xf32>
  %s:2 = pdc.unit "split" origin "split" forward microbatch (%0 = %h : tensor<3x8xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
    %1:2 = pdc.node "Split" "split"(%0) {axis = 1 : i64} phase forward rate microbatch : (tensor<3x8xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>)
    pdc.yield %1#0, %1#1 : tensor<3x4xf32>, tensor<3x4xf32>
  }
  %dx = pdc.unit "grad" origin "split" backward_input microbatch (%0 = %s#0 : tensor<3x4xf32>, %1 = %s#1 : tensor<3x4xf32>) -> (tensor<3x4xf32>) {
    %2 = pdc.node "Mul" "grad"(%0, %1) {} origin "split" phase backward_input rate microbatch : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    pdc.yield %2 : tensor<3x4xf32>
  }
  pdc.write %dx to @dx : tensor<3x4xf32>
  return
}
