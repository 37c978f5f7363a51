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

// -----

pdc.memory @x input microbatch : tensor<4x6xf32>
pdc.memory @pdc.loss metric update : tensor<f32>
func.func @train() {
  %x = pdc.read @x : tensor<4x6xf32>
  %y = pdc.node "Relu" "/Relu"(%x) {} : (tensor<4x6xf32>) -> tensor<*xf32>
  // expected-error@+1 {{the loss must be a scalar: expected f32[], found f32[4,6]; choose a scalar output, or export its mean}}
  pdc.accumulate %y into @pdc.loss : tensor<*xf32>
  return
}

// -----

func.func @train() {
  %a = pdc.node "Constant" "/a"() {value = dense<9007199254740992> : tensor<1xi64>} : () -> tensor<*xi64>
  %b = pdc.node "Constant" "/b"() {value = dense<2> : tensor<1xi64>} : () -> tensor<*xi64>
  // expected-error@+1 {{node '/sum' makes the integer 9007199254740994 at compile time, expected at most 9007199254740992 (2^53)}}
  %c = pdc.node "Add" "/sum"(%a, %b) {} : (tensor<*xi64>, tensor<*xi64>) -> tensor<*xi64>
  return
}

// -----

pdc.memory @x input microbatch : tensor<2xf32>
func.func @train() {
  %x = pdc.read @x : tensor<2xf32>
  %two = pdc.node "Constant" "/two"() {value = dense<2.0> : tensor<2xf32>} : () -> tensor<*xf32>
  %y = pdc.node "Mul" "/y"(%x, %two) {} : (tensor<2xf32>, tensor<*xf32>) -> tensor<*xf32>
  // expected-error@+1 {{node '/g' (Gradient): value 1 of xs is a constant of the graph; make it an input or an initializer}}
  %g:2 = pdc.node "ai.onnx.preview.training.Gradient" "/g"(%x, %two, %y) {} : (tensor<2xf32>, tensor<*xf32>, tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  return
}

// -----

pdc.memory @x input microbatch : tensor<2xi64>
func.func @train() {
  %x = pdc.read @x : tensor<2xi64>
  %y = pdc.node "Neg" "/y"(%x) {} : (tensor<2xi64>) -> tensor<*xi64>
  // expected-error@+1 {{node '/g' (Gradient): value 0 of xs is i64[2], expected floating-point numbers; take it out}}
  %g = pdc.node "ai.onnx.preview.training.Gradient" "/g"(%x, %y) {} : (tensor<2xi64>, tensor<*xi64>) -> tensor<*xi64>
  return
}

// -----

pdc.memory @x input microbatch : tensor<2xf32>
func.func @train() {
  %x = pdc.read @x : tensor<2xf32>
  %y = pdc.node "ErfGrad" "/y"(%x, %x) {} : (tensor<2xf32>, tensor<2xf32>) -> tensor<*xf32>
  // expected-error@+1 {{node '/y' lies between a value and what is differentiated by it, but operator 'ErfGrad' has no gradient}}
  %g = pdc.node "ai.onnx.preview.training.Gradient" "/g"(%x, %y) {} : (tensor<2xf32>, tensor<*xf32>) -> tensor<*xf32>
  return
}

// -----

func.func @train() {
  // expected-error@+1 {{node '/g' (ai.onnx.preview.training.Gradient): has 1 outputs and 0 inputs, expected an input for each output and the value that is differentiated}}
  %g = pdc.node "ai.onnx.preview.training.Gradient" "/g"() {} : () -> tensor<*xf32>
  return
}

// -----

pdc.memory @x input microbatch : tensor<2xf32>
func.func @train() {
  %x = pdc.read @x : tensor<2xf32>
  %y = pdc.node "Neg" "/y"(%x) {} : (tensor<2xf32>) -> tensor<*xf32>
  // expected-error@+1 {{node '/g' (ai.onnx.preview.training.Gradient): has 3 outputs and 2 inputs, expected an input for each output and the value that is differentiated}}
  %g:3 = pdc.node "ai.onnx.preview.training.Gradient" "/g"(%x, %y) {} : (tensor<2xf32>, tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return
}

// -----

// y = x z, z = x x: by x with z held fixed.
pdc.memory @x input microbatch : tensor<2xf32>
func.func @train() {
  %x = pdc.read @x : tensor<2xf32>
  %z = pdc.node "Mul" "/z"(%x, %x) {} : (tensor<2xf32>, tensor<2xf32>) -> tensor<*xf32>
  %y = pdc.node "Mul" "/y"(%x, %z) {} : (tensor<2xf32>, tensor<*xf32>) -> tensor<*xf32>
  // expected-error@+1 {{node '/g' (Gradient): value 1 of xs and zs is computed from another of them, expected independent values; take one of the two out}}
  %g = pdc.node "ai.onnx.preview.training.Gradient" "/g"(%x, %z, %y) {} : (tensor<2xf32>, tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return
}

// -----

pdc.memory @x input microbatch : tensor<1x1x60000x60000xf32>
func.func @train() {
  %x = pdc.read @x : tensor<1x1x60000x60000xf32>
  // expected-error@+1 {{node '/pool' (MaxPool): has [60000,60000] windows of [60000,60000] elements, expected at most 16777216 elements in all windows of a channel where it has dilations or a second output; pool in smaller steps or without them}}
  %y:2 = pdc.node "MaxPool" "/pool"(%x) {indices = 1 : i64, kernel_shape = array<i64: 60000, 60000>, pads = array<i64: 59999, 59999, 0, 0>} : (tensor<1x1x60000x60000xf32>) -> (tensor<*xf32>, tensor<*xi64>)
  return
}

// -----

// Two of four rows were selected when the file was made, with sizes for those.
pdc.memory @x input microbatch : tensor<2x2xf32>
pdc.memory @mask input microbatch : tensor<2x2xi1>
func.func @train() {
  %x = pdc.read @x : tensor<2x2xf32>
  %mask = pdc.read @mask : tensor<2x2xi1>
  %sizes = pdc.node "Constant" "/sizes"() {value = dense<1> : tensor<2xi64>} : () -> tensor<2xi64>
  %rows = pdc.node "pdc.SelectedRows" "/rows"(%x, %mask) {} : (tensor<2x2xf32>, tensor<2x2xi1>) -> tensor<*xf32>
  // expected-error@+1 {{node '/each' (Split): sizes [1,1] for 2 outputs do not make dimension 0 of f32[4]; if it was made for fewer rows: data select some of those that it reads, and how many is not known when it is compiled}}
  %each:2 = pdc.node "Split" "/each"(%rows, %sizes) {axis = 0 : i64} : (tensor<*xf32>, tensor<2xi64>) -> (tensor<*xf32>, tensor<*xf32>)
  return
}
