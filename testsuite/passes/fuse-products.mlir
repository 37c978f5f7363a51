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
#scaled = #pdc.kernel<"MatrixProduct", {a = array<i64: 6, 8>, alpha = 5.000000e-01 : f64, b = array<i64: 6, 4>, output = array<i64: 8, 4>, sums = 1 : i64, transA = 1 : i64}, workspace = 256, accumulates = true>
#right = #pdc.kernel<"MatrixProduct", {a = array<i64: 6, 4>, b = array<i64: 6, 8>, output = array<i64: 4, 8>, sums = 1 : i64, transA = 1 : i64}, workspace = 256, accumulates = true>
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
    // CHECK:      %[[U:.*]]:2 = pdc.unit "h+gelu" origin "h+gelu" forward microbatch (%{{.*}} = %{{.*}} : tensor<2x3x4xf32>, %{{.*}} = %{{.*}} : tensor<8x4xf32>, %{{.*}} = %{{.*}} : tensor<8xf32>) -> (tensor<2x3x8xf32>, tensor<2x3x8xf32>)
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

// A stage that runs its forward pass again: GELU of a product stays by itself in both runs, also where the first sends the
// product. So it does where the library takes
// no such rows (12), where another function stands between them, and where others read what is multiplied with its derivative;
// so do the sums of a factor whose columns are what the product adds up, those beside a product that is scaled, and those that keep
// the dimension.

