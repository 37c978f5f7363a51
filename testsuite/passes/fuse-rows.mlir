// RUN: pdc-opt %s --fuse-rows | FileCheck %s
// RUN: sed 's/^module {/module attributes {pdc.measures_units} {/' %s | pdc-opt --fuse-rows | FileCheck %s --check-prefix=APART --implicit-check-not addend --implicit-check-not keepsSum --implicit-check-not sumsBias --implicit-check-not "terms =" --implicit-check-not ReluGradientSum

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>
#rows = #pdc.kernel<"LayerNormalization", {epsilon = 1.000000e-05 : f64, rows = 3 : i64, size = 8 : i64}, workspace = 0, accumulates = false>
#input = #pdc.kernel<"LayerNormalizationInputGradient", {epsilon = 1.000000e-05 : f64, rows = 3 : i64, size = 8 : i64}, workspace = 0, accumulates = false>
#scale = #pdc.kernel<"LayerNormalizationScaleGradient", {epsilon = 1.000000e-05 : f64, rows = 3 : i64, size = 8 : i64}, workspace = 64, accumulates = true>
#sum = #pdc.kernel<"ColumnSum", {input = array<i64: 3, 8>, layout = ""}, workspace = 64, accumulates = true>

// APART: pdc.unit "scale/grad" origin

