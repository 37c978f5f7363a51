// RUN: pdc-opt %s -differentiate -split-input-file -verify-diagnostics

// expected-error@+1 {{the module has no function @train to differentiate}}
module {
}

// -----

// expected-error@+1 {{@train sums no loss: expected a pdc.accumulate into @pdc.loss}}
func.func @train() {
  return
}

// -----

pdc.memory @x input microbatch : tensor<f32>
pdc.memory @pdc.loss metric update : tensor<f32>
func.func @train() {
  %x = pdc.read @x : tensor<f32>
  %loss = pdc.node "Relu" "loss"(%x) {} : (tensor<f32>) -> tensor<f32>
  // expected-error@+1 {{no trainable weight leads to this loss}}
  pdc.accumulate %loss into @pdc.loss : tensor<f32>
  return
}

// -----

module attributes {pdc.asynchronous} {
  pdc.memory @w weight version : tensor<f32>
  pdc.memory @pdc.loss metric update : tensor<f32>
  func.func @train() {
    %w = pdc.weight_version @w latest : tensor<f32>
    %loss = pdc.node "Relu" "loss"(%w) {} : (tensor<f32>) -> tensor<f32>
    // expected-error@+1 {{asynchronous training needs the weight of each microbatch's loss}}
    pdc.accumulate %loss into @pdc.loss : tensor<f32>
    return
  }
}

// -----

pdc.memory @w weight version : tensor<1x2x1x1xf32>
pdc.memory @pdc.loss metric update : tensor<2xf32>
func.func @train() {
  %w = pdc.weight_version @w latest : tensor<1x2x1x1xf32>
  // expected-error@+1 {{node '/sum' lies between a weight and the loss, but operator 'ConvBiasGrad' has no gradient}}
  %loss = pdc.node "ConvBiasGrad" "/sum"(%w) {} : (tensor<1x2x1x1xf32>) -> tensor<2xf32>
  pdc.accumulate %loss into @pdc.loss : tensor<2xf32>
  return
}
