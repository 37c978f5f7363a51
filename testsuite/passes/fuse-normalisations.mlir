// What GPUs compute beside a normalisation: an image that is added to it, a relu that is computed again for its gradient, and
// what arrives there, written while it is summed.
// RUN: pdc-opt %s -form-units="device=cuda" -fuse-normalisations | FileCheck %s
// RUN: pdc-opt %s -form-units="device=cuda" -fuse-normalisations -choose-kernels="device=cuda" | FileCheck --check-prefix=KERNEL %s
// RUN: pdc-opt %s -form-units | FileCheck --check-prefix=CPU %s
// Another result of the forward pass, another scale, and a gradient of another width are left as they are.
// RUN: sed -e 's/"first.grad.relu"(%d0, %z0)/"first.grad.relu"(%d0, %x)/' %s | pdc-opt -form-units="device=cuda" -fuse-normalisations | FileCheck --check-prefix=OTHER %s
// RUN: sed -e 's/"first.grad"(%d1, %x, .scale,/"first.grad"(%d1, %x, %bias,/' %s | pdc-opt -form-units="device=cuda" -fuse-normalisations | FileCheck --check-prefix=OTHER %s

pdc.memory @x input microbatch : tensor<2x8x4x4xf32>
pdc.memory @a input microbatch : tensor<2x8x4x4xf32>
pdc.memory @b input microbatch : tensor<2x8x4x4xf32>
pdc.memory @scale weight version : tensor<8xf32>
pdc.memory @bias weight version : tensor<8xf32>
pdc.memory @mean state microbatch : tensor<8xf32>
pdc.memory @variance state microbatch : tensor<8xf32>
pdc.memory @"scale/gradient" gradient update : tensor<8xf32>
pdc.memory @"scale/gradient.1" gradient update : tensor<8xf32>
pdc.memory @y metric update : tensor<2x8x4x4xf32>
pdc.memory @z metric update : tensor<2x8x4x4xf32>

