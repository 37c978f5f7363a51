// RUN: pdc-opt %s --fuse-products | FileCheck %s
// RUN: sed 's/^module {/module attributes {pdc.measures_units} {/' %s | pdc-opt --fuse-products | FileCheck %s --check-prefix=APART --implicit-check-not "GeluProduct" --implicit-check-not "GeluGradientProduct" --implicit-check-not "SummedProduct"

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>
#in = #pdc.kernel<"MatrixProduct", {a = array<i64: 2, 3, 4>, b = array<i64: 8, 4>, bias = array<i64: 1, 1, 8>, output = array<i64: 2, 3, 8>, transB = 1 : i64}, workspace = 256, accumulates = false>
#back = #pdc.kernel<"MatrixProduct", {a = array<i64: 2, 3, 4>, b = array<i64: 4, 8>, output = array<i64: 2, 3, 8>}, workspace = 256, accumulates = false>
#weight = #pdc.kernel<"MatrixProduct", {a = array<i64: 6, 8>, b = array<i64: 6, 4>, output = array<i64: 8, 4>, sums = 1 : i64, transA = 1 : i64}, workspace = 256, accumulates = true>
#sum = #pdc.kernel<"ColumnSum", {input = array<i64: 6, 8>, layout = ""}, workspace = 64, accumulates = true>
#twelve = #pdc.kernel<"MatrixProduct", {a = array<i64: 6, 4>, b = array<i64: 4, 12>, output = array<i64: 6, 12>}, workspace = 256, accumulates = false>
#eight = #pdc.kernel<"MatrixProduct", {a = array<i64: 6, 4>, b = array<i64: 4, 8>, output = array<i64: 6, 8>}, workspace = 256, accumulates = false>
#relu = #pdc.kernel<"MatrixProduct", {a = array<i64: 6, 4>, b = array<i64: 4, 8>, output = array<i64: 6, 8>, relu = 1 : i64}, workspace = 256, accumulates = false>
#padded = #pdc.kernel<"MatrixProduct", {a = array<i64: 6, 4>, b = array<i64: 4, 8>, output = array<i64: 6, 8>, pitchY = 16 : i64}, workspace = 256, accumulates = false>
#across = #pdc.kernel<"MatrixProduct", {a = array<i64: 8, 6>, b = array<i64: 6, 4>, output = array<i64: 8, 4>, sums = 1 : i64}, workspace = 256, accumulates = true>
#tall = #pdc.kernel<"ColumnSum", {input = array<i64: 8, 6>, layout = ""}, workspace = 64, accumulates = true>

// APART: pdc.unit "gelu/grad"

