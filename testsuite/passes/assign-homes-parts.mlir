// RUN: pdc-opt %s --assign-homes | FileCheck %s

// Parts that follow each other in the bytes of a whole lie in it, and their unit has no kernel.

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>
#split = #pdc.kernel<"Split", {blockBytes = array<i64: 64, 128>, outer = 1 : i64, results = array<i64: 0, 1>}, workspace = 0, accumulates = false>
#concat = #pdc.kernel<"Concat", {blockBytes = array<i64: 64, 128>, outer = 1 : i64}, workspace = 0, accumulates = false>

pdc.program @rank_0 ranks [0] {
  pdc.memory @x input microbatch : tensor<3x16xf32>
  pdc.memory @out outbox microbatch : tensor<3x16xf32> {transfers = [#pdc.transfer<tag = 1, from = 0, to = 1>]}
  pdc.stage 0 {
    pdc.task prepare {
    }
    pdc.task forward {
      %x = pdc.read @x : tensor<3x16xf32>
      // CHECK: pdc.unit "split"
      // CHECK-SAME: homes = [#pdc.home<"slots.0", -1, 64>, #pdc.home<"slots.0", -1, 128>]
      // CHECK-SAME: parts = array<i64: 0, 64>
      %p:2 = pdc.unit "split" origin "split" forward microbatch (%0 = %x : tensor<3x16xf32>) -> (tensor<1x16xf32>, tensor<2x16xf32>) attributes {kernel = #split} {
        %s = pdc.node "Constant" "sizes"() {value = dense<[1, 2]> : tensor<2xi64>} phase forward rate once : () -> tensor<2xi64>
        %a, %b = pdc.node "Split" "split"(%0, %s) {axis = 0 : i64} phase forward rate microbatch : (tensor<3x16xf32>, tensor<2xi64>) -> (tensor<1x16xf32>, tensor<2x16xf32>)
        pdc.yield %a, %b : tensor<1x16xf32>, tensor<2x16xf32>
      }
      // What is joined is made in the outbox.
      // CHECK: pdc.unit "first" {{.*}}#pdc.home<"slots.0", -1, 64>
      %first = pdc.unit "first" origin "first" forward microbatch (%0 = %p#0 : tensor<1x16xf32>) -> (tensor<1x16xf32>) attributes {kernel = #loops} {
        pdc.yield %0 : tensor<1x16xf32>
      }
      // CHECK: pdc.unit "second" {{.*}}#pdc.home<"slots.0", -1, 128>
      %second = pdc.unit "second" origin "second" forward microbatch (%0 = %p#1 : tensor<2x16xf32>) -> (tensor<2x16xf32>) attributes {kernel = #loops} {
        pdc.yield %0 : tensor<2x16xf32>
      }
      // CHECK: pdc.unit "joined"
      // CHECK-SAME: homes = [#pdc.home<"slots.0", -1, 192>]
      // CHECK-SAME: parts = array<i64: 0, 64>
      %joined = pdc.unit "joined" origin "joined" forward microbatch (%0 = %first : tensor<1x16xf32>, %1 = %second : tensor<2x16xf32>) -> (tensor<3x16xf32>) attributes {kernel = #concat} {
        %c = pdc.node "Concat" "joined"(%0, %1) {axis = 0 : i64} phase forward rate microbatch : (tensor<1x16xf32>, tensor<2x16xf32>) -> tensor<3x16xf32>
        pdc.yield %c : tensor<3x16xf32>
      }
      pdc.write %joined to @out : tensor<3x16xf32>
      // A part of one whole is never one of another, nor twice in one.
      // CHECK: pdc.unit "again"
      // CHECK-SAME: kernel = #pdc.kernel<"Concat"
      %again = pdc.unit "again" origin "again" forward microbatch (%0 = %first : tensor<1x16xf32>, %1 = %second : tensor<2x16xf32>) -> (tensor<3x16xf32>) attributes {kernel = #concat} {
        %c = pdc.node "Concat" "again"(%0, %1) {axis = 0 : i64} phase forward rate microbatch : (tensor<1x16xf32>, tensor<2x16xf32>) -> tensor<3x16xf32>
        pdc.yield %c : tensor<3x16xf32>
      }
      // Along another dimension parts are not whole pieces.
      // CHECK: pdc.unit "columns"
      // CHECK-SAME: kernel = #pdc.kernel<"Split"
      %q:2 = pdc.unit "columns" origin "columns" forward microbatch (%0 = %again : tensor<3x16xf32>) -> (tensor<3x8xf32>, tensor<3x8xf32>) attributes {kernel = #split} {
        %s = pdc.node "Constant" "halves"() {value = dense<[8, 8]> : tensor<2xi64>} phase forward rate once : () -> tensor<2xi64>
        %a, %b = pdc.node "Split" "columns"(%0, %s) {axis = 1 : i64} phase forward rate microbatch : (tensor<3x16xf32>, tensor<2xi64>) -> (tensor<3x8xf32>, tensor<3x8xf32>)
        pdc.yield %a, %b : tensor<3x8xf32>, tensor<3x8xf32>
      }
    }
  }
}
