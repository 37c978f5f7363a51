// RUN: pdc-opt %s --assign-stages=plan=%S/Inputs/two-stages.json -split-input-file -verify-diagnostics
// RUN: not pdc-opt %S/assign-stages.mlir --assign-stages 2>&1 | FileCheck %s
// CHECK: error: assign-stages needs a plan: give its file with plan=FILE

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>

// expected-error@+1 {{unit 'b' (stage 0) reads 'c' of unit 'c' (stage 1), a later stage: a stage must be convex, its values go to later stages only}}
module {
  pdc.memory @x input microbatch : tensor<4xf32>
  func.func @train() {
    %x = pdc.read @x : tensor<4xf32>
    %c = pdc.unit "c" origin "c" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
      %1 = pdc.node "Relu" "c"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %1 : tensor<4xf32>
    }
    %b = pdc.unit "b" origin "b" forward microbatch (%0 = %c : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
      %1 = pdc.node "Relu" "b"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %1 : tensor<4xf32>
    }
    return
  }
}

// -----

#loops = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>

// expected-error@+1 {{state 'mean' is used by unit 'b' (stage 0) and by unit 'c' (stage 1): running statistics belong to one stage; put its users into one stage}}
module {
  pdc.memory @mean state microbatch : tensor<4xf32>
  func.func @train() {
    %m = pdc.read @mean : tensor<4xf32>
    %b = pdc.unit "b" origin "b" forward microbatch (%0 = %m : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
      %1 = pdc.node "Relu" "b"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %1 : tensor<4xf32>
    }
    %c = pdc.unit "c" origin "c" forward microbatch (%0 = %b : tensor<4xf32>, %1 = %m : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #loops} {
      %2 = pdc.node "Add" "c"(%0, %1) {} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %2 : tensor<4xf32>
    }
    pdc.write %c to @mean : tensor<4xf32>
    return
  }
}

// -----

// expected-error@+1 {{the plan gives unit 'stranger' no stage; plan the model again}}
module {
  pdc.memory @x input microbatch : tensor<4xf32>
  func.func @train() {
    %x = pdc.read @x : tensor<4xf32>
    %b = pdc.unit "stranger" origin "stranger" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) {
      %1 = pdc.node "Relu" "stranger"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %1 : tensor<4xf32>
    }
    return
  }
}

// -----

// expected-error@+1 {{the plan gives unit 'stranger' no stage, and nothing that it reads or that reads it has one; plan the model again}}
module {
  pdc.memory @x weight version : tensor<4xf32>
  func.func @train() {
    %x = pdc.weight_version @x latest : tensor<4xf32>
    %b = pdc.unit "stranger" origin "stranger" prepare version (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) {
      %1 = pdc.node "Relu" "stranger"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %1 : tensor<4xf32>
    }
    return
  }
}

// -----

// A plan of another model.
// expected-error@+1 {{stage 0 of the plan names unit 'a', which the graph does not have; plan the model again}}
module {
  pdc.memory @x input microbatch : tensor<4xf32>
  func.func @train() {
    %x = pdc.read @x : tensor<4xf32>
    %b = pdc.unit "b" origin "b" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) {
      %1 = pdc.node "Relu" "b"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %1 : tensor<4xf32>
    }
    return
  }
}

// -----

// expected-error@+1 {{stage 1 of the plan names node 'd', which the graph does not have; plan the model again}}
module {
  pdc.memory @x input microbatch : tensor<4xf32>
  func.func @train() {
    %x = pdc.read @x : tensor<4xf32>
    %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) {
      %1 = pdc.node "Relu" "a"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %1 : tensor<4xf32>
    }
    %b = pdc.unit "b" origin "b" forward microbatch (%0 = %a : tensor<4xf32>) -> (tensor<4xf32>) {
      %1 = pdc.node "Relu" "b"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %1 : tensor<4xf32>
    }
    %c = pdc.unit "c" origin "c" forward microbatch (%0 = %b : tensor<4xf32>) -> (tensor<4xf32>) {
      %1 = pdc.node "Relu" "c"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %1 : tensor<4xf32>
    }
    return
  }
}

// -----

// expected-error@+1 {{the plan is for microbatches of 4 samples, but the graph's have 8; plan the model again}}
module attributes {pdc.microbatch_size = 8 : i64} {
  pdc.memory @x input microbatch : tensor<4xf32>
  func.func @train() {
    %x = pdc.read @x : tensor<4xf32>
    %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) {
      %1 = pdc.node "Relu" "a"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %1 : tensor<4xf32>
    }
    %b = pdc.unit "b" origin "b" forward microbatch (%0 = %a : tensor<4xf32>) -> (tensor<4xf32>) {
      %1 = pdc.node "Relu" "b"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %1 : tensor<4xf32>
    }
    %c = pdc.unit "c" origin "c" forward microbatch (%0 = %b : tensor<4xf32>) -> (tensor<4xf32>) {
      %1 = pdc.node "Relu" "c"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      %2 = pdc.node "Relu" "d"(%1) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %1 : tensor<4xf32>
    }
    return
  }
}
