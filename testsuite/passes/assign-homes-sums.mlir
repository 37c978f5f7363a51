// RUN: pdc-opt %s --assign-homes | FileCheck %s

// Several uses of @w and @v add to one sum each.

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>
#sums = #pdc.kernel<"MatrixProduct", {}, workspace = 0, accumulates = true>

pdc.program @rank_0 ranks [0] {
  pdc.memory @x input microbatch : tensor<4xf32>
  pdc.memory @"w/gradient" gradient update : tensor<4xf32>
  pdc.memory @"v/gradient" gradient update : tensor<4xf32>
  pdc.stage 0 {
    // CHECK: pdc.task backward_input
    pdc.task backward_input {
      %x = pdc.read @x : tensor<4xf32>
      // The first begins the sum. What it adds stands right behind it.
      // CHECK: %[[A:.*]] = pdc.unit "a"
      // CHECK-NEXT: pdc.yield
      // CHECK-NEXT: }
      // CHECK-NEXT: pdc.accumulate %[[A]] into @"w/gradient" {fused} :
      %a = pdc.unit "a" origin "a" backward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #sums} {
        pdc.yield %0 : tensor<4xf32>
      }
      // CHECK: %[[B:.*]] = pdc.unit "b"
      %b = pdc.unit "b" origin "b" backward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #sums} {
        pdc.yield %0 : tensor<4xf32>
      }
      // CHECK: pdc.accumulate %[[B]] into @"w/gradient" {continues, fused} :
      pdc.accumulate %b into @"w/gradient" : tensor<4xf32>
      pdc.accumulate %a into @"w/gradient" : tensor<4xf32>
    }
    // CHECK: pdc.task backward_weight
    pdc.task backward_weight {
      %x = pdc.read @x : tensor<4xf32>
      // A kernel with one flag for both sums cannot begin one and continue the other.
      // CHECK: %[[C:.*]]:2 = pdc.unit "c" {{.*}}homes = [#pdc.home<"scratch", -1, 16>, #pdc.home<"scratch", -1, 16>]
      // CHECK: pdc.accumulate %[[C]]#0 into @"w/gradient" {continues} :
      // CHECK: pdc.accumulate %[[C]]#1 into @"v/gradient" :
      %c:2 = pdc.unit "c" origin "c" backward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {kernel = #sums} {
        pdc.yield %0, %0 : tensor<4xf32>, tensor<4xf32>
      }
      pdc.accumulate %c#0 into @"w/gradient" : tensor<4xf32>
      pdc.accumulate %c#1 into @"v/gradient" : tensor<4xf32>
      // Both continue.
      // CHECK: %[[D:.*]]:2 = pdc.unit "d" {{.*}}homes = [#pdc.home<"fixed", -1, 16>, #pdc.home<"fixed", -1, 16>]
      // CHECK: pdc.accumulate %[[D]]#0 into @"w/gradient" {continues, fused} :
      // CHECK: pdc.accumulate %[[D]]#1 into @"v/gradient" {continues, fused} :
      %d:2 = pdc.unit "d" origin "d" backward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {kernel = #sums} {
        pdc.yield %0, %0 : tensor<4xf32>, tensor<4xf32>
      }
      pdc.accumulate %d#0 into @"w/gradient" : tensor<4xf32>
      pdc.accumulate %d#1 into @"v/gradient" : tensor<4xf32>
      // A loop adds nothing by itself.
      // CHECK: %[[E:.*]] = pdc.unit "e"
      // CHECK: pdc.accumulate %[[E]] into @"w/gradient" {continues} :
      %e = pdc.unit "e" origin "e" backward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
        pdc.yield %0 : tensor<4xf32>
      }
      pdc.accumulate %e into @"w/gradient" : tensor<4xf32>
    }
  }
}
