// RUN: pdc-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{has type 'tensor<*xf32>', expected a static shape}}
pdc.memory @x input microbatch : tensor<*xf32>

// -----

// expected-error@+1 {{has type 'tensor<2xi4>', expected elements of type f32, f64, f16, bf16, i64, i32, i8, ui8 or i1}}
pdc.memory @x input microbatch : tensor<2xi4>

// -----

// expected-error@+1 {{has type 'tensor<3000000x3000000xf32>', expected at most 1099511627776 elements}}
pdc.memory @x input microbatch : tensor<3000000x3000000xf32>

// -----

// expected-error@+1 {{expected a #pdc.layout of 1 dimensions}}
pdc.memory @x input microbatch : tensor<2xf32, #pdc.layout<"ab">>

// -----

// expected-error@+1 {{has initial value "zero", expected a floating-point number, "file" or elements of }}
pdc.memory @x weight version : tensor<2xf32> {initial = "zero"}

// -----

// expected-error@+1 {{has depth 0, expected 1 to 65536}}
pdc.memory @x weight version : tensor<2xf32> {depth = 0 : i64}

// -----

// expected-error@+1 {{has 7 : i64 in 'transfers', expected a #pdc.transfer}}
pdc.memory @x outbox microbatch : tensor<2xf32> {transfers = [7]}

// -----

func.func @train(%x: tensor<2xf32>) {
  // expected-error@+1 {{reads an argument of 'func.func' as operand 0, expected a result; what comes from outside is a pdc.memory}}
  %a = pdc.node "Relu" "a"(%x) {} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func private @other() -> tensor<2xf32>
func.func @train() {
  %x = func.call @other() : () -> tensor<2xf32>
  // expected-error@+1 {{reads a result of 'func.call' as operand 0, expected one of a pdc operation in the same block}}
  %a = pdc.node "Relu" "a"(%x) {} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

pdc.memory @x input microbatch : tensor<2xf32>
// expected-error@+1 {{stands in 'builtin.module', expected a function or a task}}
%x = pdc.read @x : tensor<2xf32>

// -----

pdc.memory @x input microbatch : tensor<2xf32>
func.func @train() {
  %x = pdc.read @x : tensor<2xf32>
  // expected-error@+1 {{has result 0 of type 'tensor<3xf32>', but its body yields 'tensor<2xf32>'}}
  %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<2xf32>) -> (tensor<3xf32>) {
    %1 = pdc.node "Relu" "a"(%0) {} : (tensor<2xf32>) -> tensor<2xf32>
    pdc.yield %1 : tensor<2xf32>
  }
  return
}

// -----

pdc.memory @x input microbatch : tensor<2xf32>
func.func @train() {
  %x = pdc.read @x : tensor<2xf32>
  // expected-error@+1 {{has operand 0 of type 'tensor<2xf32>', but its body takes 'tensor<3xf32>'}}
  %a = "pdc.unit"(%x) ({
  ^bb0(%0: tensor<3xf32>):
    %1 = pdc.node "Relu" "a"(%0) {} : (tensor<3xf32>) -> tensor<3xf32>
    pdc.yield %1 : tensor<3xf32>
  }) {name = "a", origin = "a", phase = 0 : i32, rate = 2 : i32} : (tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

pdc.memory @x input microbatch : tensor<2xf32>
func.func @train() {
  %x = pdc.read @x : tensor<2xf32>
  // expected-error@+1 {{has 'in_place' [0, 1], expected pairs of an operand and a result}}
  %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<2xf32>) -> (tensor<2xf32>) attributes {in_place = array<i64: 0, 1>} {
    %1 = pdc.node "Relu" "a"(%0) {} : (tensor<2xf32>) -> tensor<2xf32>
    pdc.yield %1 : tensor<2xf32>
  }
  return
}

// -----

pdc.memory @x input microbatch : tensor<2xf32>
func.func @train() {
  %x = pdc.read @x : tensor<2xf32>
  // expected-error@+1 {{expected one #pdc.home for each of 1 results}}
  %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<2xf32>) -> (tensor<2xf32>) attributes {homes = []} {
    %1 = pdc.node "Relu" "a"(%0) {} : (tensor<2xf32>) -> tensor<2xf32>
    pdc.yield %1 : tensor<2xf32>
  }
  return
}

// -----

pdc.memory @x input microbatch : tensor<2xf32>
func.func @train() {
  %x = pdc.read @x : tensor<2xf32>
  // expected-error@+1 {{takes a value that no unit makes}}
  %y = pdc.cut %x from 0 to 1 : tensor<2xf32> -> tensor<2xf32>
  return
}

// -----

pdc.memory @x input microbatch : tensor<2xf32>
func.func @train() {
  %x = pdc.read @x : tensor<2xf32>
  %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<2xf32>) -> (tensor<2xf32>) attributes {stage = 1 : i64} {
    %1 = pdc.node "Relu" "a"(%0) {} : (tensor<2xf32>) -> tensor<2xf32>
    pdc.yield %1 : tensor<2xf32>
  }
  // expected-error@+1 {{from stage 0, but unit 'a' that makes the value is on stage 1}}
  %y = pdc.cut %a from 0 to 2 : tensor<2xf32> -> tensor<2xf32>
  return
}

