// RUN: pdc-opt %s -label-phases -verify-diagnostics

pdc.memory @x input microbatch : tensor<f32>
pdc.memory @lr input update : tensor<f32>
func.func @train() {
  %x = pdc.read @x : tensor<f32>
  %lr = pdc.read @lr : tensor<f32>
  // expected-error@+1 {{node '/mul' reads a value of each microbatch and one of each update; only pdc.accumulate leads from one to the other}}
  %y = pdc.node "Mul" "/mul"(%x, %lr) {} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return
}
