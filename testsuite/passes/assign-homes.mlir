// RUN: pdc-opt %s --assign-homes | FileCheck %s

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>
#sums = #pdc.kernel<"MatrixProduct", {}, workspace = 0, accumulates = true>
#plain = #pdc.kernel<"ColumnSum", {}, workspace = 0, accumulates = false>

pdc.program @rank_0 ranks [0] {
  // CHECK: pdc.memory @x input microbatch : tensor<4xf32> {home = #pdc.home<"slots.0", -1, 16>}
  pdc.memory @x input microbatch : tensor<4xf32>
  // CHECK: pdc.memory @rate input update : tensor<f32> {home = #pdc.home<"fixed", -1, 4>}
  pdc.memory @rate input update : tensor<f32>
  // CHECK: pdc.memory @w weight version : tensor<4xf32> {depth = 1 : i64, home = #pdc.home<"fixed", -1, 16>}
  pdc.memory @w weight version : tensor<4xf32> {depth = 1 : i64}
  // CHECK: pdc.memory @stashed weight version : tensor<4xf32> {depth = 2 : i64, home = #pdc.home<"versions", -1, 16>}
  pdc.memory @stashed weight version : tensor<4xf32> {depth = 2 : i64}
  pdc.memory @"w/gradient" gradient update : tensor<4xf32>
  pdc.memory @"stashed/gradient" gradient update : tensor<4xf32>
  pdc.memory @kept activation microbatch : tensor<4xf32>
  pdc.memory @in inbox microbatch : tensor<4xf32> {transfers = [#pdc.transfer<tag = 0, from = 1, to = 0>]}
  pdc.memory @out outbox microbatch : tensor<4xf32> {transfers = [#pdc.transfer<tag = 1, from = 0, to = 1>]}
  pdc.stage 0 {
    pdc.task prepare {
    }
    // CHECK: pdc.task forward
    pdc.task forward {
      %x = pdc.read @x : tensor<4xf32>
      // Never over an input, whose next reader may be another task.
      // CHECK: pdc.unit "a" {{.*}} attributes {homes = [#pdc.home<"slots.0", -1, 16>], kernel
      %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        pdc.yield %0 : tensor<4xf32>
      }
      // Not over what the backward task reads.
      // CHECK: pdc.unit "b" {{.*}} attributes {homes = [#pdc.home<"slots.0", -1, 16>], kernel
      %b = pdc.unit "b" origin "b" forward microbatch (%0 = %a : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        pdc.yield %0 : tensor<4xf32>
      }
      pdc.write %a to @kept : tensor<4xf32>
      // Nobody reads "b" any more: its bytes become the outbox.
      // CHECK: pdc.unit "c" {{.*}} in_place = array<i64: 0, 0>
      %c = pdc.unit "c" origin "c" forward microbatch (%0 = %b : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        pdc.yield %0 : tensor<4xf32>
      }
      pdc.write %c to @out : tensor<4xf32>
    }
    // CHECK: pdc.task backward
    pdc.task backward {
      %g = pdc.read @in : tensor<4xf32>
      %kept = pdc.read @kept : tensor<4xf32>
      // "in" is read again below, "kept" is not.
      // CHECK: pdc.unit "d" {{.*}} in_place = array<i64: 1, 0>
      %d = pdc.unit "d" origin "a" backward microbatch (%0 = %g : tensor<4xf32>, %1 = %kept : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        pdc.yield %0 : tensor<4xf32>
      }
      // A kernel that adds writes the sum itself.
      // CHECK: pdc.unit "dw" {{.*}} attributes {homes = [#pdc.home<"fixed", -1, 16>], kernel
      %dw = pdc.unit "dw" origin "a" backward microbatch (%0 = %d : tensor<4xf32>, %1 = %g : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #sums} {
        pdc.yield %0 : tensor<4xf32>
      }
      // CHECK: pdc.accumulate %{{.*}} into @"w/gradient" {fused}
      pdc.accumulate %dw into @"w/gradient" : tensor<4xf32>
      // One that does not leaves its result in scratch; it offers no place to share.
      // CHECK: pdc.unit "ds" {{.*}} attributes {homes = [#pdc.home<"scratch", -1, 16>], kernel
      %ds = pdc.unit "ds" origin "a" backward microbatch (%0 = %g : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #plain} {
        pdc.yield %0 : tensor<4xf32>
      }
      // CHECK: pdc.accumulate %{{.*}} into @"stashed/gradient" :
      pdc.accumulate %ds into @"stashed/gradient" : tensor<4xf32>
    }
    // CHECK: pdc.task update
    pdc.task update {
      %w = pdc.weight_version @w latest : tensor<4xf32>
      %g = pdc.read @"w/gradient" : tensor<4xf32>
      // CHECK: pdc.unit "w/update" {{.*}}homes = [#pdc.home<"fixed", -1, 16>], in_place = array<i64: 0, 0>
      %n = pdc.unit "w/update" origin "a" update update (%0 = %w : tensor<4xf32>, %1 = %g : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        pdc.yield %0 : tensor<4xf32>
      }
      pdc.commit %n to @w : tensor<4xf32>
      %v = pdc.weight_version @stashed latest : tensor<4xf32>
      %h = pdc.read @"stashed/gradient" : tensor<4xf32>
      // The older version stays: not in place.
      // CHECK: pdc.unit "stashed/update" {{.*}} attributes {homes = [#pdc.home<"versions", -1, 16>], kernel
      %m = pdc.unit "stashed/update" origin "a" update update (%0 = %v : tensor<4xf32>, %1 = %h : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        pdc.yield %0 : tensor<4xf32>
      }
      pdc.commit %m to @stashed : tensor<4xf32>
    }
    pdc.task evaluate {
    }
  }
}