module {
pdc.program @rank_0 ranks [0] {
  pdc.memory @x inbox microbatch : tensor<2x3x4xf32>
  pdc.memory @w weight version : tensor<8x4xf32>
  pdc.memory @c weight version : tensor<8xf32>
  pdc.memory @v weight version : tensor<4x8xf32>
  pdc.memory @h activation microbatch : tensor<2x3x8xf32>
  pdc.memory @y outbox microbatch : tensor<2x3x8xf32>
  pdc.memory @dy inbox microbatch : tensor<2x3x4xf32>
  pdc.memory @dh outbox microbatch : tensor<2x3x8xf32>
  pdc.memory @"w/gradient" gradient update : tensor<8x4xf32>
  pdc.memory @"c/gradient" gradient update : tensor<8xf32>
  pdc.stage 0 {
    // What GELU is of is the first result, which the backward pass reads.
    // CHECK-LABEL: pdc.task forward
    // CHECK:      %[[U:.*]]:2 = pdc.unit "h+gelu" origin "gelu" forward microbatch (%{{.*}} = %{{.*}} : tensor<2x3x4xf32>, %{{.*}} = %{{.*}} : tensor<8x4xf32>, %{{.*}} = %{{.*}} : tensor<8xf32>) -> (tensor<2x3x8xf32>, tensor<2x3x8xf32>)
    // CHECK-SAME: flops = 3.000000e+00 : f64, kernel = #pdc.kernel<"GeluProduct", {a = array<i64: 2, 3, 4>, b = array<i64: 8, 4>, bias = array<i64: 1, 1, 8>, keepsArgument = 1 : i64, output = array<i64: 2, 3, 8>, transB = 1 : i64}
    // CHECK-SAME: seconds = 3.000000e+00 : f64, stage = 0 : i64
    // CHECK-NEXT:   %[[P:.*]] = pdc.node "FusedMatMul"
    // CHECK-NEXT:   %[[H:.*]] = pdc.node "Add" "bias"(%[[P]],
    // CHECK-NEXT:   %[[Y:.*]] = pdc.node "FastGelu" "gelu"(%[[H]])
    // CHECK-NEXT:   pdc.yield %[[H]], %[[Y]]
    // CHECK:      pdc.write %[[U]]#0 to @h
    // CHECK-NEXT: pdc.write %[[U]]#1 to @y
    pdc.task forward {
      %x = pdc.read @x : tensor<2x3x4xf32>
      %w = pdc.weight_version @w latest : tensor<8x4xf32>
      %c = pdc.weight_version @c latest : tensor<8xf32>
      %h = pdc.unit "h" origin "h" forward microbatch (%0 = %x : tensor<2x3x4xf32>, %1 = %w : tensor<8x4xf32>, %2 = %c : tensor<8xf32>) -> (tensor<2x3x8xf32>) attributes {kernel = #in, flops = 2.0 : f64, seconds = 1.0 : f64, stage = 0 : i64} {
        %p = pdc.node "FusedMatMul" "h"(%0, %1) {alpha = 1.0 : f64, transA = 0 : i64, transB = 1 : i64} phase forward rate microbatch : (tensor<2x3x4xf32>, tensor<8x4xf32>) -> tensor<2x3x8xf32>
        %b = pdc.node "Add" "bias"(%p, %2) {} phase forward rate microbatch : (tensor<2x3x8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
        pdc.yield %b : tensor<2x3x8xf32>
      }
      pdc.write %h to @h : tensor<2x3x8xf32>
      %y = pdc.unit "gelu" origin "gelu" forward microbatch (%0 = %h : tensor<2x3x8xf32>) -> (tensor<2x3x8xf32>) attributes {kernel = #loops, flops = 1.0 : f64, seconds = 2.0 : f64, stage = 0 : i64} {
        %g = pdc.node "FastGelu" "gelu"(%0) {} phase forward rate microbatch : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
        pdc.yield %g : tensor<2x3x8xf32>
      }
      pdc.write %y to @y : tensor<2x3x8xf32>
    }
    // The gradient stands where what GELU is of is there. The sums are those of the product's factor, a matrix, and both are
    // summed behind the unit.
    // CHECK-LABEL: pdc.task backward
    // CHECK-NOT:  pdc.unit "product"
    // CHECK:      %[[ARGUMENT:.*]] = pdc.read @h
    // CHECK-NEXT: %[[DH:.*]] = pdc.unit "product+gelu/grad" {{.*}} %[[ARGUMENT]] : tensor<2x3x8xf32>) -> (tensor<2x3x8xf32>) attributes {{.*}}kernel = #pdc.kernel<"GeluGradientProduct", {a = array<i64: 2, 3, 4>, b = array<i64: 4, 8>, output = array<i64: 2, 3, 8>}
    // CHECK-NEXT:   %[[P:.*]] = pdc.node "FusedMatMul"
    // CHECK-NEXT:   %[[G:.*]] = pdc.node "FastGeluGrad" "gelu/grad"(%[[P]], %{{.*}})
    // CHECK-NEXT:   pdc.yield %[[G]]
    // CHECK:      pdc.write %[[DH]] to @dh
    // CHECK:      %[[ROWS:.*]] = pdc.unit "rows"
    // CHECK:      %[[U:.*]]:2 = pdc.unit "c/grad+w/grad" origin "h" backward_weight microbatch (%[[F:.*]] = %[[ROWS]] : tensor<6x8xf32>, {{.*}}) -> (tensor<8xf32>, tensor<8x4xf32>) attributes {{.*}}kernel = #pdc.kernel<"SummedProduct", {a = array<i64: 6, 8>, b = array<i64: 6, 4>, columnSums = "a", output = array<i64: 8, 4>, sums = 1 : i64, transA = 1 : i64}, workspace = {{[0-9]*}}, accumulates = true>
    // CHECK-NEXT:   %[[AXES:.*]] = pdc.node "Constant" "axes"() {value = dense<0> : tensor<1xi64>}
    // CHECK-NEXT:   %[[S:.*]] = pdc.node "ReduceSum" "c/grad"(%[[F]], %[[AXES]])
    // CHECK-NEXT:   %[[W:.*]] = pdc.node "Gemm"
    // CHECK-NEXT:   pdc.yield %[[S]], %[[W]]
    // CHECK:      pdc.accumulate %[[U]]#0 into @"c/gradient"
    // CHECK-NEXT: pdc.accumulate %[[U]]#1 into @"w/gradient"
    pdc.task backward {
      %dy = pdc.read @dy : tensor<2x3x4xf32>
      %v = pdc.weight_version @v latest : tensor<4x8xf32>
      %p = pdc.unit "product" origin "h2" backward_input microbatch (%0 = %dy : tensor<2x3x4xf32>, %1 = %v : tensor<4x8xf32>) -> (tensor<2x3x8xf32>) attributes {kernel = #back} {
        %m = pdc.node "FusedMatMul" "product"(%0, %1) {alpha = 1.0 : f64, transA = 0 : i64, transB = 0 : i64} origin "h2" phase backward_input rate microbatch : (tensor<2x3x4xf32>, tensor<4x8xf32>) -> tensor<2x3x8xf32>
        pdc.yield %m : tensor<2x3x8xf32>
      }
      %h = pdc.read @h : tensor<2x3x8xf32>
      %dh = pdc.unit "gelu/grad" origin "gelu" backward_input microbatch (%0 = %p : tensor<2x3x8xf32>, %1 = %h : tensor<2x3x8xf32>) -> (tensor<2x3x8xf32>) attributes {kernel = #loops} {
        %g = pdc.node "FastGeluGrad" "gelu/grad"(%0, %1) {} origin "gelu" phase backward_input rate microbatch : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
        pdc.yield %g : tensor<2x3x8xf32>
      }
      pdc.write %dh to @dh : tensor<2x3x8xf32>
      %s = pdc.unit "c/grad" origin "h" backward_weight microbatch (%0 = %dh : tensor<2x3x8xf32>) -> (tensor<8xf32>) attributes {kernel = #sum} {
        %axes = pdc.node "Constant" "axes"() {value = dense<[0, 1]> : tensor<2xi64>} origin "h" phase backward_weight rate once : () -> tensor<2xi64>
        %r = pdc.node "ReduceSum" "c/grad"(%0, %axes) {keepdims = 0 : i64} origin "h" phase backward_weight rate microbatch : (tensor<2x3x8xf32>, tensor<2xi64>) -> tensor<8xf32>
        pdc.yield %r : tensor<8xf32>
      }
      pdc.accumulate %s into @"c/gradient" : tensor<8xf32>
      %x = pdc.read @x : tensor<2x3x4xf32>
      %xr = pdc.unit "inputs" origin "h" backward_weight microbatch (%0 = %x : tensor<2x3x4xf32>) -> (tensor<6x4xf32>) {
        %shape = pdc.node "Constant" "shape"() {value = dense<[6, 4]> : tensor<2xi64>} origin "h" phase backward_weight rate once : () -> tensor<2xi64>
        %r = pdc.node "Reshape" "inputs"(%0, %shape) {} origin "h" phase backward_weight rate microbatch : (tensor<2x3x4xf32>, tensor<2xi64>) -> tensor<6x4xf32>
        pdc.yield %r : tensor<6x4xf32>
      }
      %dr = pdc.unit "rows" origin "h" backward_weight microbatch (%0 = %dh : tensor<2x3x8xf32>) -> (tensor<6x8xf32>) {
        %shape = pdc.node "Constant" "shape.1"() {value = dense<[6, 8]> : tensor<2xi64>} origin "h" phase backward_weight rate once : () -> tensor<2xi64>
        %r = pdc.node "Reshape" "rows"(%0, %shape) {} origin "h" phase backward_weight rate microbatch : (tensor<2x3x8xf32>, tensor<2xi64>) -> tensor<6x8xf32>
        pdc.yield %r : tensor<6x8xf32>
      }
      %dw = pdc.unit "w/grad" origin "h" backward_weight microbatch (%0 = %dr : tensor<6x8xf32>, %1 = %xr : tensor<6x4xf32>) -> (tensor<8x4xf32>) attributes {kernel = #weight} {
        %m = pdc.node "Gemm" "w/grad"(%0, %1) {transA = 1 : i64, transB = 0 : i64} origin "h" phase backward_weight rate microbatch : (tensor<6x8xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
        pdc.yield %m : tensor<8x4xf32>
      }
      pdc.accumulate %dw into @"w/gradient" : tensor<8x4xf32>
    }
    // Evaluation keeps nothing.
    // CHECK-LABEL: pdc.task evaluate
    // CHECK:      %[[Y:.*]] = pdc.unit "h+gelu" {{.*}} -> (tensor<2x3x8xf32>) attributes {{.*}}kernel = #pdc.kernel<"GeluProduct", {a = array<i64: 2, 3, 4>, b = array<i64: 8, 4>, bias = array<i64: 1, 1, 8>, output = array<i64: 2, 3, 8>, transB = 1 : i64}
    // CHECK:      pdc.write %[[Y]] to @y
    pdc.task evaluate {
      %x = pdc.read @x : tensor<2x3x4xf32>
      %w = pdc.weight_version @w latest : tensor<8x4xf32>
      %c = pdc.weight_version @c latest : tensor<8xf32>
      %h = pdc.unit "h" origin "h" evaluate microbatch (%0 = %x : tensor<2x3x4xf32>, %1 = %w : tensor<8x4xf32>, %2 = %c : tensor<8xf32>) -> (tensor<2x3x8xf32>) attributes {kernel = #in} {
        %p = pdc.node "FusedMatMul" "h"(%0, %1) {alpha = 1.0 : f64, transA = 0 : i64, transB = 1 : i64} phase evaluate rate microbatch : (tensor<2x3x4xf32>, tensor<8x4xf32>) -> tensor<2x3x8xf32>
        %b = pdc.node "Add" "bias"(%p, %2) {} phase evaluate rate microbatch : (tensor<2x3x8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
        pdc.yield %b : tensor<2x3x8xf32>
      }
      %y = pdc.unit "gelu" origin "gelu" evaluate microbatch (%0 = %h : tensor<2x3x8xf32>) -> (tensor<2x3x8xf32>) attributes {kernel = #loops} {
        %g = pdc.node "FastGelu" "gelu"(%0) {} phase evaluate rate microbatch : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
        pdc.yield %g : tensor<2x3x8xf32>
      }
      pdc.write %y to @y : tensor<2x3x8xf32>
    }
  }
}

// A stage that runs its forward pass again: GELU of a product stays by itself in both runs. So it does where the library takes
// no such rows (12), where another function stands between them, and where others read what is multiplied with its derivative;
// so do sums that are no gradients, and those of a factor whose columns are what the product adds up.

pdc.program @rank_1 ranks [1] {
  pdc.memory @x1 inbox microbatch : tensor<6x4xf32>
  pdc.memory @t1 inbox microbatch : tensor<8x6xf32>
  pdc.memory @w1 weight version : tensor<4x8xf32>
  pdc.memory @w12 weight version : tensor<4x12xf32>
  pdc.memory @y1 outbox microbatch : tensor<6x8xf32>
  pdc.memory @y12 outbox microbatch : tensor<6x12xf32>
  pdc.memory @s1 outbox microbatch : tensor<6xf32>
  pdc.memory @"w1/gradient" gradient update : tensor<8x4xf32>
  pdc.memory @"c1/gradient" gradient update : tensor<6xf32>
  pdc.stage 1 {
    // CHECK-LABEL: pdc.program @rank_1
    // CHECK-NOT:  {{GeluProduct|GeluGradientProduct|SummedProduct}}
    pdc.task forward {
      %x = pdc.read @x1 : tensor<6x4xf32>
      %w = pdc.weight_version @w1 latest : tensor<4x8xf32>
      %w12 = pdc.weight_version @w12 latest : tensor<4x12xf32>
      %h = pdc.unit "once" origin "once" forward microbatch (%0 = %x : tensor<6x4xf32>, %1 = %w : tensor<4x8xf32>) -> (tensor<6x8xf32>) attributes {kernel = #eight} {
        %p = pdc.node "MatMul" "once"(%0, %1) {} phase forward rate microbatch : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
        pdc.yield %p : tensor<6x8xf32>
      }
      %y = pdc.unit "gelu1" origin "gelu1" forward microbatch (%0 = %h : tensor<6x8xf32>) -> (tensor<6x8xf32>) attributes {kernel = #loops} {
        %g = pdc.node "FastGelu" "gelu1"(%0) {} phase forward rate microbatch : (tensor<6x8xf32>) -> tensor<6x8xf32>
        pdc.yield %g : tensor<6x8xf32>
      }
      pdc.write %y to @y1 : tensor<6x8xf32>
      %h12 = pdc.unit "twelve" origin "twelve" forward microbatch (%0 = %x : tensor<6x4xf32>, %1 = %w12 : tensor<4x12xf32>) -> (tensor<6x12xf32>) attributes {kernel = #twelve} {
        %p = pdc.node "MatMul" "twelve"(%0, %1) {} phase forward rate microbatch : (tensor<6x4xf32>, tensor<4x12xf32>) -> tensor<6x12xf32>
        pdc.yield %p : tensor<6x12xf32>
      }
      pdc.write %h12 to @y12 : tensor<6x12xf32>
      %y12 = pdc.unit "gelu12" origin "gelu12" forward microbatch (%0 = %h12 : tensor<6x12xf32>) -> (tensor<6x12xf32>) attributes {kernel = #loops} {
        %g = pdc.node "FastGelu" "gelu12"(%0) {} phase forward rate microbatch : (tensor<6x12xf32>) -> tensor<6x12xf32>
        pdc.yield %g : tensor<6x12xf32>
      }
    }
    pdc.task backward {
      %x = pdc.read @x1 : tensor<6x4xf32>
      %t = pdc.read @t1 : tensor<8x6xf32>
      %w = pdc.weight_version @w1 latest : tensor<4x8xf32>
      %h = pdc.unit "once" origin "once" forward microbatch (%0 = %x : tensor<6x4xf32>, %1 = %w : tensor<4x8xf32>) -> (tensor<6x8xf32>) attributes {kernel = #eight} {
        %p = pdc.node "MatMul" "once"(%0, %1) {} phase forward rate microbatch : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
        pdc.yield %p : tensor<6x8xf32>
      }
      %y = pdc.unit "gelu1" origin "gelu1" forward microbatch (%0 = %h : tensor<6x8xf32>) -> (tensor<6x8xf32>) attributes {kernel = #loops} {
        %g = pdc.node "FastGelu" "gelu1"(%0) {} phase forward rate microbatch : (tensor<6x8xf32>) -> tensor<6x8xf32>
        pdc.yield %g : tensor<6x8xf32>
      }
      %p = pdc.unit "rectified" origin "once" backward_input microbatch (%0 = %x : tensor<6x4xf32>, %1 = %w : tensor<4x8xf32>) -> (tensor<6x8xf32>) attributes {kernel = #relu} {
        %m = pdc.node "MatMul" "rectified"(%0, %1) {} origin "once" phase backward_input rate microbatch : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
        pdc.yield %m : tensor<6x8xf32>
      }
      %g1 = pdc.unit "grad1" origin "gelu1" backward_input microbatch (%0 = %p : tensor<6x8xf32>, %1 = %h : tensor<6x8xf32>) -> (tensor<6x8xf32>) attributes {kernel = #loops} {
        %g = pdc.node "FastGeluGrad" "grad1"(%0, %1) {} origin "gelu1" phase backward_input rate microbatch : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
        pdc.yield %g : tensor<6x8xf32>
      }
      pdc.write %g1 to @y1 : tensor<6x8xf32>
      %q = pdc.unit "padded" origin "once" backward_input microbatch (%0 = %x : tensor<6x4xf32>, %1 = %w : tensor<4x8xf32>) -> (tensor<6x8xf32>) attributes {kernel = #padded} {
        %m = pdc.node "MatMul" "padded"(%0, %1) {} origin "once" phase backward_input rate microbatch : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
        pdc.yield %m : tensor<6x8xf32>
      }
      %g2 = pdc.unit "grad2" origin "gelu1" backward_input microbatch (%0 = %q : tensor<6x8xf32>, %1 = %h : tensor<6x8xf32>) -> (tensor<6x8xf32>) attributes {kernel = #loops} {
        %g = pdc.node "FastGeluGrad" "grad2"(%0, %1) {} origin "gelu1" phase backward_input rate microbatch : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
        pdc.yield %g : tensor<6x8xf32>
      }
      pdc.write %g2 to @y1 : tensor<6x8xf32>
      %r = pdc.unit "read twice" origin "once" backward_input microbatch (%0 = %x : tensor<6x4xf32>, %1 = %w : tensor<4x8xf32>) -> (tensor<6x8xf32>) attributes {kernel = #eight} {
        %m = pdc.node "MatMul" "read twice"(%0, %1) {} origin "once" phase backward_input rate microbatch : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
        pdc.yield %m : tensor<6x8xf32>
      }
      pdc.write %r to @y1 : tensor<6x8xf32>
      %g3 = pdc.unit "grad3" origin "gelu1" backward_input microbatch (%0 = %r : tensor<6x8xf32>, %1 = %h : tensor<6x8xf32>) -> (tensor<6x8xf32>) attributes {kernel = #loops} {
        %g = pdc.node "FastGeluGrad" "grad3"(%0, %1) {} origin "gelu1" phase backward_input rate microbatch : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
        pdc.yield %g : tensor<6x8xf32>
      }
      pdc.write %g3 to @y1 : tensor<6x8xf32>
      %s = pdc.unit "c1/grad" origin "once" backward_weight microbatch (%0 = %t : tensor<8x6xf32>) -> (tensor<6xf32>) attributes {kernel = #tall} {
        %axes = pdc.node "Constant" "axes1"() {value = dense<0> : tensor<1xi64>} origin "once" phase backward_weight rate once : () -> tensor<1xi64>
        %sum = pdc.node "ReduceSum" "c1/grad"(%0, %axes) {keepdims = 0 : i64} origin "once" phase backward_weight rate microbatch : (tensor<8x6xf32>, tensor<1xi64>) -> tensor<6xf32>
        pdc.yield %sum : tensor<6xf32>
      }
      pdc.accumulate %s into @"c1/gradient" : tensor<6xf32>
      %dw = pdc.unit "w1/grad" origin "once" backward_weight microbatch (%0 = %t : tensor<8x6xf32>, %1 = %x : tensor<6x4xf32>) -> (tensor<8x4xf32>) attributes {kernel = #across} {
        %m = pdc.node "MatMul" "w1/grad"(%0, %1) {} origin "once" phase backward_weight rate microbatch : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
        pdc.yield %m : tensor<8x4xf32>
      }
      pdc.accumulate %dw into @"w1/gradient" : tensor<8x4xf32>
    }
  }
}
}
