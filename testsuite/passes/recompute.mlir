// RUN: pdc-opt %s --outline-programs --recompute | FileCheck %s
// RUN: pdc-opt %s --outline-programs --recompute --check-against %s -o /dev/null
// RUN: pdc-opt %s --outline-programs --recompute | pdc-opt --verify-level=level=staged -o /dev/null
// RUN: pdc-opt %s --outline-programs --recompute --split-backward --check-against %s -o /dev/null
// RUN: pdc-opt %s --outline-programs --recompute --build-schedule="schedule=gpipe microbatches=3" --version-weights --place-transfers --assign-homes --plan-memory --verify-schedule --name-values --verify-level=level=scheduled | FileCheck %s --check-prefix=PLACED
// RUN: not pdc-opt %s --outline-programs --split-backward --recompute 2>&1 | FileCheck %s --check-prefix=LATE
// LATE: error: stage 0 has no backward task; run recompute behind outline-programs and before split-backward

// One stage that drops, normalises and squares: the backward pass makes again what it reads. The
// second run draws what the first drew, and the running mean sees the first alone.

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>
#drop = #pdc.kernel<"Dropout", {}, workspace = 0, accumulates = false>
#norm = #pdc.kernel<"BatchNormalization", {}, workspace = 0, accumulates = false>

pdc.memory @x input microbatch : tensor<2x2xf32>
pdc.memory @pdc.random input microbatch : tensor<4xi64>
pdc.memory @pdc.learning_rate input update : tensor<f32>
pdc.memory @scale weight version : tensor<2xf32> {initial = 1.0 : f64}
pdc.memory @"scale/gradient" gradient update : tensor<2xf32>
pdc.memory @mean state microbatch : tensor<2xf32> {initial = 0.0 : f64}
pdc.memory @pdc.loss metric update : tensor<f32>

// CHECK-NOT: activation
// CHECK:      pdc.task forward {
// CHECK:        %[[NORM:.*]]:5 = pdc.unit "norm"
// CHECK:        pdc.write %[[NORM]]#1 to @mean
// CHECK:        pdc.unit "loss"
// CHECK:        pdc.accumulate %{{.*}} into @pdc.loss
// CHECK-NEXT: }
// CHECK-NEXT: pdc.task backward {
// CHECK-NEXT:   %[[X:.*]] = pdc.read @x
// CHECK-NEXT:   %[[RANDOM:.*]] = pdc.read @pdc.random
// CHECK-NEXT:   %[[DROP:.*]] = pdc.unit "drop" {{.*}} = %[[X]] : {{.*}} = %[[RANDOM]]
// CHECK:        %[[SCALE:.*]] = pdc.weight_version @scale latest
// CHECK-NEXT:   %[[MEAN:.*]] = pdc.read @mean
// CHECK-NEXT:   %[[AGAIN:.*]]:5 = pdc.unit "norm" {{.*}} = %[[DROP]] : {{.*}} = %[[SCALE]]
// CHECK-NOT:    pdc.write
// CHECK-NOT:    "loss"
// CHECK:        %[[DY:.*]] = pdc.unit "loss/grad" {{.*}} = %[[AGAIN]]#0
// CHECK-NOT:    pdc.read
// CHECK:        pdc.unit "norm/grad" {{.*}} = %[[DY]] : {{.*}} = %[[DROP]] : {{.*}} = %[[SCALE]] : {{.*}} = %[[AGAIN]]#3 : {{.*}} = %[[AGAIN]]#4

// One kernel runs twice; what it makes again lies in scratch.
// PLACED:       pdc.task backward
// PLACED:       pdc.unit "drop" {{.*}} result_variables = ["recomputed_drop"], stage = 0 : i64, variable = "drop"
// PLACED:       pdc.unit "norm" {{.*}}homes = [#pdc.home<"scratch", {{.*}}variable = "norm"}

func.func @train() {
  %x = pdc.read @x : tensor<2x2xf32>
  %random = pdc.read @pdc.random : tensor<4xi64>
  %rate = pdc.read @pdc.learning_rate : tensor<f32>
  %scale = pdc.weight_version @scale latest : tensor<2xf32>
  %mean = pdc.read @mean : tensor<2xf32>
  %d = pdc.unit "drop" origin "drop" forward microbatch (%a = %x : tensor<2x2xf32>, %b = %random : tensor<4xi64>) -> (tensor<2x2xf32>) attributes {kernel = #drop, stage = 0 : i64} {
    %0 = pdc.node "Dropout" "drop"(%a, %b) {ratio = 0.25 : f64, key = 7 : i64} : (tensor<2x2xf32>, tensor<4xi64>) -> tensor<2x2xf32>
    pdc.yield %0 : tensor<2x2xf32>
  }
  %n:5 = pdc.unit "norm" origin "norm" forward microbatch (%a = %d : tensor<2x2xf32>, %b = %scale : tensor<2xf32>, %c = %mean : tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) attributes {kernel = #norm, in_place = array<i64: 2, 1>, stage = 0 : i64} {
    %0:5 = pdc.node "BatchNormInternal" "norm"(%a, %b, %b, %c, %c) {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64} : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
    pdc.yield %0#0, %0#1, %0#2, %0#3, %0#4 : tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  pdc.write %n#1 to @mean : tensor<2xf32>
  %loss = pdc.unit "loss" origin "loss" forward microbatch (%a = %n#0 : tensor<2x2xf32>) -> (tensor<f32>) attributes {kernel = #loops, stage = 0 : i64} {
    %0 = pdc.node "Mul" "square"(%a, %a) {} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %1 = pdc.node "ReduceSum" "loss"(%0) {keepdims = 0 : i64} : (tensor<2x2xf32>) -> tensor<f32>
    pdc.yield %1 : tensor<f32>
  }
  pdc.accumulate %loss into @pdc.loss : tensor<f32>
  %dy = pdc.unit "loss/grad" origin "loss" backward microbatch (%a = %n#0 : tensor<2x2xf32>) -> (tensor<2x2xf32>) attributes {kernel = #loops, stage = 0 : i64} {
    %0 = pdc.node "Add" "loss/grad"(%a, %a) {} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    pdc.yield %0 : tensor<2x2xf32>
  }
  %g = pdc.unit "norm/grad" origin "norm" backward microbatch (%a = %dy : tensor<2x2xf32>, %b = %d : tensor<2x2xf32>, %c = %scale : tensor<2xf32>, %e = %n#3 : tensor<2xf32>, %f = %n#4 : tensor<2xf32>) -> (tensor<2xf32>) attributes {kernel = #norm, stage = 0 : i64} {
    %0:3 = pdc.node "BatchNormalizationGrad" "norm/grad"(%a, %b, %c, %e, %f) {} : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>)
    pdc.yield %0#1 : tensor<2xf32>
  }
  pdc.accumulate %g into @"scale/gradient" : tensor<2xf32>
  %sum = pdc.read @"scale/gradient" : tensor<2xf32>
  %next = pdc.unit "scale/update" origin "norm" update update (%a = %scale : tensor<2xf32>, %b = %sum : tensor<2xf32>, %c = %rate : tensor<f32>) -> (tensor<2xf32>) attributes {kernel = #loops, stage = 0 : i64} {
    %0 = pdc.node "SgdUpdate" "scale/update"(%a, %b, %c, %c) {weight_decay = 0.0 : f64} : (tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<f32>) -> tensor<2xf32>
    pdc.yield %0 : tensor<2xf32>
  }
  pdc.commit %next to @scale : tensor<2xf32>
  return
}