module {
pdc.program @rank_0 ranks [0] {
  pdc.memory @a inbox microbatch : tensor<3x8xf32>
  pdc.memory @b inbox microbatch : tensor<3x8xf32>
  pdc.memory @s weight version : tensor<8xf32>
  pdc.memory @c activation microbatch : tensor<3x8xf32>
  pdc.memory @d activation microbatch : tensor<3x8xf32>
  pdc.memory @m activation microbatch : tensor<3x1xf32>
  pdc.memory @i activation microbatch : tensor<3x1xf32>
  pdc.memory @y outbox microbatch : tensor<3x8xf32>
  pdc.memory @z outbox microbatch : tensor<3x8xf32>
  pdc.memory @"s/gradient" gradient update : tensor<8xf32>
  pdc.memory @"t/gradient" gradient update : tensor<8xf32>
  pdc.memory @"u/gradient" gradient update : tensor<8xf32>
  pdc.memory @v outbox microbatch : tensor<3x8xf32>
  pdc.memory @w outbox microbatch : tensor<3x8xf32>
  pdc.memory @o outbox microbatch : tensor<3x8xf32>
  pdc.stage 0 {
    // The sum is stored, which waits for it. One that another unit reads before is left alone.
    // CHECK-LABEL: pdc.task forward
    // CHECK:      %[[S:.*]] = pdc.weight_version @s
    // CHECK:      %[[U:.*]]:4 = pdc.unit "sum+norm" origin "sum+norm" forward microbatch (%{{.*}} = %[[A:.*]] : tensor<3x8xf32>, %{{.*}} = %[[B:.*]] : tensor<3x8xf32>, %{{.*}} = %[[S]] : tensor<8xf32>, %{{.*}} = %[[S]] : tensor<8xf32>)
    // CHECK-SAME: in_place = array<i64: 0, 0, 0, 1, 1, 0, 1, 1>, kernel = #pdc.kernel<"LayerNormalization", {addend = 1 : i64, epsilon = 1.000000e-05 : f64, keepsSum = 1 : i64, rows = 3 : i64, size = 8 : i64}
    // CHECK-NEXT:   %[[C:.*]] = pdc.node "Add" "sum"
    // CHECK-NEXT:   %[[N:.*]]:3 = pdc.node "LayerNormalization" "norm"(%[[C]],
    // CHECK-NEXT:   pdc.yield %[[C]], %[[N]]#0, %[[N]]#1, %[[N]]#2
    // CHECK:      pdc.write %[[U]]#0 to @c
    // CHECK:      pdc.write %[[U]]#1 to @y
    // CHECK:      pdc.unit "early" origin
    // CHECK:      pdc.unit "first" origin
    // CHECK:      pdc.unit "late" origin "late" forward
    pdc.task forward {
      %a = pdc.read @a : tensor<3x8xf32>
      %b = pdc.read @b : tensor<3x8xf32>
      %c = pdc.unit "sum" origin "sum" forward microbatch (%0 = %a : tensor<3x8xf32>, %1 = %b : tensor<3x8xf32>) -> (tensor<3x8xf32>) attributes {kernel = #loops, stage = 0 : i64} {
        %g = pdc.node "Add" "sum"(%0, %1) {} phase forward rate microbatch : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
        pdc.yield %g : tensor<3x8xf32>
      }
      pdc.write %c to @c : tensor<3x8xf32>
      %s = pdc.weight_version @s latest : tensor<8xf32>
      %n:3 = pdc.unit "norm" origin "norm" forward microbatch (%0 = %c : tensor<3x8xf32>, %1 = %s : tensor<8xf32>, %2 = %s : tensor<8xf32>) -> (tensor<3x8xf32>, tensor<3x1xf32>, tensor<3x1xf32>) attributes {kernel = #rows, stage = 0 : i64} {
        %g:3 = pdc.node "LayerNormalization" "norm"(%0, %1, %2) {} phase forward rate microbatch : (tensor<3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<3x8xf32>, tensor<3x1xf32>, tensor<3x1xf32>)
        pdc.yield %g#0, %g#1, %g#2 : tensor<3x8xf32>, tensor<3x1xf32>, tensor<3x1xf32>
      }
      pdc.write %n#0 to @y : tensor<3x8xf32>
      pdc.write %n#1 to @m : tensor<3x1xf32>
      pdc.write %n#2 to @i : tensor<3x1xf32>
      %d = pdc.unit "early" origin "early" forward microbatch (%0 = %a : tensor<3x8xf32>, %1 = %b : tensor<3x8xf32>) -> (tensor<3x8xf32>) attributes {kernel = #loops, stage = 0 : i64} {
        %g = pdc.node "Add" "early"(%0, %1) {} phase forward rate microbatch : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
        pdc.yield %g : tensor<3x8xf32>
      }
      %e = pdc.unit "first" origin "first" forward microbatch (%0 = %d : tensor<3x8xf32>) -> (tensor<3x8xf32>) attributes {kernel = #loops, stage = 0 : i64} {
        %g = pdc.node "Neg" "first"(%0) {} phase forward rate microbatch : (tensor<3x8xf32>) -> tensor<3x8xf32>
        pdc.yield %g : tensor<3x8xf32>
      }
      pdc.write %e to @d : tensor<3x8xf32>
      %o = pdc.unit "late" origin "late" forward microbatch (%0 = %d : tensor<3x8xf32>, %1 = %s : tensor<8xf32>, %2 = %s : tensor<8xf32>) -> (tensor<3x8xf32>) attributes {kernel = #rows, stage = 0 : i64} {
        %g:3 = pdc.node "LayerNormalization" "late"(%0, %1, %2) {} phase forward rate microbatch : (tensor<3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<3x8xf32>, tensor<3x1xf32>, tensor<3x1xf32>)
        pdc.yield %g#0 : tensor<3x8xf32>
      }
      pdc.write %o to @z : tensor<3x8xf32>
    }
    // What arrives is a sum, which the scale's gradient reads as well; the bias's comes with that. Behind another gradient
    // stands a sum.
    // CHECK-LABEL: pdc.task backward
    // CHECK:      %[[D:.*]]:2 = pdc.unit "arriving+input" origin "norm" backward_input
    // CHECK-SAME: in_place = array<i64: 0, 0, 0, 1, 1, 0, 1, 1>, kernel = #pdc.kernel<"LayerNormalizationInputGradient", {epsilon = 1.000000e-05 : f64, keepsSum = 1 : i64, rows = 3 : i64, size = 8 : i64, terms = 2 : i64}
    // CHECK-NEXT:   %[[G:.*]] = pdc.node "Sum" "arriving"
    // CHECK-NEXT:   %[[X:.*]] = pdc.node "LayerNormalizationInputGrad" "input"(%[[G]],
    // CHECK-NEXT:   pdc.yield %[[G]], %[[X]]
    // CHECK:      %[[E:.*]]:2 = pdc.unit "scale/grad+bias/grad" origin "norm" backward_weight microbatch (%{{.*}} = %[[D]]#0
    // CHECK-SAME: kernel = #pdc.kernel<"LayerNormalizationScaleGradient", {epsilon = 1.000000e-05 : f64, rows = 3 : i64, size = 8 : i64, sumsBias = 1 : i64}, workspace = {{.*}}, accumulates = true>
    // CHECK-NEXT:   %[[P:.*]] = pdc.node "LayerNormalizationScaleGrad"
    // CHECK:        %[[Q:.*]] = pdc.node "ReduceSum" "bias/grad"
    // CHECK-NEXT:   pdc.yield %[[P]], %[[Q]]
    // CHECK:      pdc.accumulate %[[E]]#0 into @"s/gradient"
    // CHECK-NEXT: pdc.accumulate %[[E]]#1 into @"t/gradient"
    // CHECK:      pdc.unit "again+behind" origin "a" backward_input microbatch (%{{.*}} = %[[D]]#1
    // CHECK-SAME: in_place = array<i64: 0, 0, 5, 0>, kernel = #pdc.kernel<"LayerNormalizationInputGradient", {addend = 1 : i64, epsilon
    // CHECK:      %[[R:.*]]:2 = pdc.unit "relu/grad+u/grad" origin "relu" backward_weight microbatch (%{{.*}} = %{{.*}} : tensor<3x8xf32>, %{{.*}} = %{{.*}} : tensor<3x8xf32>) -> (tensor<3x8xf32>, tensor<8xf32>)
    // CHECK-SAME: in_place = array<i64: 0, 0, 1, 0>, kernel = #pdc.kernel<"ReluGradientSum", {input = array<i64: 3, 8>, layout = ""}, workspace = 32, accumulates = true adds_to_last = true>
    // CHECK:      pdc.accumulate %[[R]]#1 into @"u/gradient"
    // CHECK:      pdc.write %[[R]]#0 to @v
    // Both: several terms arrive, whose sum is kept, and a sum stands behind the gradient.
    // CHECK:      %[[F:.*]]:2 = pdc.unit "three+third+skip" origin "a" backward_input microbatch (%{{.*}} = %[[A:.*]] : tensor<3x8xf32>, %{{.*}} = %{{.*}} : tensor<3x8xf32>, %{{.*}} = %{{.*}} : tensor<3x8xf32>, %{{.*}}, %{{.*}} = %[[A]] : tensor<3x8xf32>) -> (tensor<3x8xf32>, tensor<3x8xf32>)
    // CHECK-SAME: in_place = array<i64: 0, 0, 0, 1, 1, 0, 1, 1, 2, 0, 2, 1, 7, 1>, kernel = #pdc.kernel<"LayerNormalizationInputGradient", {addend = 1 : i64, epsilon = 1.000000e-05 : f64, keepsSum = 1 : i64, rows = 3 : i64, size = 8 : i64, terms = 3 : i64}
    // CHECK-NEXT:   %[[T:.*]] = pdc.node "Sum" "three"
    // CHECK-NEXT:   %[[H:.*]] = pdc.node "LayerNormalizationInputGrad" "third"(%[[T]],
    // CHECK-NEXT:   %[[L:.*]] = pdc.node "Sum" "skip"(%{{.*}}, %[[H]])
    // CHECK-NEXT:   pdc.yield %[[T]], %[[L]]
    // CHECK:      pdc.write %[[F]]#0 to @o
    // CHECK:      pdc.write %[[F]]#1 to @w
    pdc.task backward {
      %a = pdc.read @a : tensor<3x8xf32>
      %b = pdc.read @b : tensor<3x8xf32>
      %c = pdc.read @c : tensor<3x8xf32>
      %s = pdc.weight_version @s latest : tensor<8xf32>
      %m = pdc.read @m : tensor<3x1xf32>
      %i = pdc.read @i : tensor<3x1xf32>
      %g = pdc.unit "arriving" origin "norm" backward_input microbatch (%0 = %a : tensor<3x8xf32>, %1 = %b : tensor<3x8xf32>) -> (tensor<3x8xf32>) attributes {kernel = #loops, stage = 0 : i64} {
        %n = pdc.node "Sum" "arriving"(%0, %1) {} origin "norm" phase backward_input rate microbatch : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
        pdc.yield %n : tensor<3x8xf32>
      }
      %d = pdc.unit "input" origin "norm" backward_input microbatch (%0 = %g : tensor<3x8xf32>, %1 = %c : tensor<3x8xf32>, %2 = %s : tensor<8xf32>, %3 = %m : tensor<3x1xf32>, %4 = %i : tensor<3x1xf32>) -> (tensor<3x8xf32>) attributes {kernel = #input, stage = 0 : i64} {
        %n = pdc.node "LayerNormalizationInputGrad" "input"(%0, %1, %2, %3, %4) {axis = -1 : i64} origin "norm" phase backward_input rate microbatch : (tensor<3x8xf32>, tensor<3x8xf32>, tensor<8xf32>, tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
        pdc.yield %n : tensor<3x8xf32>
      }
      %p = pdc.unit "scale/grad" origin "norm" backward_weight microbatch (%0 = %g : tensor<3x8xf32>, %1 = %c : tensor<3x8xf32>, %2 = %m : tensor<3x1xf32>, %3 = %i : tensor<3x1xf32>) -> (tensor<8xf32>) attributes {kernel = #scale, stage = 0 : i64} {
        %n = pdc.node "LayerNormalizationScaleGrad" "scale/grad"(%0, %1, %2, %3) {axis = -1 : i64, scale_shape = array<i64: 8>} origin "norm" phase backward_weight rate microbatch : (tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<8xf32>
        pdc.yield %n : tensor<8xf32>
      }
      pdc.accumulate %p into @"s/gradient" : tensor<8xf32>
      %q = pdc.unit "bias/grad" origin "norm" backward_weight microbatch (%0 = %g : tensor<3x8xf32>) -> (tensor<8xf32>) attributes {kernel = #sum, stage = 0 : i64} {
        %axes = pdc.node "Constant" "axes"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
        %n = pdc.node "ReduceSum" "bias/grad"(%0, %axes) {keepdims = 0 : i64} origin "norm" phase backward_weight rate microbatch : (tensor<3x8xf32>, tensor<1xi64>) -> tensor<8xf32>
        pdc.yield %n : tensor<8xf32>
      }
      pdc.accumulate %q into @"t/gradient" : tensor<8xf32>
      %e = pdc.unit "again" origin "a" backward_input microbatch (%0 = %d : tensor<3x8xf32>, %1 = %c : tensor<3x8xf32>, %2 = %s : tensor<8xf32>, %3 = %m : tensor<3x1xf32>, %4 = %i : tensor<3x1xf32>) -> (tensor<3x8xf32>) attributes {kernel = #input, stage = 0 : i64} {
        %n = pdc.node "LayerNormalizationInputGrad" "again"(%0, %1, %2, %3, %4) {axis = -1 : i64} origin "a" phase backward_input rate microbatch : (tensor<3x8xf32>, tensor<3x8xf32>, tensor<8xf32>, tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
        pdc.yield %n : tensor<3x8xf32>
      }
      %f = pdc.unit "behind" origin "a" backward_input microbatch (%0 = %a : tensor<3x8xf32>, %1 = %e : tensor<3x8xf32>) -> (tensor<3x8xf32>) attributes {kernel = #loops, stage = 0 : i64} {
        %n = pdc.node "Sum" "behind"(%0, %1) {} origin "a" phase backward_input rate microbatch : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
        pdc.yield %n : tensor<3x8xf32>
      }
      pdc.write %f to @z : tensor<3x8xf32>
      %r = pdc.unit "relu/grad" origin "relu" backward_input microbatch (%0 = %a : tensor<3x8xf32>, %1 = %c : tensor<3x8xf32>) -> (tensor<3x8xf32>) attributes {kernel = #loops, stage = 0 : i64} {
        %n = pdc.node "ReluGrad" "relu/grad"(%0, %1) {} origin "relu" phase backward_input rate microbatch : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
        pdc.yield %n : tensor<3x8xf32>
      }
      pdc.write %r to @v : tensor<3x8xf32>
      %u = pdc.unit "u/grad" origin "relu" backward_weight microbatch (%0 = %r : tensor<3x8xf32>) -> (tensor<8xf32>) attributes {kernel = #sum, stage = 0 : i64} {
        %n = pdc.node "ConvBiasGrad" "u/grad"(%0) {} origin "relu" phase backward_weight rate microbatch : (tensor<3x8xf32>) -> tensor<8xf32>
        pdc.yield %n : tensor<8xf32>
      }
      pdc.accumulate %u into @"u/gradient" : tensor<8xf32>
      %t = pdc.unit "three" origin "a" backward_input microbatch (%0 = %a : tensor<3x8xf32>, %1 = %b : tensor<3x8xf32>, %2 = %c : tensor<3x8xf32>) -> (tensor<3x8xf32>) attributes {kernel = #loops, stage = 0 : i64} {
        %n = pdc.node "Sum" "three"(%0, %1, %2) {} origin "a" phase backward_input rate microbatch : (tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
        pdc.yield %n : tensor<3x8xf32>
      }
      pdc.write %t to @o : tensor<3x8xf32>
      %h = pdc.unit "third" origin "a" backward_input microbatch (%0 = %t : tensor<3x8xf32>, %1 = %c : tensor<3x8xf32>, %2 = %s : tensor<8xf32>, %3 = %m : tensor<3x1xf32>, %4 = %i : tensor<3x1xf32>) -> (tensor<3x8xf32>) attributes {kernel = #input, stage = 0 : i64} {
        %n = pdc.node "LayerNormalizationInputGrad" "third"(%0, %1, %2, %3, %4) {axis = -1 : i64} origin "a" phase backward_input rate microbatch : (tensor<3x8xf32>, tensor<3x8xf32>, tensor<8xf32>, tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
        pdc.yield %n : tensor<3x8xf32>
      }
      %k = pdc.unit "skip" origin "a" backward_input microbatch (%0 = %a : tensor<3x8xf32>, %1 = %h : tensor<3x8xf32>) -> (tensor<3x8xf32>) attributes {kernel = #loops, stage = 0 : i64} {
        %n = pdc.node "Sum" "skip"(%0, %1) {} origin "a" phase backward_input rate microbatch : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
        pdc.yield %n : tensor<3x8xf32>
      }
      pdc.write %k to @w : tensor<3x8xf32>
    }
  }
}
}
