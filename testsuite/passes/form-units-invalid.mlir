// RUN: pdc-opt %s -form-units -split-input-file -verify-diagnostics

pdc.memory @x input microbatch : tensor<2xf32>
func.func @train() {
  %x = pdc.read @x : tensor<2xf32>
  // expected-error@+1 {{node '/relu' has no phase or no rate; run label-phases first}}
  %y = pdc.node "Relu" "/relu"(%x) {} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

pdc.memory @x input microbatch : tensor<2xf32>
func.func @train() {
  %x = pdc.read @x : tensor<2xf32>
  // expected-error@+1 {{node '/relu/grad' comes from node '/relu', which is not in this function}}
  %y = pdc.node "ReluGrad" "/relu/grad"(%x, %x) {} origin "/relu" phase backward_input rate microbatch : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}
