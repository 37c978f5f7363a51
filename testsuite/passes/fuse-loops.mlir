// RUN: pdc-opt %s --fuse-loops | FileCheck %s
// RUN: sed 's/^module {/module attributes {pdc.measures_units} {/' %s | pdc-opt --fuse-loops | FileCheck %s --check-prefix=APART --implicit-check-not '"one+'

#loop = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>

// APART: pdc.unit "one" origin

module {
pdc.program @rank_0 ranks [0] {
  pdc.memory @a inbox microbatch : tensor<2x6xf32>
  pdc.memory @b inbox microbatch : tensor<2x6xf32>
  pdc.memory @c inbox microbatch : tensor<2x6xf32>
  pdc.memory @k activation microbatch : tensor<2x6xf32>
  pdc.memory @l activation microbatch : tensor<2x6xf32>
  pdc.memory @m activation microbatch : tensor<2x6xf32>
  pdc.memory @n activation microbatch : tensor<2x6xf32>
  pdc.memory @y0 outbox microbatch : tensor<2x6xf32>
  pdc.memory @y1 outbox microbatch : tensor<2x6xf32>
  pdc.memory @y2 outbox microbatch : tensor<2x6xf32>
  pdc.memory @y3 outbox microbatch : tensor<2x6xf32>
  pdc.memory @y4 outbox microbatch : tensor<2x6xf32>
  pdc.memory @y5 outbox microbatch : tensor<2x6xf32>
  pdc.memory @y6 outbox microbatch : tensor<2x6xf32>
  pdc.memory @y7 outbox microbatch : tensor<2x6xf32>
  pdc.memory @y8 outbox microbatch : tensor<2x6xf32>
  pdc.memory @y9 outbox microbatch : tensor<2x6xf32>
  pdc.memory @y10 outbox microbatch : tensor<2x6xf32>
  pdc.memory @y11 outbox microbatch : tensor<2x6xf32>
  pdc.memory @y12 outbox microbatch : tensor<2x6xf32>
  pdc.memory @y13 outbox microbatch : tensor<2x6xf32>
  pdc.memory @y14 outbox microbatch : tensor<2x6xf32>
  pdc.memory @y15 outbox microbatch : tensor<2x6xf32>
  pdc.memory @y16 outbox microbatch : tensor<2x6xf32>
  pdc.stage 0 {
    pdc.task forward {
      // CHECK: %[[A:.*]] = pdc.read @a
      // CHECK: %[[B:.*]] = pdc.read @b
      // CHECK: %[[C:.*]] = pdc.read @c
      %a = pdc.read @a : tensor<2x6xf32>
      %b = pdc.read @b : tensor<2x6xf32>
      %c = pdc.read @c : tensor<2x6xf32>
      // The later one moves to the first one, and what it reads of memory with it.
      // CHECK: %[[K:.*]] = pdc.read @k
      // CHECK: %[[U:.*]]:2 = pdc.unit "one+two" origin "one+two" forward microbatch (%{{.*}} = %[[A]] : tensor<2x6xf32>, %{{.*}} = %[[B]] : tensor<2x6xf32>, %{{.*}} = %[[K]] : tensor<2x6xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>)
      // CHECK-SAME: in_place = array<i64: 0, 0, 0, 1, 1, 0, 1, 1, 2, 0, 2, 1>, kernel = #pdc.kernel<"Elementwise", {}
      // CHECK: pdc.yield
      // CHECK: pdc.write %[[U]]#0 to @y0
      // CHECK: pdc.write %[[U]]#1 to @y1
      %one = pdc.unit "one" origin "one" forward microbatch (%0 = %a : tensor<2x6xf32>, %1 = %b : tensor<2x6xf32>) -> (tensor<2x6xf32>) attributes {kernel = #loop, stage = 0 : i64} {
        %g = pdc.node "Mul" "one"(%0, %1) {} phase forward rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
        pdc.yield %g : tensor<2x6xf32>
      }
      pdc.write %one to @y0 : tensor<2x6xf32>
      %k = pdc.read @k : tensor<2x6xf32>
      %two = pdc.unit "two" origin "two" forward microbatch (%0 = %k : tensor<2x6xf32>, %1 = %a : tensor<2x6xf32>) -> (tensor<2x6xf32>) attributes {kernel = #loop, stage = 0 : i64} {
        %g = pdc.node "Mul" "two"(%0, %1) {} phase forward rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
        pdc.yield %g : tensor<2x6xf32>
      }
      pdc.write %two to @y1 : tensor<2x6xf32>
      // The first one moves to the later one, which reads what is made between.
      // CHECK: %[[BETWEEN:.*]] = pdc.unit "between"
      // CHECK: %[[V:.*]]:2 = pdc.unit "early+late" origin "early+late" forward microbatch (%{{.*}} = %[[C]] : tensor<2x6xf32>, %{{.*}} = %[[BETWEEN]] : tensor<2x6xf32>)
      // CHECK: pdc.yield
      // CHECK: pdc.write %[[V]]#0 to @y2
      // CHECK: pdc.write %[[V]]#1 to @y3
      %early = pdc.unit "early" origin "early" forward microbatch (%0 = %c : tensor<2x6xf32>) -> (tensor<2x6xf32>) attributes {kernel = #loop, stage = 0 : i64} {
        %g = pdc.node "Abs" "early"(%0) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
        pdc.yield %g : tensor<2x6xf32>
      }
      %m = pdc.read @m : tensor<2x6xf32>
      %between = pdc.unit "between" origin "between" forward microbatch (%0 = %m : tensor<2x6xf32>) -> (tensor<2x6xf32>) attributes {kernel = #loop, stage = 0 : i64} {
        %g = pdc.node "Tanh" "between"(%0) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
        pdc.yield %g : tensor<2x6xf32>
      }
      %late = pdc.unit "late" origin "late" forward microbatch (%0 = %c : tensor<2x6xf32>, %1 = %between : tensor<2x6xf32>) -> (tensor<2x6xf32>) attributes {kernel = #loop, stage = 0 : i64} {
        %g = pdc.node "Mul" "late"(%0, %1) {} phase forward rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
        pdc.yield %g : tensor<2x6xf32>
      }
      pdc.write %early to @y2 : tensor<2x6xf32>
      pdc.write %late to @y3 : tensor<2x6xf32>
      // Not where one needs the other, nor four results and one.
      // CHECK: %[[FIRST:.*]] = pdc.unit "first" origin
      // CHECK: pdc.unit "second" origin "second" forward microbatch (%{{.*}} = %[[FIRST]] :
      %n = pdc.read @n : tensor<2x6xf32>
      %first = pdc.unit "first" origin "first" forward microbatch (%0 = %n : tensor<2x6xf32>) -> (tensor<2x6xf32>) attributes {kernel = #loop, stage = 0 : i64} {
        %g = pdc.node "Neg" "first"(%0) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
        pdc.yield %g : tensor<2x6xf32>
      }
      %second = pdc.unit "second" origin "second" forward microbatch (%0 = %first : tensor<2x6xf32>, %1 = %n : tensor<2x6xf32>) -> (tensor<2x6xf32>) attributes {kernel = #loop, stage = 0 : i64} {
        %g = pdc.node "Mul" "second"(%0, %1) {} phase forward rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
        pdc.yield %g : tensor<2x6xf32>
      }
      pdc.write %second to @y4 : tensor<2x6xf32>
      // CHECK: %{{.*}}:4 = pdc.unit "p+q+r+s" origin "p+q+r+s"
      // CHECK: pdc.unit "t" origin "t"
      %l = pdc.read @l : tensor<2x6xf32>
      %p = pdc.unit "p" origin "p" forward microbatch (%0 = %l : tensor<2x6xf32>) -> (tensor<2x6xf32>) attributes {kernel = #loop, stage = 0 : i64} {
        %g = pdc.node "Abs" "p"(%0) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
        pdc.yield %g : tensor<2x6xf32>
      }
      pdc.write %p to @y5 : tensor<2x6xf32>
      %q = pdc.unit "q" origin "q" forward microbatch (%0 = %l : tensor<2x6xf32>) -> (tensor<2x6xf32>) attributes {kernel = #loop, stage = 0 : i64} {
        %g = pdc.node "Neg" "q"(%0) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
        pdc.yield %g : tensor<2x6xf32>
      }
      pdc.write %q to @y6 : tensor<2x6xf32>
      %r = pdc.unit "r" origin "r" forward microbatch (%0 = %l : tensor<2x6xf32>) -> (tensor<2x6xf32>) attributes {kernel = #loop, stage = 0 : i64} {
        %g = pdc.node "Tanh" "r"(%0) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
        pdc.yield %g : tensor<2x6xf32>
      }
      pdc.write %r to @y7 : tensor<2x6xf32>
      %s = pdc.unit "s" origin "s" forward microbatch (%0 = %l : tensor<2x6xf32>) -> (tensor<2x6xf32>) attributes {kernel = #loop, stage = 0 : i64} {
        %g = pdc.node "Sigmoid" "s"(%0) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
        pdc.yield %g : tensor<2x6xf32>
      }
      pdc.write %s to @y8 : tensor<2x6xf32>
      %t = pdc.unit "t" origin "t" forward microbatch (%0 = %l : tensor<2x6xf32>) -> (tensor<2x6xf32>) attributes {kernel = #loop, stage = 0 : i64} {
        %g = pdc.node "Exp" "t"(%0) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
        pdc.yield %g : tensor<2x6xf32>
      }
      pdc.write %t to @y16 : tensor<2x6xf32>
      // Nor where something is stored into what the later one reads, between, or phases differ.
      // CHECK: pdc.unit "before" origin
      // CHECK: pdc.write %{{.*}} to @b
      // CHECK: pdc.unit "behind" origin
      %c2 = pdc.read @c : tensor<2x6xf32>
      %before = pdc.unit "before" origin "before" forward microbatch (%0 = %c2 : tensor<2x6xf32>) -> (tensor<2x6xf32>) attributes {kernel = #loop, stage = 0 : i64} {
        %g = pdc.node "Exp" "before"(%0) {} phase forward rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
        pdc.yield %g : tensor<2x6xf32>
      }
      pdc.write %before to @y9 : tensor<2x6xf32>
      pdc.write %c2 to @b : tensor<2x6xf32>
      %b2 = pdc.read @b : tensor<2x6xf32>
      %behind = pdc.unit "behind" origin "behind" forward microbatch (%0 = %c2 : tensor<2x6xf32>, %1 = %b2 : tensor<2x6xf32>) -> (tensor<2x6xf32>) attributes {kernel = #loop, stage = 0 : i64} {
        %g = pdc.node "Mul" "behind"(%0, %1) {} phase forward rate microbatch : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
        pdc.yield %g : tensor<2x6xf32>
      }
      pdc.write %behind to @y10 : tensor<2x6xf32>
    }
    pdc.task backward {
      %a = pdc.read @a : tensor<2x6xf32>
      // CHECK: pdc.unit "input" origin
      // CHECK: pdc.unit "weight" origin
      %input = pdc.unit "input" origin "input" backward_input microbatch (%0 = %a : tensor<2x6xf32>) -> (tensor<2x6xf32>) attributes {kernel = #loop, stage = 0 : i64} {
        %g = pdc.node "Abs" "input"(%0) {} phase backward_input rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
        pdc.yield %g : tensor<2x6xf32>
      }
      pdc.write %input to @y11 : tensor<2x6xf32>
      %weight = pdc.unit "weight" origin "weight" backward_weight microbatch (%0 = %a : tensor<2x6xf32>) -> (tensor<2x6xf32>) attributes {kernel = #loop, stage = 0 : i64} {
        %g = pdc.node "Neg" "weight"(%0) {} phase backward_weight rate microbatch : (tensor<2x6xf32>) -> tensor<2x6xf32>
        pdc.yield %g : tensor<2x6xf32>
      }
      pdc.write %weight to @y12 : tensor<2x6xf32>
    }
  }
}
}
