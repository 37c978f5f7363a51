// RUN: pdc-opt %s --outline-programs -split-input-file -verify-diagnostics

// expected-error@+1 {{memory 'copy' is given 'x', which no unit makes: a write is never a copy}}
module {
  pdc.memory @x input microbatch : tensor<4xf32>
  pdc.memory @copy state microbatch : tensor<4xf32>
  func.func @train() {
    %x = pdc.read @x : tensor<4xf32>
    %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 0 : i64} {
      %1 = pdc.node "Relu" "a"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %1 : tensor<4xf32>
    }
    pdc.write %x to @copy : tensor<4xf32>
    return
  }
}

// -----

// The running mean as it was would be read behind its next value.
// expected-error@+1 {{memory 'mean' is read for a unit that runs after its next value is written}}
module {
  pdc.memory @mean state microbatch : tensor<4xf32>
  func.func @train() {
    %x = pdc.read @mean : tensor<4xf32>
    %old = pdc.read @mean : tensor<4xf32>
    %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>, stage = 0 : i64} {
      %1 = pdc.node "Relu" "a"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %1 : tensor<4xf32>
    }
    pdc.write %a to @mean : tensor<4xf32>
    %b = pdc.unit "b" origin "b" forward microbatch (%0 = %old : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>, stage = 0 : i64} {
      %1 = pdc.node "Relu" "b"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %1 : tensor<4xf32>
    }
    return
  }
}

// -----

// expected-error@+1 {{@train and @evaluate have no units; run form-units first}}
module {
  func.func @train() {
    return
  }
}

// -----

// The backward task would find what the forward task has written.
// expected-error@+1 {{memory 'mean' is read for a unit that runs after its next value is written}}
module {
  pdc.memory @mean state microbatch : tensor<4xf32>
  pdc.memory @sum gradient update : tensor<4xf32>
  func.func @train() {
    %m = pdc.read @mean : tensor<4xf32>
    %a = pdc.unit "a" origin "a" forward microbatch (%0 = %m : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 0 : i64} {
      %1 = pdc.node "Neg" "a"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %1 : tensor<4xf32>
    }
    pdc.write %a to @mean : tensor<4xf32>
    %g = pdc.unit "a/grad" origin "a" backward microbatch (%0 = %m : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 0 : i64} {
      %1 = pdc.node "Neg" "a/grad"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %1 : tensor<4xf32>
    }
    pdc.accumulate %g into @sum : tensor<4xf32>
    return
  }
}

// -----

// expected-error@+1 {{'a' of stage 0 is read on stage 1 without a cut; run insert-cuts first}}
module {
  pdc.memory @x input microbatch : tensor<4xf32>
  pdc.memory @loss metric update : tensor<4xf32>
  func.func @train() {
    %x = pdc.read @x : tensor<4xf32>
    %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {kernel = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>, stage = 0 : i64} {
      %1 = pdc.node "Neg" "a"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %1 : tensor<4xf32>
    }
    %b = pdc.unit "b" origin "b" forward microbatch (%0 = %a : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 1 : i64} {
      %1 = pdc.node "Neg" "b"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
      pdc.yield %1 : tensor<4xf32>
    }
    pdc.accumulate %b into @loss : tensor<4xf32>
    return
  }
}
