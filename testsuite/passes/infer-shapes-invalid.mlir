// RUN: pdc-opt %s -infer-shapes -split-input-file -verify-diagnostics

pdc.memory @x input microbatch : tensor<4x6xf32>
pdc.memory @w weight version : tensor<8x5xf32>
func.func @train() {
  %x = pdc.read @x : tensor<4x6xf32>
  %w = pdc.weight_version @w latest : tensor<8x5xf32>
  // expected-error@+1 {{/fc/Gemm}}
  %y = pdc.node "Gemm" "/fc/Gemm"(%x, %w) {transB = 1 : i64} : (tensor<4x6xf32>, tensor<8x5xf32>) -> tensor<*xf32>
  return
}

// -----

pdc.memory @x input microbatch : tensor<4x6xf32>
func.func @train() {
  %x = pdc.read @x : tensor<4x6xf32>
  // expected-error@+1 {{node '/Frobnicate' has operator 'Frobnicate', which pdc does not know}}
  %y = pdc.node "Frobnicate" "/Frobnicate"(%x) {} : (tensor<4x6xf32>) -> tensor<*xf32>
  return
}

// -----

pdc.memory @x input microbatch : tensor<4x6xf32>
func.func @train() {
  %x = pdc.read @x : tensor<4x6xf32>
  // expected-error@+1 {{node '/Relu' (Relu) has 2 outputs, but the operator has 1}}
  %y:2 = pdc.node "Relu" "/Relu"(%x) {} : (tensor<4x6xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  return
}
