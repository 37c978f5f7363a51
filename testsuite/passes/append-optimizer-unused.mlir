// RUN: pdc-opt %s -append-optimizer -verify-diagnostics -split-input-file

pdc.memory @w weight version : tensor<3xf32>
pdc.memory @"w/gradient" gradient update : tensor<3xf32>
// expected-warning@+1 {{no gradient reaches weight 'unused'; it keeps its value}}
pdc.memory @unused weight version : tensor<3xf32>
func.func @train() {
  %w = pdc.weight_version @w latest : tensor<3xf32>
  %0 = pdc.node "Relu" "/relu"(%w) {} : (tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

// expected-error@+1 {{@train has no weight with a gradient; run differentiate first}}
module {
  func.func @train() {
    return
  }
}
