// RUN: pdc-opt %s --fuse-rows -split-input-file | FileCheck %s --implicit-check-not addend --implicit-check-not keepsSum --implicit-check-not sumsBias --implicit-check-not "terms ="

// What no kernel reads so, and a sum that reads a memory which is stored to before its rows are normalised, are left alone.
// CHECK: pdc.unit "p" origin
#scale = #pdc.kernel<"LayerNormalizationScaleGradient", {rows = 3 : i64, size = 8 : i64}, workspace = 64, accumulates = true>
#sum = #pdc.kernel<"ColumnSum", {input = array<i64: 3, 8>, layout = ""}, workspace = 64, accumulates = true>
module {
pdc.program @rank_0 ranks [0] {
  pdc.memory @a inbox microbatch : tensor<3x8xf32>
  pdc.memory @"s/gradient" gradient update : tensor<8xf32>
  pdc.memory @"t/gradient" gradient update : tensor<8xf32>
  pdc.stage 0 {
    pdc.task backward {
      %a = pdc.read @a : tensor<3x8xf32>
      %p = pdc.unit "p" origin "norm" backward_weight microbatch () -> (tensor<8xf32>) attributes {kernel = #scale, stage = 0 : i64} {
        %n = pdc.node "Constant" "c"() {value = dense<0.0> : tensor<8xf32>} phase backward_weight rate microbatch : () -> tensor<8xf32>
        pdc.yield %n : tensor<8xf32>
      }
      pdc.accumulate %p into @"s/gradient" : tensor<8xf32>
      %q = pdc.unit "q" origin "norm" backward_weight microbatch (%0 = %a : tensor<3x8xf32>) -> (tensor<8xf32>) attributes {kernel = #sum, stage = 0 : i64} {
        %axes = pdc.node "Constant" "axes"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
        %n = pdc.node "ReduceSum" "bias/grad"(%0, %axes) {keepdims = 0 : i64} origin "norm" phase backward_weight rate microbatch : (tensor<3x8xf32>, tensor<1xi64>) -> tensor<8xf32>
        pdc.yield %n : tensor<8xf32>
      }
      pdc.accumulate %q into @"t/gradient" : tensor<8xf32>
    }
  }
}
}

// -----
// CHECK: pdc.unit "input" origin
#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>
#input = #pdc.kernel<"LayerNormalizationInputGradient", {rows = 3 : i64, size = 8 : i64}, workspace = 0, accumulates = false>
module {
pdc.program @rank_0 ranks [0] {
  pdc.memory @a inbox microbatch : tensor<3x8xf32>
  pdc.memory @b inbox microbatch : tensor<3x8xf32>
  pdc.memory @z outbox microbatch : tensor<3x8xf32>
  pdc.memory @y outbox microbatch : tensor<3x8xf32>
  pdc.stage 0 {
    pdc.task backward {
      %a = pdc.read @a : tensor<3x8xf32>
      %b = pdc.read @b : tensor<3x8xf32>
      %c = pdc.unit "sum" origin "sum" backward_input microbatch (%0 = %a : tensor<3x8xf32>, %1 = %b : tensor<3x8xf32>) -> (tensor<3x8xf32>) attributes {kernel = #loops, stage = 0 : i64} {
        %g = pdc.node "Add" "sum"(%0, %1) {} phase backward_input rate microbatch : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
        pdc.yield %g : tensor<3x8xf32>
      }
      %d:2 = pdc.unit "input" origin "norm" backward_input microbatch (%0 = %c : tensor<3x8xf32>) -> (tensor<3x8xf32>,tensor<3x8xf32>) attributes {kernel = #input, stage = 0 : i64} {
        %n = pdc.node "Neg" "input"(%0) {} phase backward_input rate microbatch : (tensor<3x8xf32>) -> tensor<3x8xf32>
        %m = pdc.node "Neg" "input2"(%0) {} phase backward_input rate microbatch : (tensor<3x8xf32>) -> tensor<3x8xf32>
        pdc.yield %n, %m : tensor<3x8xf32>, tensor<3x8xf32>
      }
      pdc.write %d#0 to @z : tensor<3x8xf32>
      pdc.write %d#1 to @y : tensor<3x8xf32>
    }
  }
}
}

// -----
// CHECK: pdc.write %{{.*}} to @h
// CHECK: pdc.unit "norm" origin
#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>
#rows = #pdc.kernel<"LayerNormalization", {epsilon = 1.000000e-05 : f64, rows = 3 : i64, size = 8 : i64}, workspace = 0, accumulates = false>
module {
pdc.program @rank_0 ranks [0] {
  pdc.memory @a input microbatch : tensor<3x8xf32>
  pdc.memory @h state microbatch : tensor<3x8xf32>
  pdc.memory @s weight version : tensor<8xf32>
  pdc.memory @y metric update : tensor<3x8xf32>
  pdc.stage 0 {
    pdc.task forward {
      %a = pdc.read @a : tensor<3x8xf32>
      %h = pdc.read @h : tensor<3x8xf32>
      %s = pdc.weight_version @s latest : tensor<8xf32>
      %c = pdc.unit "sum" origin "sum" forward microbatch (%0 = %a : tensor<3x8xf32>, %1 = %h : tensor<3x8xf32>) -> (tensor<3x8xf32>) attributes {kernel = #loops, stage = 0 : i64} {
        %g = pdc.node "Add" "sum"(%0, %1) {} phase forward rate microbatch : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
        pdc.yield %g : tensor<3x8xf32>
      }
      %k = pdc.unit "next" origin "next" forward microbatch (%0 = %a : tensor<3x8xf32>) -> (tensor<3x8xf32>) attributes {kernel = #loops, stage = 0 : i64} {
        %g = pdc.node "Neg" "next"(%0) {} phase forward rate microbatch : (tensor<3x8xf32>) -> tensor<3x8xf32>
        pdc.yield %g : tensor<3x8xf32>
      }
      pdc.write %k to @h : tensor<3x8xf32>
      %n = pdc.unit "norm" origin "norm" forward microbatch (%0 = %c : tensor<3x8xf32>, %1 = %s : tensor<8xf32>, %2 = %s : tensor<8xf32>) -> (tensor<3x8xf32>) attributes {kernel = #rows, stage = 0 : i64} {
        %g:3 = pdc.node "LayerNormalization" "norm"(%0, %1, %2) {} phase forward rate microbatch : (tensor<3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<3x8xf32>, tensor<3x1xf32>, tensor<3x1xf32>)
        pdc.yield %g#0 : tensor<3x8xf32>
      }
      pdc.accumulate %n into @y : tensor<3x8xf32>
    }
  }
}
}