pdc.program @rank_1 ranks [1] {
  pdc.memory @x1 inbox microbatch : tensor<6x4xf32>
  pdc.memory @t1 inbox microbatch : tensor<8x6xf32>
  pdc.memory @w1 weight version : tensor<4x8xf32>
  pdc.memory @w12 weight version : tensor<4x12xf32>
  pdc.memory @y1 outbox microbatch : tensor<6x8xf32>
  pdc.memory @y12 outbox microbatch : tensor<6x12xf32>
  pdc.memory @h1 outbox microbatch : tensor<6x8xf32>
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
      pdc.write %h to @h1 : tensor<6x8xf32>
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

// What GELU and its gradient read may be the product under another shape; the view is in the unit, and stays outside where
// others read it. A product that stands before the sums of its second factor waits for them.
pdc.program @rank_2 ranks [2] {
  pdc.memory @x2 inbox microbatch : tensor<6x4xf32>
  pdc.memory @w2 weight version : tensor<4x8xf32>
  pdc.memory @h2 activation microbatch : tensor<6x8xf32>
  pdc.memory @y2 outbox microbatch : tensor<2x3x8xf32>
  pdc.memory @z2 outbox microbatch : tensor<2x3x8xf32>
  pdc.memory @shape constant once : tensor<3xi64>
  pdc.memory @"w2/gradient" gradient update : tensor<4x8xf32>
  pdc.memory @"v2/gradient" gradient update : tensor<8x4xf32>
  pdc.memory @"c2/gradient" gradient update : tensor<8xf32>
  pdc.memory @t2 activation microbatch : tensor<6x8xf32>
  pdc.memory @"e2/gradient" gradient update : tensor<8xf32>
  pdc.memory @u2 activation microbatch : tensor<6x8xf32>
  pdc.memory @"k2/gradient" gradient update : tensor<1x8xf32>
  pdc.memory @"l2/gradient" gradient update : tensor<4x8xf32>
  pdc.stage 2 {
    // CHECK-LABEL: pdc.program @rank_2
    // CHECK:      pdc.task forward
    // CHECK:      %[[U:.*]]:2 = pdc.unit "h2+gelu2" {{.*}} -> (tensor<6x8xf32>, tensor<2x3x8xf32>)
    // CHECK-NEXT:   %[[P:.*]] = pdc.node "MatMul" "h2"
    // CHECK-NEXT:   %[[SHAPE:.*]] = pdc.node "Constant" "shape2"
    // CHECK-NEXT:   %[[V:.*]] = pdc.node "Reshape" "rows2"(%[[P]], %[[SHAPE]])
    // CHECK-NEXT:   %[[Y:.*]] = pdc.node "FastGelu" "gelu2"(%[[V]])
    // CHECK-NEXT:   pdc.yield %[[P]], %[[Y]]
    // CHECK:      pdc.write %[[U]]#0 to @h2
    // CHECK:      %[[VIEW:.*]] = pdc.unit "rows2"{{.*}} = %[[U]]#0
    // CHECK:      pdc.write %[[U]]#1 to @y2
    // CHECK-NEXT: pdc.write %[[VIEW]] to @z2
    // A view of a shape that is not in it stays, and what reads it.
    // CHECK:      pdc.unit "h3"
    // CHECK:      pdc.unit "given"
    // CHECK:      pdc.unit "gelu3"
    pdc.task forward {
      %x = pdc.read @x2 : tensor<6x4xf32>
      %w = pdc.weight_version @w2 latest : tensor<4x8xf32>
      %h = pdc.unit "h2" origin "h2" forward microbatch (%0 = %x : tensor<6x4xf32>, %1 = %w : tensor<4x8xf32>) -> (tensor<6x8xf32>) attributes {kernel = #eight} {
        %p = pdc.node "MatMul" "h2"(%0, %1) {} phase forward rate microbatch : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
        pdc.yield %p : tensor<6x8xf32>
      }
      pdc.write %h to @h2 : tensor<6x8xf32>
      %v = pdc.unit "rows2" origin "rows2" forward microbatch (%0 = %h : tensor<6x8xf32>) -> (tensor<2x3x8xf32>) {
        %shape = pdc.node "Constant" "shape2"() {value = dense<[2, 3, 8]> : tensor<3xi64>} phase forward rate once : () -> tensor<3xi64>
        %r = pdc.node "Reshape" "rows2"(%0, %shape) {} phase forward rate microbatch : (tensor<6x8xf32>, tensor<3xi64>) -> tensor<2x3x8xf32>
        pdc.yield %r : tensor<2x3x8xf32>
      }
      %y = pdc.unit "gelu2" origin "gelu2" forward microbatch (%0 = %v : tensor<2x3x8xf32>) -> (tensor<2x3x8xf32>) attributes {kernel = #loops} {
        %g = pdc.node "FastGelu" "gelu2"(%0) {} phase forward rate microbatch : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
        pdc.yield %g : tensor<2x3x8xf32>
      }
      pdc.write %y to @y2 : tensor<2x3x8xf32>
      pdc.write %v to @z2 : tensor<2x3x8xf32>
      %sizes = pdc.read @shape : tensor<3xi64>
      %h3 = pdc.unit "h3" origin "h3" forward microbatch (%0 = %x : tensor<6x4xf32>, %1 = %w : tensor<4x8xf32>) -> (tensor<6x8xf32>) attributes {kernel = #eight} {
        %p = pdc.node "MatMul" "h3"(%0, %1) {} phase forward rate microbatch : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
        pdc.yield %p : tensor<6x8xf32>
      }
      %v3 = pdc.unit "given" origin "given" forward microbatch (%0 = %h3 : tensor<6x8xf32>, %1 = %sizes : tensor<3xi64>) -> (tensor<2x3x8xf32>) {
        %r = pdc.node "Reshape" "given"(%0, %1) {} phase forward rate microbatch : (tensor<6x8xf32>, tensor<3xi64>) -> tensor<2x3x8xf32>
        pdc.yield %r : tensor<2x3x8xf32>
      }
      %y3 = pdc.unit "gelu3" origin "gelu3" forward microbatch (%0 = %v3 : tensor<2x3x8xf32>) -> (tensor<2x3x8xf32>) attributes {kernel = #loops} {
        %g = pdc.node "FastGelu" "gelu3"(%0) {} phase forward rate microbatch : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
        pdc.yield %g : tensor<2x3x8xf32>
      }
      pdc.write %y3 to @z2 : tensor<2x3x8xf32>
    }
    // CHECK:      pdc.task backward
    // CHECK:      pdc.unit "p2+grad2" {{.*}} -> (tensor<2x3x8xf32>) attributes {kernel = #pdc.kernel<"GeluGradientProduct"
    // CHECK-NEXT:   %[[P:.*]] = pdc.node "MatMul" "p2"
    // CHECK-NEXT:   %[[SHAPE:.*]] = pdc.node "Constant" "shape3"
    // CHECK-NEXT:   %[[V:.*]] = pdc.node "Reshape" "rows3"(%[[P]], %[[SHAPE]])
    // CHECK-NEXT:   pdc.node "FastGeluGrad" "grad2"(%[[V]],
    // CHECK-NOT:  pdc.unit "rows3"
    // CHECK:      pdc.unit "p3"
    // CHECK:      pdc.unit "grad3"
    // CHECK-NOT:  pdc.unit "w2/grad"
    // CHECK:      %[[U:.*]]:2 = pdc.unit "c2/grad+w2/grad" {{.*}}kernel = #pdc.kernel<"SummedProduct", {a = array<i64: 6, 4>, b = array<i64: 6, 8>, columnSums = "b", output = array<i64: 4, 8>
    // CHECK:      pdc.accumulate %[[U]]#0 into @"c2/gradient"
    // CHECK-NEXT: pdc.accumulate %[[U]]#1 into @"w2/gradient"
    // CHECK-NOT:  SummedProduct
    pdc.task backward {
      %x = pdc.read @x2 : tensor<6x4xf32>
      %h = pdc.read @h2 : tensor<6x8xf32>
      %w = pdc.weight_version @w2 latest : tensor<4x8xf32>
      %p = pdc.unit "p2" origin "h2" backward_input microbatch (%0 = %x : tensor<6x4xf32>, %1 = %w : tensor<4x8xf32>) -> (tensor<6x8xf32>) attributes {kernel = #eight} {
        %m = pdc.node "MatMul" "p2"(%0, %1) {} origin "h2" phase backward_input rate microbatch : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
        pdc.yield %m : tensor<6x8xf32>
      }
      %v = pdc.unit "rows3" origin "h2" backward_input microbatch (%0 = %p : tensor<6x8xf32>) -> (tensor<2x3x8xf32>) {
        %shape = pdc.node "Constant" "shape3"() {value = dense<[2, 3, 8]> : tensor<3xi64>} origin "h2" phase backward_input rate once : () -> tensor<3xi64>
        %r = pdc.node "Reshape" "rows3"(%0, %shape) {} origin "h2" phase backward_input rate microbatch : (tensor<6x8xf32>, tensor<3xi64>) -> tensor<2x3x8xf32>
        pdc.yield %r : tensor<2x3x8xf32>
      }
      %hv = pdc.unit "rows2" origin "rows2" forward microbatch (%0 = %h : tensor<6x8xf32>) -> (tensor<2x3x8xf32>) {
        %shape = pdc.node "Constant" "shape2"() {value = dense<[2, 3, 8]> : tensor<3xi64>} phase forward rate once : () -> tensor<3xi64>
        %r = pdc.node "Reshape" "rows2"(%0, %shape) {} phase forward rate microbatch : (tensor<6x8xf32>, tensor<3xi64>) -> tensor<2x3x8xf32>
        pdc.yield %r : tensor<2x3x8xf32>
      }
      %g = pdc.unit "grad2" origin "gelu2" backward_input microbatch (%0 = %v : tensor<2x3x8xf32>, %1 = %hv : tensor<2x3x8xf32>) -> (tensor<2x3x8xf32>) attributes {kernel = #loops} {
        %d = pdc.node "FastGeluGrad" "grad2"(%0, %1) {} origin "gelu2" phase backward_input rate microbatch : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
        pdc.yield %d : tensor<2x3x8xf32>
      }
      pdc.write %g to @y2 : tensor<2x3x8xf32>
      %pp = pdc.unit "p3" origin "h2" backward_input microbatch (%0 = %x : tensor<6x4xf32>, %1 = %w : tensor<4x8xf32>) -> (tensor<6x8xf32>) attributes {kernel = #eight} {
        %m = pdc.node "MatMul" "p3"(%0, %1) {} origin "h2" phase backward_input rate microbatch : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
        pdc.yield %m : tensor<6x8xf32>
      }
      %gg = pdc.unit "grad3" origin "gelu2" backward_input microbatch (%0 = %pp : tensor<6x8xf32>, %1 = %h : tensor<6x8xf32>) -> (tensor<6x8xf32>) attributes {kernel = #loops} {
        %d = pdc.node "FastGeluGrad" "of itself"(%0, %0) {} origin "gelu2" phase backward_input rate microbatch : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
        pdc.yield %d : tensor<6x8xf32>
      }
      pdc.write %gg to @h2 : tensor<6x8xf32>
      %dw = pdc.unit "w2/grad" origin "h2" backward_weight microbatch (%0 = %x : tensor<6x4xf32>, %1 = %h : tensor<6x8xf32>) -> (tensor<4x8xf32>) attributes {kernel = #right} {
        %m = pdc.node "Gemm" "w2/grad"(%0, %1) {transA = 1 : i64, transB = 0 : i64} origin "h2" phase backward_weight rate microbatch : (tensor<6x4xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
        pdc.yield %m : tensor<4x8xf32>
      }
      pdc.accumulate %dw into @"w2/gradient" : tensor<4x8xf32>
      %s = pdc.unit "c2/grad" origin "h2" backward_weight microbatch (%0 = %h : tensor<6x8xf32>) -> (tensor<8xf32>) attributes {kernel = #sum} {
        %axes = pdc.node "Constant" "axes2"() {value = dense<0> : tensor<1xi64>} origin "h2" phase backward_weight rate once : () -> tensor<1xi64>
        %r = pdc.node "ReduceSum" "c2/grad"(%0, %axes) {keepdims = 0 : i64} origin "h2" phase backward_weight rate microbatch : (tensor<6x8xf32>, tensor<1xi64>) -> tensor<8xf32>
        pdc.yield %r : tensor<8xf32>
      }
      pdc.accumulate %s into @"c2/gradient" : tensor<8xf32>
      %t = pdc.read @t2 : tensor<6x8xf32>
      %dv = pdc.unit "v2/grad" origin "h2" backward_weight microbatch (%0 = %t : tensor<6x8xf32>, %1 = %x : tensor<6x4xf32>) -> (tensor<8x4xf32>) attributes {kernel = #scaled} {
        %m = pdc.node "Gemm" "v2/grad"(%0, %1) {alpha = 0.5 : f64, transA = 1 : i64, transB = 0 : i64} origin "h2" phase backward_weight rate microbatch : (tensor<6x8xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
        pdc.yield %m : tensor<8x4xf32>
      }
      pdc.accumulate %dv into @"v2/gradient" : tensor<8x4xf32>
      %e = pdc.unit "e2/grad" origin "h2" backward_weight microbatch (%0 = %t : tensor<6x8xf32>) -> (tensor<8xf32>) attributes {kernel = #sum} {
        %axes = pdc.node "Constant" "axes4"() {value = dense<0> : tensor<1xi64>} origin "h2" phase backward_weight rate once : () -> tensor<1xi64>
        %r = pdc.node "ReduceSum" "e2/grad"(%0, %axes) {keepdims = 0 : i64} origin "h2" phase backward_weight rate microbatch : (tensor<6x8xf32>, tensor<1xi64>) -> tensor<8xf32>
        pdc.yield %r : tensor<8xf32>
      }
      pdc.accumulate %e into @"e2/gradient" : tensor<8xf32>
      %u = pdc.read @u2 : tensor<6x8xf32>
      %dl = pdc.unit "l2/grad" origin "h2" backward_weight microbatch (%0 = %x : tensor<6x4xf32>, %1 = %u : tensor<6x8xf32>) -> (tensor<4x8xf32>) attributes {kernel = #right} {
        %m = pdc.node "Gemm" "l2/grad"(%0, %1) {transA = 1 : i64, transB = 0 : i64} origin "h2" phase backward_weight rate microbatch : (tensor<6x4xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
        pdc.yield %m : tensor<4x8xf32>
      }
      pdc.accumulate %dl into @"l2/gradient" : tensor<4x8xf32>
      %k = pdc.unit "k2/grad" origin "h2" backward_weight microbatch (%0 = %u : tensor<6x8xf32>) -> (tensor<1x8xf32>) attributes {kernel = #sum} {
        %axes = pdc.node "Constant" "axes3"() {value = dense<0> : tensor<1xi64>} origin "h2" phase backward_weight rate once : () -> tensor<1xi64>
        %r = pdc.node "ReduceSum" "k2/grad"(%0, %axes) {keepdims = 1 : i64} origin "h2" phase backward_weight rate microbatch : (tensor<6x8xf32>, tensor<1xi64>) -> tensor<1x8xf32>
        pdc.yield %r : tensor<1x8xf32>
      }
      pdc.accumulate %k into @"k2/gradient" : tensor<1x8xf32>
    }
  }
}
}