// CHECK-LABEL: func.func @train
// CPU-LABEL: func.func @train
func.func @train() {
  %x = pdc.read @x : tensor<2x8x4x4xf32>
  // CHECK-DAG: %[[SCALE:.*]] = pdc.weight_version @scale
  // CHECK-DAG: %[[BIAS:.*]] = pdc.weight_version @bias
  %scale = pdc.weight_version @scale latest : tensor<8xf32>
  %bias = pdc.weight_version @bias latest : tensor<8xf32>
  %mean = pdc.read @mean : tensor<8xf32>
  %variance = pdc.read @variance : tensor<8xf32>
  // CHECK: %[[FIRST:.*]]:3 = pdc.unit "first+first/relu" origin "first+first/relu" forward
  %n:5 = pdc.node "BatchNormInternal" "first"(%x, %scale, %bias, %mean, %variance) {} phase forward rate microbatch : (tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  %z0 = pdc.node "Relu" "first/relu"(%n#0) {} phase forward rate microbatch : (tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  // The image is added in one pass, and the sum may take its place.
  // CHECK: %[[SECOND:.*]]:3 = pdc.unit "second+add+last" origin "second+add+last" forward microbatch
  // CHECK-NEXT: %[[N:.*]]:5 = pdc.node "BatchNormInternal" "second"
  // CHECK-NEXT: %[[SUM:.*]] = pdc.node "Add" "add"(%arg0, %[[N]]#0)
  // CHECK-NEXT: %[[Z:.*]] = pdc.node "Relu" "last"(%[[SUM]])
  // CHECK-NEXT: pdc.yield %[[N]]#3, %[[N]]#4, %[[Z]]
  // KERNEL: pdc.unit "second+add+last"{{.*}}in_place = array<i64: 0, 2, 5, 2>, kernel = #pdc.kernel<"BatchNormalization", {addend = 1 : i64, epsilon
  // KERNEL-SAME: relu = 1 : i64, results = array<i64: 3, 4, 0>}
  // CPU: pdc.unit "second" origin
  // CPU: pdc.unit "add+last" origin
  %m:5 = pdc.node "BatchNormInternal" "second"(%z0, %scale, %bias, %mean, %variance) {} phase forward rate microbatch : (tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  %sum = pdc.node "Add" "add"(%z0, %m#0) {} phase forward rate microbatch : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  %last = pdc.node "Relu" "last"(%sum) {} phase forward rate microbatch : (tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  pdc.accumulate %last into @y : tensor<2x8x4x4xf32>
  // What arrives at the second normalisation is read by others, so it is the unit's first result; its relu is one of a sum.
  // CHECK: %[[D:.*]]:3 = pdc.unit "last/grad/sum+last/grad+second/grad" origin "second+add+last" backward_input microbatch
  // CHECK-SAME: (%arg0 = %{{.*}} : {{.*}}, %arg1 = %{{.*}} : {{.*}}, %arg2 = %[[SECOND]]#2 : {{.*}}, %arg3 = %[[FIRST]]#2 : {{.*}}, %arg4 = %[[SCALE]] : {{.*}}, %arg5 = %[[SECOND]]#0 : {{.*}}, %arg6 = %[[SECOND]]#1 :
  // CHECK-NEXT: %[[G:.*]] = pdc.node "Sum" "last/grad/sum"(%arg0, %arg1)
  // CHECK-NEXT: %[[R:.*]] = pdc.node "ReluGrad" "last/grad"(%[[G]], %arg2)
  // CHECK-NEXT: %[[N:.*]]:3 = pdc.node "BatchNormalizationGrad" "second/grad"(%[[R]], %arg3, %arg4, %arg5, %arg6)
  // CHECK-NEXT: pdc.yield %[[R]], %[[N]]#0, %[[N]]#1
  // KERNEL: pdc.unit "last/grad/sum+last/grad+second/grad"{{.*}}in_place = array<i64: 0, 0, 0, 1, 1, 0, 1, 1>, kernel = #pdc.kernel<"BatchNormalizationGradient", {input
  // KERNEL-SAME: relu = 1 : i64, results = array<i64: 3, 0, 1>, terms = 2 : i64}
  // CPU: pdc.unit "last/grad/sum+last/grad" origin
  // CPU: pdc.unit "second/grad" origin
  %a = pdc.read @a : tensor<2x8x4x4xf32>
  %b = pdc.read @b : tensor<2x8x4x4xf32>
  %ab = pdc.node "Sum" "last/grad/sum"(%a, %b) {} origin "last" phase backward_input rate microbatch : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  %g = pdc.node "ReluGrad" "last/grad"(%ab, %last) {} origin "last" phase backward_input rate microbatch : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  %e:3 = pdc.node "BatchNormalizationGrad" "second/grad"(%g, %z0, %scale, %m#3, %m#4) {} origin "second" phase backward_input rate microbatch : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>)
  pdc.accumulate %e#1 into @"scale/gradient.1" : tensor<8xf32>
  // The first one's relu is one of its image alone: the bias takes its result's place.
  // CHECK: pdc.unit "first/grad/sum+first.grad.relu+first.grad" origin "first+first/relu" backward_input microbatch
  // CHECK-SAME: (%arg0 = %[[D]]#0 : {{.*}}, %arg1 = %[[D]]#1 : {{.*}}, %arg2 = %[[BIAS]] : tensor<8xf32>, %arg3 = %{{.*}} : {{.*}}, %arg4 = %[[SCALE]] : {{.*}}, %arg5 = %[[FIRST]]#0 : {{.*}}, %arg6 = %[[FIRST]]#1 :
  // CHECK-NEXT: %[[G:.*]] = pdc.node "Sum" "first/grad/sum"(%arg0, %arg1)
  // CHECK-NEXT: %[[I:.*]] = pdc.node "BatchNormApply" "first.grad.relu/BatchNormApply"(%arg3, %arg4, %arg2, %arg5, %arg6)
  // CHECK-NEXT: %[[R:.*]] = pdc.node "ReluGrad" "first.grad.relu"(%[[G]], %[[I]])
  // CHECK-NEXT: pdc.node "BatchNormalizationGrad" "first.grad"(%[[R]], %arg3, %arg4, %arg5, %arg6)
  // KERNEL: pdc.unit "first/grad/sum+first.grad.relu+first.grad"{{.*}}(%arg0 = %{{.*}} : {{.*}}, %arg1 = {{.*}}, %arg2 = {{.*}} : tensor<2x8x4x4xf32, #pdc.layout<"acdb">>, %arg3 = %[[S:[^ ]*]] : tensor<8xf32>, %arg4 = %[[B:[^ ]*]] : tensor<8xf32>, %arg5 = %[[U:[^#]*]]#0
  // KERNEL-SAME: relu = 1 : i64, reluOfImage = 1 : i64, results = array<i64: 0, 1>, terms = 2 : i64}
  // OTHER-NOT: BatchNormApply
  %d0 = pdc.node "Sum" "first/grad/sum"(%g, %e#0) {} origin "first/relu" phase backward_input rate microbatch : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  %d1 = pdc.node "ReluGrad" "first.grad.relu"(%d0, %z0) {} origin "first/relu" phase backward_input rate microbatch : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  %f:3 = pdc.node "BatchNormalizationGrad" "first.grad"(%d1, %x, %scale, %n#3, %n#4) {} origin "first" phase backward_input rate microbatch : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>)
  pdc.accumulate %f#0 into @z : tensor<2x8x4x4xf32>
  pdc.accumulate %f#1 into @"scale/gradient" : tensor<8xf32>
  return
}
