// A unit that runs again in a backward task shares the kernel of its first run, unless the two are of other kernels: where
// its second run keeps less.
// RUN: pdc-opt %s --name-values | FileCheck %s

#same = #pdc.kernel<"Relu", {size = 4 : i64}, workspace = 0, accumulates = false>
#keeps = #pdc.kernel<"LayerNormalization", {addend = 1 : i64, keepsSum = 1 : i64, rows = 2 : i64, size = 2 : i64}, workspace = 0, accumulates = false>
#alone = #pdc.kernel<"LayerNormalization", {addend = 1 : i64, rows = 2 : i64, size = 2 : i64}, workspace = 0, accumulates = false>

pdc.program @rank_0 ranks [0] {
  pdc.memory @x input microbatch : tensor<2x2xf32>
  pdc.memory @y activation microbatch : tensor<2x2xf32>
  pdc.memory @z activation microbatch : tensor<2x2xf32>
  pdc.stage 0 {
    // CHECK-LABEL: pdc.task forward
    // CHECK: pdc.unit "same"{{.*}} variable = "same"
    // CHECK: pdc.unit "other"{{.*}} variable = "other"
    pdc.task forward {
      %x = pdc.read @x : tensor<2x2xf32>
      %a = pdc.unit "same" origin "same" forward microbatch (%0 = %x : tensor<2x2xf32>) -> (tensor<2x2xf32>) attributes {kernel = #same} {
        %n = pdc.node "Relu" "same"(%0) {} phase forward rate microbatch : (tensor<2x2xf32>) -> tensor<2x2xf32>
        pdc.yield %n : tensor<2x2xf32>
      }
      %b = pdc.unit "other" origin "other" forward microbatch (%0 = %a : tensor<2x2xf32>) -> (tensor<2x2xf32>) attributes {kernel = #keeps} {
        %n = pdc.node "Relu" "other"(%0) {} phase forward rate microbatch : (tensor<2x2xf32>) -> tensor<2x2xf32>
        pdc.yield %n : tensor<2x2xf32>
      }
      pdc.write %b to @y : tensor<2x2xf32>
    }
    // CHECK-LABEL: pdc.task backward
    // CHECK: pdc.unit "same"{{.*}} variable = "same"
    // CHECK: pdc.unit "other"{{.*}} variable = "recomputed_other"
    pdc.task backward {
      %x = pdc.read @x : tensor<2x2xf32>
      %a = pdc.unit "same" origin "same" forward microbatch (%0 = %x : tensor<2x2xf32>) -> (tensor<2x2xf32>) attributes {kernel = #same} {
        %n = pdc.node "Relu" "same"(%0) {} phase forward rate microbatch : (tensor<2x2xf32>) -> tensor<2x2xf32>
        pdc.yield %n : tensor<2x2xf32>
      }
      %b = pdc.unit "other" origin "other" forward microbatch (%0 = %a : tensor<2x2xf32>) -> (tensor<2x2xf32>) attributes {kernel = #alone} {
        %n = pdc.node "Relu" "other"(%0) {} phase forward rate microbatch : (tensor<2x2xf32>) -> tensor<2x2xf32>
        pdc.yield %n : tensor<2x2xf32>
      }
      pdc.write %b to @z : tensor<2x2xf32>
    }
  }
}
