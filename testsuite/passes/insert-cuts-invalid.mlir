// RUN: pdc-opt %s --insert-cuts -split-input-file -verify-diagnostics

pdc.memory @x input microbatch : tensor<4xf32>
func.func @train() {
  %x = pdc.read @x : tensor<4xf32>
  // expected-error@+1 {{unit 'a' has no stage; run assign-stages first}}
  %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) {
    %1 = pdc.node "Relu" "a"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %1 : tensor<4xf32>
  }
  return
}

// -----

pdc.memory @rate input update : tensor<f32>
func.func @train() {
  %x = pdc.read @rate : tensor<f32>
  // expected-error@+1 {{'norm' of rate update is used in stage 1 but made in stage 0; only values of rate microbatch cross stages}}
  %a = pdc.unit "norm" origin "a" update update (%0 = %x : tensor<f32>) -> (tensor<f32>) attributes {stage = 0 : i64} {
    %1 = pdc.node "Sqrt" "norm"(%0) {} : (tensor<f32>) -> tensor<f32>
    pdc.yield %1 : tensor<f32>
  }
  %b = pdc.unit "use" origin "b" update update (%0 = %a : tensor<f32>) -> (tensor<f32>) attributes {stage = 1 : i64} {
    %1 = pdc.node "Sqrt" "use"(%0) {} : (tensor<f32>) -> tensor<f32>
    pdc.yield %1 : tensor<f32>
  }
  return
}
