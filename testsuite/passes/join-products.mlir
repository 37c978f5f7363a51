// RUN: pdc-opt %s -join-products --check-against=%s -o - | FileCheck %s
// What gradients hold is seen in what updates leave.
// RUN: pdc-opt %s -append-optimizer=optimizer=sgd,lr=0.1 -o %t.mlir
// RUN: pdc-opt %s -join-products -append-optimizer=optimizer=sgd,lr=0.1 --check-against=%t.mlir -o /dev/null

pdc.memory @r weight version : tensor<6x4xf32>
pdc.memory @"r/gradient" gradient update : tensor<6x4xf32>
// A use of a weight whose product is joined with the first's needs no sum of its own.
// CHECK-LABEL: pdc.memory @w weight
// CHECK-NEXT: pdc.memory @"w/gradient" gradient
// CHECK-NEXT: pdc.memory @"w/gradient.1" gradient
// CHECK-NEXT: pdc.memory @b weight
pdc.memory @w weight version : tensor<6x8xf32>
pdc.memory @"w/gradient" gradient update : tensor<6x8xf32>
pdc.memory @"w/gradient.1" gradient update : tensor<6x8xf32>
pdc.memory @"w/gradient.2" gradient update : tensor<6x8xf32>
pdc.memory @"w/gradient.3" gradient update : tensor<6x8xf32>
pdc.memory @b weight version : tensor<6xf32>
pdc.memory @"b/gradient" gradient update : tensor<6xf32>
// CHECK: pdc.memory @many weight
// CHECK-NEXT: pdc.memory @"many/gradient" gradient
// CHECK-NEXT: pdc.memory @"many/gradient.1" gradient
pdc.memory @many weight version : tensor<6x4xf32>
pdc.memory @"many/gradient" gradient update : tensor<6x4xf32>
pdc.memory @"many/gradient.1" gradient update : tensor<6x4xf32>
pdc.memory @x input microbatch : tensor<1x4xf32>
pdc.memory @y input microbatch : tensor<1x4xf32>
pdc.memory @z input microbatch : tensor<1x4xf32>
pdc.memory @long input microbatch : tensor<1x8xf32>
pdc.memory @longer input microbatch : tensor<1x8xf32>
pdc.memory @d input microbatch : tensor<1x6xf32>
pdc.memory @e input microbatch : tensor<1x6xf32>
pdc.memory @rows input microbatch : tensor<9x4xf32>
pdc.memory @wide input microbatch : tensor<9x6xf32>
pdc.memory @nested weight version : tensor<6x4xf32>
pdc.memory @"nested/gradient" gradient update : tensor<6x4xf32>
pdc.memory @direct weight version : tensor<6x4xf32>
pdc.memory @"direct/gradient" gradient update : tensor<6x4xf32>
pdc.memory @"direct/gradient.1" gradient update : tensor<6x4xf32>
pdc.memory @crossed weight version : tensor<6x4xf32>
pdc.memory @"crossed/gradient" gradient update : tensor<6x4xf32>
pdc.memory @target input microbatch : tensor<f32>
pdc.memory @pdc.loss metric update : tensor<f32>
pdc.memory @pdc.loss_weight metric update : tensor<f32>
pdc.memory @states metric update : tensor<2x4xf32>
pdc.memory @sums metric update : tensor<6x4xf32>
pdc.memory @other_steps metric update : tensor<2x6xf32>
pdc.memory @three_steps metric update : tensor<3x6xf32>
pdc.memory @steps metric update : tensor<2x6xf32>
pdc.memory @later_steps metric update : tensor<2x6xf32>
pdc.memory @part metric update : tensor<1x4xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK-DAG: %[[X:.*]] = pdc.read @x
  // CHECK-DAG: %[[Y:.*]] = pdc.read @y
  // CHECK-DAG: %[[LONG:.*]] = pdc.read @long :
  // CHECK-DAG: %[[LONGER:.*]] = pdc.read @longer :
  // CHECK-DAG: %[[D:.*]] = pdc.read @d
  // CHECK-DAG: %[[E:.*]] = pdc.read @e
  %r = pdc.weight_version @r latest : tensor<6x4xf32>
  %w = pdc.weight_version @w latest : tensor<6x8xf32>
  %b = pdc.weight_version @b latest : tensor<6xf32>
  %many_weight = pdc.weight_version @many latest : tensor<6x4xf32>
  %crossed_weight = pdc.weight_version @crossed latest : tensor<6x4xf32>
  %nested_weight = pdc.weight_version @nested latest : tensor<6x4xf32>
  %direct_weight = pdc.weight_version @direct latest : tensor<6x4xf32>
  %x = pdc.read @x : tensor<1x4xf32>
  %y = pdc.read @y : tensor<1x4xf32>
  %z = pdc.read @z : tensor<1x4xf32>
  %long = pdc.read @long : tensor<1x8xf32>
  %longer = pdc.read @longer : tensor<1x8xf32>
  %d = pdc.read @d : tensor<1x6xf32>
  %e = pdc.read @e : tensor<1x6xf32>
  %rows = pdc.read @rows : tensor<9x4xf32>
  %wide = pdc.read @wide : tensor<9x6xf32>
  %first = pdc.node "Constant" "/first"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %f = pdc.node "Gemm" "/step"(%x, %r) {transB = 1 : i64} : (tensor<1x4xf32>, tensor<6x4xf32>) -> tensor<1x6xf32>
  %g = pdc.node "Gemm" "/step.1"(%y, %r) {transB = 1 : i64} : (tensor<1x4xf32>, tensor<6x4xf32>) -> tensor<1x6xf32>
  %i = pdc.node "Identity" "/r"(%r) {} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %many_used = pdc.node "Identity" "/many"(%many_weight) {} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %crossed_used = pdc.node "Identity" "/crossed"(%crossed_weight) {} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %nested_used = pdc.node "Identity" "/nested"(%nested_weight) {} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %h = pdc.node "Identity" "/z"(%b) {} : (tensor<6xf32>) -> tensor<6xf32>
  // The steps' gradients are below one another already, the later first: the states follow them.
  // CHECK: %[[STEPS:.*]] = pdc.node "Concat" "/steps"(%[[E]], %[[D]])
  %steps = pdc.node "Concat" "/steps"(%e, %d) {axis = 0 : i64} origin "/step" : (tensor<1x6xf32>, tensor<1x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %steps into @steps : tensor<2x6xf32>
  %p = pdc.node "Gemm" "/step/grad/Gemm"(%d, %x) {transA = 1 : i64} origin "/step" : (tensor<1x6xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  %q = pdc.node "Gemm" "/step.1/grad/Gemm"(%e, %y) {transA = 1 : i64} origin "/step.1" : (tensor<1x6xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  // CHECK: %[[STATES:.*]] = pdc.node "Concat" "/r/grad/Concat"(%[[Y]], %[[X]]) {axis = 0 : i64} origin "/r"
  // CHECK-NEXT: %[[ALL:.*]] = pdc.node "Gemm" "/r/grad/Gemm"(%[[STEPS]], %[[STATES]]) {transA = 1 : i64} origin "/r"
  // CHECK-NEXT: pdc.accumulate %[[ALL]] into @"r/gradient"
  %s = pdc.node "Sum" "/r/grad/sum"(%p, %q) {} origin "/r" : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  pdc.accumulate %s into @"r/gradient" : tensor<6x4xf32>

  // Uses of the weight itself, one of which is no product: what is left is numbered anew.
  // CHECK-NOT: into @"w/gradient.2"
  // CHECK: %[[SLICED:.*]] = pdc.node "Relu" "/other/grad"
  // CHECK-NEXT: pdc.accumulate %[[SLICED]] into @"w/gradient.1"
  %k = pdc.node "Gemm" "/use/grad"(%d, %long) {transA = 1 : i64} origin "/step" : (tensor<1x6xf32>, tensor<1x8xf32>) -> tensor<6x8xf32>
  %l = pdc.node "Gemm" "/use.1/grad"(%e, %longer) {transA = 1 : i64} origin "/step.1" : (tensor<1x6xf32>, tensor<1x8xf32>) -> tensor<6x8xf32>
  %m = pdc.node "Gemm" "/use.2/grad"(%e, %long) {transA = 1 : i64} origin "/step.1" : (tensor<1x6xf32>, tensor<1x8xf32>) -> tensor<6x8xf32>
  %o = pdc.node "Relu" "/other/grad"(%w) {} origin "/step.1" : (tensor<6x8xf32>) -> tensor<6x8xf32>
  pdc.accumulate %o into @"w/gradient.3" : tensor<6x8xf32>
  pdc.accumulate %m into @"w/gradient.2" : tensor<6x8xf32>
  // CHECK: %[[LEFT:.*]] = pdc.node "Concat" "/step/grad/Concat"(%[[D]], %[[E]], %[[E]])
  // CHECK-NEXT: %[[RIGHT:.*]] = pdc.node "Concat" "/step/grad/Concat.1"(%[[LONG]], %[[LONGER]], %[[LONG]])
  // CHECK-NEXT: %[[USES:.*]] = pdc.node "Gemm" "/step/grad/Gemm.1"(%[[LEFT]], %[[RIGHT]]) {transA = 1 : i64} origin "/step"
  // CHECK-NEXT: pdc.accumulate %[[USES]] into @"w/gradient" :
  pdc.accumulate %l into @"w/gradient.1" : tensor<6x8xf32>
  pdc.accumulate %k into @"w/gradient" : tensor<6x8xf32>

  // Sums of columns read what products have stacked.
  // CHECK: %[[BIAS:.*]] = pdc.node "ReduceSum" "/z/grad/ReduceSum"(%[[STEPS]], {{.*}}) {keepdims = 0 : i64} origin "/z"
  // CHECK-NEXT: pdc.accumulate %[[BIAS]] into @"b/gradient"
  %t = pdc.node "ReduceSum" "/step/grad/ReduceSum"(%d, %first) {keepdims = 0 : i64} origin "/step" : (tensor<1x6xf32>, tensor<1xi64>) -> tensor<6xf32>
  %u = pdc.node "ReduceSum" "/step.1/grad/ReduceSum"(%e, %first) {keepdims = 0 : i64} origin "/step.1" : (tensor<1x6xf32>, tensor<1xi64>) -> tensor<6xf32>
  %v = pdc.node "Sum" "/b/grad/sum"(%t, %u) {} origin "/z" : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  pdc.accumulate %v into @"b/gradient" : tensor<6xf32>

  // Many rows: the products are smaller than what they are made of.
  // CHECK: %[[ONE:.*]] = pdc.node "Gemm" "/many/grad"
  // CHECK: %[[MORE:.*]] = pdc.node "Gemm" "/many.1/grad"
  // CHECK: %[[BOTH:.*]] = pdc.node "Sum" "/many/grad/sum"(%[[ONE]], %[[MORE]])
  // CHECK-NEXT: pdc.accumulate %[[BOTH]] into @sums
  %many = pdc.node "Gemm" "/many/grad"(%wide, %rows) {transA = 1 : i64} origin "/step" : (tensor<9x6xf32>, tensor<9x4xf32>) -> tensor<6x4xf32>
  %more = pdc.node "Gemm" "/many.1/grad"(%wide, %rows) {transA = 1 : i64} origin "/step.1" : (tensor<9x6xf32>, tensor<9x4xf32>) -> tensor<6x4xf32>
  %both = pdc.node "Sum" "/many/grad/sum"(%many, %more) {} origin "/step" : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  pdc.accumulate %both into @sums : tensor<6x4xf32>
  // CHECK: into @"many/gradient" :
  // CHECK: into @"many/gradient.1"
  %apart = pdc.node "Gemm" "/apart/grad"(%wide, %rows) {transA = 1 : i64} origin "/step" : (tensor<9x6xf32>, tensor<9x4xf32>) -> tensor<6x4xf32>
  %away = pdc.node "Gemm" "/apart.1/grad"(%wide, %rows) {transA = 1 : i64} origin "/step.1" : (tensor<9x6xf32>, tensor<9x4xf32>) -> tensor<6x4xf32>
  pdc.accumulate %apart into @"many/gradient" : tensor<6x4xf32>
  pdc.accumulate %away into @"many/gradient.1" : tensor<6x4xf32>

  // Both factors are stacked already, in different orders: one of them is stacked again.
  // CHECK: %[[GF:.*]] = pdc.node "Concat" "/gf"
  // CHECK: pdc.node "Concat" "/zx"(%[[Z:.*]], %[[X]])
  // CHECK: %[[AGAIN:.*]] = pdc.node "Concat" "/crossed/grad/Concat"(%[[X]], %[[Z]])
  // CHECK-NEXT: pdc.node "Gemm" "/crossed/grad/Gemm"(%[[GF]], %[[AGAIN]])
  %gf = pdc.node "Concat" "/gf"(%g, %f) {axis = 0 : i64} origin "/step" : (tensor<1x6xf32>, tensor<1x6xf32>) -> tensor<2x6xf32>
  %zx = pdc.node "Concat" "/zx"(%z, %x) {axis = 0 : i64} origin "/step" : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  pdc.accumulate %gf into @other_steps : tensor<2x6xf32>
  pdc.accumulate %zx into @states : tensor<2x4xf32>
  %left = pdc.node "Gemm" "/left/grad"(%f, %z) {transA = 1 : i64} origin "/step" : (tensor<1x6xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  %right = pdc.node "Gemm" "/right/grad"(%g, %x) {transA = 1 : i64} origin "/step.1" : (tensor<1x6xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  %together = pdc.node "Sum" "/crossed/grad/sum"(%left, %right) {} origin "/crossed" : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  pdc.accumulate %together into @"crossed/gradient" : tensor<6x4xf32>

  // Of steps far apart the sums are added up in turn: all are one product, beside what is none.
  // CHECK: %[[THREE:.*]] = pdc.node "Concat" "/three"
  // CHECK-NOT: "/far/grad/sum"
  // CHECK: %[[NESTED:.*]] = pdc.node "Gemm" "/nested/grad/Gemm"(%[[THREE]], {{.*}}) {transA = 1 : i64} origin "/nested"
  // CHECK-NEXT: %[[WITH:.*]] = pdc.node "Sum" "/nested/grad/sum"(%[[NESTED]], {{%[0-9]+}}) {} origin "/nested"
  // CHECK-NEXT: pdc.accumulate %[[WITH]] into @"nested/gradient"
  %three = pdc.node "Concat" "/three"(%g, %e, %d) {axis = 0 : i64} origin "/step" : (tensor<1x6xf32>, tensor<1x6xf32>, tensor<1x6xf32>) -> tensor<3x6xf32>
  pdc.accumulate %three into @three_steps : tensor<3x6xf32>
  %far = pdc.node "Gemm" "/far/grad"(%g, %x) {transA = 1 : i64} origin "/step.1" : (tensor<1x6xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  %farther = pdc.node "Gemm" "/far.1/grad"(%e, %y) {transA = 1 : i64} origin "/step.1" : (tensor<1x6xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  %far_sum = pdc.node "Sum" "/far/grad/sum"(%farther, %far) {} origin "/step.1" : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %near = pdc.node "Gemm" "/near/grad"(%d, %z) {transA = 1 : i64} origin "/step" : (tensor<1x6xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  %none = pdc.node "Relu" "/none/grad"(%nested_used) {} origin "/step" : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %nested = pdc.node "Sum" "/nested/grad/sum"(%near, %far_sum, %none) {} origin "/nested" : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  pdc.accumulate %nested into @"nested/gradient" : tensor<6x4xf32>

  // Uses of a weight itself whose steps are stacked behind the last of them: the sum waits for that.
  // CHECK: %[[LATER:.*]] = pdc.node "Concat" "/later"(%[[F:.*]], %[[D]])
  // CHECK-NEXT: %[[DIRECT:.*]] = pdc.node "Gemm" {{.*}}(%[[LATER]], %[[STATES]])
  // CHECK-NEXT: pdc.accumulate %[[DIRECT]] into @"direct/gradient" :
  // CHECK-NOT: into @"direct/gradient.1"
  %direct_used = pdc.node "Identity" "/direct"(%direct_weight) {} : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %once = pdc.node "Gemm" "/once/grad"(%d, %x) {transA = 1 : i64} origin "/step" : (tensor<1x6xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  %twice = pdc.node "Gemm" "/twice/grad"(%f, %y) {transA = 1 : i64} origin "/step.1" : (tensor<1x6xf32>, tensor<1x4xf32>) -> tensor<6x4xf32>
  pdc.accumulate %once into @"direct/gradient.1" : tensor<6x4xf32>
  pdc.accumulate %twice into @"direct/gradient" : tensor<6x4xf32>
  %later = pdc.node "Concat" "/later"(%f, %d) {axis = 0 : i64} origin "/step" : (tensor<1x6xf32>, tensor<1x6xf32>) -> tensor<2x6xf32>
  pdc.accumulate %later into @later_steps : tensor<2x6xf32>

  %target = pdc.read @target : tensor<f32>
  %weight = pdc.node "LossWeight" "loss_weight"(%target) {} : (tensor<f32>) -> tensor<f32>
  pdc.accumulate %target into @pdc.loss : tensor<f32>
  pdc.accumulate %weight into @pdc.loss_weight : tensor<f32>
  return
}
