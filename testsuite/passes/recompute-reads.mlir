// RUN: pdc-opt %s --outline-programs --recompute | FileCheck %s
// RUN: pdc-opt %s --outline-programs --recompute --check-against %s -o /dev/null

// Two units that run again read one memory, each by a read of its own: the first read serves both.

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>
#drop = #pdc.kernel<"Dropout", {}, workspace = 0, accumulates = false>

pdc.memory @x input microbatch : tensor<2x2xf32>
pdc.memory @pdc.random input microbatch : tensor<4xi64>
pdc.memory @"w/gradient" gradient update : tensor<2x2xf32>
pdc.memory @pdc.loss metric update : tensor<f32>

// CHECK:      pdc.task backward {
// CHECK:        %[[RANDOM:.*]] = pdc.read @pdc.random
// CHECK-NEXT:   %[[FIRST:.*]] = pdc.unit "first" {{.*}} = %[[RANDOM]]
// CHECK-NOT:    pdc.read
// CHECK:        %[[SECOND:.*]] = pdc.unit "second" {{.*}} = %[[FIRST]] : {{.*}} = %[[RANDOM]]
// CHECK:        pdc.unit "grad" {{.*}} = %[[FIRST]] : {{.*}} = %[[SECOND]]

func.func @train() {
  %x = pdc.read @x : tensor<2x2xf32>
  %early = pdc.read @pdc.random : tensor<4xi64>
  %f = pdc.unit "first" origin "first" forward microbatch (%a = %x : tensor<2x2xf32>, %b = %early : tensor<4xi64>) -> (tensor<2x2xf32>) attributes {kernel = #drop, stage = 0 : i64} {
    %0 = pdc.node "Dropout" "first"(%a, %b) {ratio = 0.25 : f64, key = 7 : i64} : (tensor<2x2xf32>, tensor<4xi64>) -> tensor<2x2xf32>
    pdc.yield %0 : tensor<2x2xf32>
  }
  %late = pdc.read @pdc.random : tensor<4xi64>
  %s = pdc.unit "second" origin "second" forward microbatch (%a = %f : tensor<2x2xf32>, %b = %late : tensor<4xi64>) -> (tensor<2x2xf32>) attributes {kernel = #drop, stage = 0 : i64} {
    %0 = pdc.node "Dropout" "second"(%a, %b) {ratio = 0.5 : f64, key = 8 : i64} : (tensor<2x2xf32>, tensor<4xi64>) -> tensor<2x2xf32>
    pdc.yield %0 : tensor<2x2xf32>
  }
  %loss = pdc.unit "loss" origin "loss" forward microbatch (%a = %s : tensor<2x2xf32>) -> (tensor<f32>) attributes {kernel = #loops, stage = 0 : i64} {
    %0 = pdc.node "ReduceSum" "loss"(%a) {keepdims = 0 : i64} : (tensor<2x2xf32>) -> tensor<f32>
    pdc.yield %0 : tensor<f32>
  }
  pdc.accumulate %loss into @pdc.loss : tensor<f32>
  %g = pdc.unit "grad" origin "loss" backward microbatch (%a = %f : tensor<2x2xf32>, %b = %s : tensor<2x2xf32>) -> (tensor<2x2xf32>) attributes {kernel = #loops, stage = 0 : i64} {
    %0 = pdc.node "Mul" "grad"(%a, %b) {} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    pdc.yield %0 : tensor<2x2xf32>
  }
  pdc.accumulate %g into @"w/gradient" : tensor<2x2xf32>
  return
}
