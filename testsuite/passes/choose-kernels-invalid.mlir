// RUN: pdc-opt %s -choose-kernels -split-input-file -verify-diagnostics

pdc.memory @x input microbatch : tensor<2xf32>
func.func @train() {
  %x = pdc.read @x : tensor<2xf32>
  // expected-error@+1 {{a node outside of units; run form-units first}}
  %y = pdc.node "Relu" "/relu"(%x) {} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

pdc.memory @x input microbatch : tensor<2x3xf64>
pdc.memory @y metric update : tensor<3x2xf64>
func.func @train() {
  %x = pdc.read @x : tensor<2x3xf64>
  // expected-error@+1 {{unit '/transpose' (Transpose on f64[2,3]): the kernel moves f32, i64, i32, u8 and bool elements, found f64[3,2]}}
  %y = pdc.unit "/transpose" origin "/transpose" forward microbatch (%a = %x : tensor<2x3xf64>) -> (tensor<3x2xf64>) {
    %0 = pdc.node "Transpose" "/transpose"(%a) {perm = array<i64: 1, 0>} : (tensor<2x3xf64>) -> tensor<3x2xf64>
    pdc.yield %0 : tensor<3x2xf64>
  }
  pdc.accumulate %y into @y : tensor<3x2xf64>
  return
}

// -----

pdc.memory @x input microbatch : tensor<2x3xui8>
pdc.memory @y metric update : tensor<1x1xui8>
func.func @train() {
  %x = pdc.read @x : tensor<2x3xui8>
  // expected-error@+1 {{the kernel reduces f32 elements, found u8[1,1]; supported are f32, and of i32 and i64 sums, products, the least and the largest; put a Cast to one of these before it}}
  %y = pdc.unit "/most" origin "/most" forward microbatch (%a = %x : tensor<2x3xui8>) -> (tensor<1x1xui8>) {
    %0 = pdc.node "ReduceMean" "/most"(%a) {} : (tensor<2x3xui8>) -> tensor<1x1xui8>
    pdc.yield %0 : tensor<1x1xui8>
  }
  pdc.accumulate %y into @y : tensor<1x1xui8>
  return
}

// -----

pdc.memory @x input microbatch : tensor<2x3xf32>
pdc.memory @w weight version : tensor<3x2xf32>
func.func @train() {
  %x = pdc.read @x : tensor<2x3xf32>
  %w = pdc.weight_version @w latest : tensor<3x2xf32>
  // expected-error@+1 {{unit '/unread' yields 0 results, expected 1 of kernel MatrixProduct; canonicalize removes nodes that nobody reads before form-units}}
  pdc.unit "/unread" origin "/unread" forward microbatch (%a = %x : tensor<2x3xf32>, %b = %w : tensor<3x2xf32>) -> () {
    %0 = pdc.node "MatMul" "/unread"(%a, %b) {} : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
    pdc.yield
  }
  return
}
