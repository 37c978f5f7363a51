// RUN: pdc-opt %s -append-optimizer="optimizer=momentum,lr=0.1,weight_decay=1e-4 no-decay=*.bias" | FileCheck %s
// RUN: pdc-opt %s -append-optimizer="optimizer=adamw" | FileCheck %s --check-prefix=ADAM
// RUN: pdc-opt %s -append-optimizer="optimizer=sgd" | FileCheck %s --check-prefix=SGD
// RUN: pdc-opt %s -append-optimizer="optimizer=nesterov" | FileCheck %s --check-prefix=NESTEROV

// RUN: pdc-opt %s -append-optimizer="optimizer=adagrad,initial_accumulator=0.5,lr_decay=0.1" | FileCheck %s --check-prefix=ADAGRAD
// RUN: pdc-opt %s -append-optimizer="optimizer=adam,first_step=0,scaled_epsilon=1,post_decay=0.25" | FileCheck %s --check-prefix=ONNX
// RUN: pdc-opt %s -append-optimizer="optimizer=lamb" | FileCheck %s --check-prefix=LAMB

// RUN: pdc-opt %s -append-optimizer="optimizer=adam lr-scale=fc.*=0.25,*.bias=3" | FileCheck %s --check-prefix=SCALED

// CHECK: module attributes {pdc.learning_rate = 1.000000e-01 : f64}
// ADAM: module attributes {pdc.learning_rate = 1.000000e-03 : f64}
// SGD: module attributes {pdc.learning_rate = 1.000000e-02 : f64}
// CHECK: pdc.memory @"fc.weight/momentum" optimizer update : tensor<3x3xf32> {initial = 0.000000e+00 : f64}
// ADAM: pdc.memory @"fc.weight/exp_avg" optimizer update
// ADAM-NEXT: pdc.memory @"fc.weight/exp_avg_sq" optimizer update
// ADAGRAD: pdc.memory @"fc.weight/sum" optimizer update : tensor<3x3xf32> {initial = 5.000000e-01 : f64}
pdc.memory @fc.weight weight version : tensor<3x3xf32>
pdc.memory @"fc.weight/gradient" gradient update : tensor<3x3xf32>
pdc.memory @"fc.weight/gradient.1" gradient update : tensor<3x3xf32>
pdc.memory @fc.bias weight version : tensor<3xf32>
pdc.memory @"fc.bias/gradient" gradient update : tensor<3xf32>
pdc.memory @x input microbatch : tensor<2x3xf32>
// CHECK: pdc.memory @pdc.gradient_scale input update : tensor<f32>
// CHECK: pdc.memory @pdc.learning_rate input update : tensor<f32>
// CHECK: pdc.memory @pdc.step input update : tensor<f32>

// SCALED: pdc.memory @pdc.learning_rate.times_0.25 input update : tensor<f32> {initial = 2.500000e-01 : f64}
// SCALED: pdc.memory @pdc.learning_rate.times_3 input update : tensor<f32> {initial = 3.000000e+00 : f64}

// An update reads what the forward pass has read.
func.func @train() {
  // CHECK: %[[W:.*]] = pdc.weight_version @fc.weight latest
  // CHECK-NOT: pdc.weight_version @fc.weight
  // LAMB: %[[OLD:.*]] = pdc.weight_version @fc.weight latest
  %x = pdc.read @x : tensor<2x3xf32>
  %w = pdc.weight_version @fc.weight latest : tensor<3x3xf32>
  %b = pdc.weight_version @fc.bias latest : tensor<3xf32>
  %0 = pdc.node "Gemm" "/first"(%x, %w, %b) {} : (tensor<2x3xf32>, tensor<3x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %1 = pdc.node "Gemm" "/second"(%0, %w) {} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  // CHECK: %[[SCALE:.*]] = pdc.read @pdc.gradient_scale
  // CHECK: %[[LR:.*]] = pdc.read @pdc.learning_rate
  // CHECK: %[[STEP:.*]] = pdc.read @pdc.step
  // CHECK: %[[G0:.*]] = pdc.read @"fc.weight/gradient"
  // CHECK: %[[G1:.*]] = pdc.read @"fc.weight/gradient.1"
  // CHECK: %[[G:.*]] = pdc.node "Sum" "fc.weight/gradient/sum"(%[[G0]], %[[G1]]) {} origin "/first"
  // CHECK: %[[V:.*]] = pdc.read @"fc.weight/momentum"
  // CHECK: %[[NEW:.*]]:2 = pdc.node "MomentumUpdate" "fc.weight/update"(%[[W]], %[[G]], %[[V]], %[[SCALE]], %[[LR]], %[[STEP]])
  // CHECK-SAME: {dampening = 0.000000e+00 : f64, momentum = 9.000000e-01 : f64, nesterov = 0 : i64, weight_decay = 1.000000e-04 : f64} origin "/first"
  // CHECK: pdc.commit %[[NEW]]#0 to @fc.weight
  // CHECK: pdc.write %[[NEW]]#1 to @"fc.weight/momentum"
  // CHECK: "fc.bias/update"
  // CHECK-SAME: weight_decay = 0.000000e+00
  // ADAM: "AdamUpdate" "fc.weight/update"
  // ADAM-SAME: decoupled = 1 : i64
  // ADAM-SAME: weight_decay = 1.000000e-02
  // ADAGRAD: "AdagradUpdate" "fc.weight/update"
  // ADAGRAD-SAME: {epsilon = 1.000000e-10 : f64, lr_decay = 1.000000e-01 : f64, weight_decay
  // ONNX: "AdamUpdate"
  // ONNX-SAME: first_step = 0.000000e+00 : f64, post_decay = 2.500000e-01 : f64, scaled_epsilon = 1 : i64
  // LAMB: %[[RATE:.*]] = pdc.read @pdc.learning_rate
  // LAMB: %[[TO:.*]]:3 = pdc.node "AdamUpdate" "fc.weight/update"(%[[OLD]],
  // LAMB-SAME: decoupled = 3 : i64
  // LAMB: %[[SQUARES:.*]] = pdc.node "Mul" {{.*}}(%[[OLD]], %[[OLD]])
  // LAMB: %[[LENGTH:.*]] = pdc.node "ReduceSum" {{.*}}(%[[SQUARES]]) {keepdims = 0 : i64} origin "/first"
  // LAMB: pdc.node "Mul" {{.*}}(%[[TO]]#0, %[[TO]]#0)
  // LAMB: %[[REACH:.*]] = pdc.node "ReduceSum"
  // LAMB: %[[NEXT:.*]] = pdc.node "LambUpdate" {{.*}}(%[[OLD]], %[[TO]]#0, %[[RATE]], %[[LENGTH]], %[[REACH]])
  // LAMB: pdc.commit %[[NEXT]] to @fc.weight
  // LAMB: pdc.write %[[TO]]#1 to @"fc.weight/exp_avg"
  // SCALED: %[[SLOW:.*]] = pdc.read @pdc.learning_rate.times_0.25
  // SCALED: %[[FAST:.*]] = pdc.read @pdc.learning_rate.times_3
  // SCALED: "fc.weight/update"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[SLOW]], %{{.*}})
  // SCALED: "fc.bias/update"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[FAST]], %{{.*}})
  // SGD: pdc.node "SgdUpdate" "fc.weight/update"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {weight_decay = 0.000000e+00 : f64}
  // NESTEROV: nesterov = 1 : i64
  return
}
