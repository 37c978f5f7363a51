// RUN: pdc-opt %s -form-units | FileCheck %s

pdc.memory @a input microbatch : tensor<2x6xf32>
pdc.memory @b input microbatch : tensor<2x6xf32>
pdc.memory @d inbox microbatch : tensor<2x6xf32>
pdc.memory @w weight version : tensor<6x6xf32>
pdc.memory @y metric update : tensor<2x6xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK-DAG: %[[A:.*]] = pdc.read @a
  // CHECK-DAG: %[[B:.*]] = pdc.read @b
  // CHECK-DAG: %[[D:.*]] = pdc.read @d
  %a = pdc.read @a : tensor<2x6xf32>
  %b = pdc.read @b : tensor<2x6xf32>
  %d = pdc.read @d : tensor<2x6xf32>
  %w = pdc.weight_version @w latest : tensor<6x6xf32>

  // What a gate multiplies with the backward pass makes again where it reads it, of what it is made of.
  // CHECK: pdc.unit "gate+product" origin "gate+product" forward microbatch (%{{.*}} = %[[A]] : tensor<2x6xf32>, %{{.*}} = %[[B]] : tensor<2x6xf32>) -> (tensor<2x6xf32>)
  %gate = pdc.node "Sigmoid" "gate"(%a) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %product = pdc.node "Mul" "product"(%gate, %b) {} phase forward rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %product into @y : tensor<2x6xf32>

  // A node that reads a value twice and is its only reader in the forward pass.
  // CHECK: pdc.unit "tanh+square" origin "tanh+square" forward microbatch (%{{.*}} = %[[A]] : tensor<2x6xf32>) -> (tensor<2x6xf32>)
  %tanh = pdc.node "Tanh" "tanh"(%a) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %square = pdc.node "Mul" "square"(%tanh, %tanh) {} phase forward rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %square into @y : tensor<2x6xf32>

  // Two loops whose results one node reads are one with it, in the order of the nodes.
  // CHECK: pdc.unit "left+right+sum" origin "left+right+sum" forward microbatch (%{{.*}} = %[[A]] : tensor<2x6xf32>, %{{.*}} = %[[B]] : tensor<2x6xf32>) -> (tensor<2x6xf32>)
  %left = pdc.node "Abs" "left"(%a) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %right = pdc.node "Relu" "right"(%b) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %sum = pdc.node "Add" "sum"(%right, %left) {} phase forward rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %sum into @y : tensor<2x6xf32>

  // Both factors of a gate are made again, as WaveNet has them.
  // CHECK: pdc.unit "inner+outer+both" origin "inner+outer+both" forward microbatch (%{{.*}} = %[[A]] : tensor<2x6xf32>, %{{.*}} = %[[B]] : tensor<2x6xf32>) -> (tensor<2x6xf32>)
  %inner = pdc.node "Tanh" "inner"(%a) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %outer = pdc.node "Sigmoid" "outer"(%b) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %both = pdc.node "Mul" "both"(%inner, %outer) {} phase forward rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %both into @y : tensor<2x6xf32>

  // Not where a reader is no loop and needs the value in memory.
  // CHECK: %[[K:.*]] = pdc.unit "kept" origin "kept" forward
  // CHECK: pdc.unit "kept/product" origin "kept/product" forward microbatch (%{{.*}} = %[[K]] : tensor<2x6xf32>
  %kept = pdc.node "Sigmoid" "kept"(%a) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %kept_product = pdc.node "Mul" "kept/product"(%kept, %b) {} phase forward rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %kept_product into @y : tensor<2x6xf32>

  // Nor where two nodes of the forward pass read it.
  // CHECK: %[[T:.*]] = pdc.unit "twice" origin "twice" forward
  // CHECK: pdc.unit "twice/first" origin
  // CHECK: pdc.unit "twice/second" origin
  %twice = pdc.node "Sigmoid" "twice"(%a) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %twice_first = pdc.node "Mul" "twice/first"(%twice, %a) {} phase forward rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %twice_first into @y : tensor<2x6xf32>
  %twice_second = pdc.node "Mul" "twice/second"(%twice, %b) {} phase forward rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %twice_second into @y : tensor<2x6xf32>

  // Nor where it is made of two tensors.
  // CHECK: %[[M:.*]] = pdc.unit "mixed" origin "mixed" forward
  // CHECK: pdc.unit "mixed/product" origin
  %mixed = pdc.node "Add" "mixed"(%a, %b) {} phase forward rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  %mixed_product = pdc.node "Mul" "mixed/product"(%mixed, %a) {} phase forward rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %mixed_product into @y : tensor<2x6xf32>

  // Nor where one is planned by itself, as a node behind the gate.
  // CHECK: %[[F:.*]] = pdc.unit "far" origin "far" forward
  // CHECK: pdc.unit "far/product" origin
  %far = pdc.node "Sigmoid" "far"(%a) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
  %far_product = pdc.node "Mul" "far/product"(%far, %b) {} phase forward rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %far_product into @y : tensor<2x6xf32>

  // CHECK: pdc.unit "outer/again+inner/grad" origin "inner+outer+both" backward_input microbatch (%{{.*}} = %[[B]] : tensor<2x6xf32>, %{{.*}} = %[[D]] : tensor<2x6xf32>) -> (tensor<2x6xf32>)
  %inner_grad = pdc.node "Mul" "inner/grad"(%d, %outer) {} origin "both" phase backward_input rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %inner_grad into @y : tensor<2x6xf32>
  // CHECK: pdc.unit "inner/again+outer/grad" origin "inner+outer+both" backward_input microbatch (%{{.*}} = %[[A]] : tensor<2x6xf32>, %{{.*}} = %[[D]] : tensor<2x6xf32>) -> (tensor<2x6xf32>)
  %outer_grad = pdc.node "Mul" "outer/grad"(%d, %inner) {} origin "both" phase backward_input rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %outer_grad into @y : tensor<2x6xf32>
  // CHECK: pdc.unit "far/grad" origin "left+right+sum" backward_input microbatch (%{{.*}} = %[[F]] :
  %far_grad = pdc.node "Mul" "far/grad"(%far, %d) {} origin "sum" phase backward_input rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %far_grad into @y : tensor<2x6xf32>
  // CHECK: pdc.unit "mixed/grad" origin "mixed/product" backward_input microbatch (%{{.*}} = %[[M]] :
  %mixed_grad = pdc.node "Mul" "mixed/grad"(%mixed, %d) {} origin "mixed/product" phase backward_input rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %mixed_grad into @y : tensor<2x6xf32>
  // CHECK: pdc.unit "twice/grad" origin "twice/second" backward_input microbatch (%{{.*}} = %[[T]] :
  %twice_grad = pdc.node "Mul" "twice/grad"(%twice, %d) {} origin "twice/second" phase backward_input rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %twice_grad into @y : tensor<2x6xf32>
  // CHECK: pdc.unit "kept/grad" origin "kept/product" backward_input microbatch (%{{.*}} = %[[K]] :
  %kept_grad = pdc.node "Mul" "kept/grad"(%kept, %d) {} origin "kept/product" phase backward_input rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %kept_grad into @y : tensor<2x6xf32>
  %kept_matrix = pdc.node "MatMul" "kept/matrix"(%kept, %w) {} origin "kept" phase backward_input rate microbatch : (tensor<2x6xf32>, tensor<6x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %kept_matrix into @y : tensor<2x6xf32>
  // CHECK: pdc.unit "tanh/again+square/grad+tanh/again.1+tanh/grad" origin "tanh+square" backward_input microbatch (%{{.*}} = %[[A]] : tensor<2x6xf32>, %{{.*}} = %[[D]] : tensor<2x6xf32>) -> (tensor<2x6xf32>)
  %square_grad = pdc.node "Mul" "square/grad"(%d, %tanh) {} origin "square" phase backward_input rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  %tanh_grad = pdc.node "TanhGrad" "tanh/grad"(%square_grad, %tanh) {} origin "tanh" phase backward_input rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %tanh_grad into @y : tensor<2x6xf32>
  // CHECK: pdc.unit "gate/again+product/grad/b" origin "gate+product" backward_input microbatch (%{{.*}} = %[[A]] : tensor<2x6xf32>, %{{.*}} = %[[D]] : tensor<2x6xf32>) -> (tensor<2x6xf32>)
  %product_grad_b = pdc.node "Mul" "product/grad/b"(%d, %gate) {} origin "product" phase backward_input rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %product_grad_b into @y : tensor<2x6xf32>
  // CHECK: pdc.unit "product/grad/a+gate/again.1+gate/grad" origin "gate+product" backward_input microbatch (%{{.*}} = %[[D]] : tensor<2x6xf32>, %{{.*}} = %[[B]] : tensor<2x6xf32>, %{{.*}} = %[[A]] : tensor<2x6xf32>) -> (tensor<2x6xf32>)
  %product_grad_a = pdc.node "Mul" "product/grad/a"(%d, %b) {} origin "product" phase backward_input rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  %gate_grad = pdc.node "SigmoidGrad" "gate/grad"(%product_grad_a, %gate) {} origin "gate" phase backward_input rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %gate_grad into @y : tensor<2x6xf32>
  return
}