// -----

pdc.memory @x input microbatch : tensor<2xf32>
func.func @train() {
  %x = pdc.read @x : tensor<2xf32>
  %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<2xf32>) -> (tensor<2xf32>) {
    %1 = pdc.node "Relu" "a"(%0) {} : (tensor<2xf32>) -> tensor<2xf32>
    pdc.yield %1 : tensor<2xf32>
  }
  // expected-error@+1 {{takes a value of type 'tensor<2xf32>' but gives 'tensor<3xf32>'}}
  %y = pdc.cut %a from 0 to 2 : tensor<2xf32> -> tensor<3xf32>
  return
}

// -----

// expected-error@+1 {{runs on no rank, expected at least one}}
pdc.program @p ranks [] {
}

// -----

// expected-error@+1 {{names rank 1 twice}}
pdc.program @p ranks [1, 1] {
}

// -----

// expected-error@+1 {{has rank -1, expected 0 to 65535}}
pdc.program @p ranks [-1] {
}

// -----

// expected-error@+1 {{in 'regions', expected {name, offset, stride, copies}}}
pdc.program @p ranks [0] attributes {regions = [{name = "fixed", offset = -1 : i64, stride = 0 : i64, copies = 1 : i64}]} {
}

// -----

pdc.program @p ranks [0] {
  // expected-error@+1 {{has slot -1, expected 0 to 65535}}
  pdc.stage 0 attributes {slots = array<i64: -1>} {
  }
}

// -----

pdc.program @p ranks [0] {
  pdc.stage 0 {
    pdc.task forward {
      // expected-error@+1 {{stands in 'pdc.task', which holds units and what they read and write}}
      func.call @f() : () -> ()
    }
  }
}
func.func @f() {
  return
}

// -----

pdc.program @p ranks [0] {
  // expected-error@+1 {{has microbatches 0, expected 1 to 1048576}}
  pdc.schedule "s" attributes {asynchronous = false, microbatches = 0 : i64, period = 0 : i64} warm_up {
  } repeat {
  } drain {
  }
}

// -----

pdc.program @p ranks [0] {
  // expected-error@+1 {{gives its tasks weights 'at_entry', expected 'at_entry' or 'previous' in an asynchronous schedule, or none}}
  pdc.schedule "s" attributes {asynchronous = false, microbatches = 1 : i64, period = 0 : i64, weights = 2 : i32} warm_up {
  } repeat {
  } drain {
  }
}

// -----

pdc.program @p ranks [0] {
  pdc.memory @y inbox microbatch : tensor<2xf32>
  pdc.schedule "s" attributes {asynchronous = false, microbatches = 1 : i64, period = 0 : i64} warm_up {
    // expected-error@+1 {{names @y, which is no outbox of the program}}
    pdc.send @y stage 0 microbatch 0 to 1 tag 0
  } repeat {
  } drain {
  }
}

// -----

pdc.program @p ranks [0] {
  pdc.schedule "s" attributes {asynchronous = false, microbatches = 1 : i64, period = 0 : i64} warm_up {
    // expected-error@+1 {{has stage 4294967296, expected 0 to 65535}}
    pdc.run 4294967296 forward 0
  } repeat {
  } drain {
  }
}

// -----

pdc.program @p ranks [0] {
  pdc.schedule "s" attributes {asynchronous = false, microbatches = 1 : i64, period = 0 : i64} warm_up {
    // expected-error@+1 {{names 7 : i64, expected memories such as @pdc.loss}}
    pdc.all_reduce [7]
  } repeat {
  } drain {
  }
}
