// RUN: pdc-opt %s --recognise-composites --check-against=%s -o - | FileCheck %s

// nn.LocalResponseNorm as PyTorch's exporters write it.

pdc.memory @image input microbatch : tensor<2x6x3x3xf32>
pdc.memory @line input microbatch : tensor<2x6x4xf32>
pdc.memory @of_image metric update : tensor<2x6x3x3xf32>
pdc.memory @of_line metric update : tensor<2x6x4xf32>
pdc.memory @of_even metric update : tensor<2x6x4xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK-DAG: %[[IMAGE:.*]] = pdc.read @image
  // CHECK-DAG: %[[LINE:.*]] = pdc.read @line
  %image = pdc.read @image : tensor<2x6x3x3xf32>
  %line = pdc.read @line : tensor<2x6x4xf32>
  %alpha = pdc.node "Constant" "alpha"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %bias = pdc.node "Constant" "bias"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %beta = pdc.node "Constant" "beta"() {value = dense<0.75> : tensor<f32>} : () -> tensor<f32>
  // Of images by a pooling of three dimensions.
  // CHECK: pdc.node "LRN" "response"(%[[IMAGE]]) {alpha = 5.000000e-01 : f64, beta = 7.500000e-01 : f64, bias = 2.000000e+00 : f64, size = 5 : i64}
  %square = pdc.node "Mul" "square"(%image, %image) {} : (tensor<2x6x3x3xf32>, tensor<2x6x3x3xf32>) -> tensor<2x6x3x3xf32>
  %deep_shape = pdc.node "Constant" "deep_shape"() {value = dense<[2, 1, 6, 3, 3]> : tensor<5xi64>} : () -> tensor<5xi64>
  %deep = pdc.node "Reshape" "deep"(%square, %deep_shape) {} : (tensor<2x6x3x3xf32>, tensor<5xi64>) -> tensor<2x1x6x3x3xf32>
  %pads = pdc.node "Constant" "pads"() {value = dense<[0, 0, 2, 0, 0, 0, 0, 2, 0, 0]> : tensor<10xi64>} : () -> tensor<10xi64>
  %padded = pdc.node "Pad" "padded"(%deep, %pads) {mode = "constant"} : (tensor<2x1x6x3x3xf32>, tensor<10xi64>) -> tensor<2x1x10x3x3xf32>
  %mean = pdc.node "AveragePool" "mean"(%padded) {count_include_pad = 1 : i64, kernel_shape = array<i64: 5, 1, 1>, pads = array<i64: 0, 0, 0, 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<2x1x10x3x3xf32>) -> tensor<2x1x6x3x3xf32>
  %one = pdc.node "Constant" "one"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  %flat = pdc.node "Squeeze" "flat"(%mean, %one) {} : (tensor<2x1x6x3x3xf32>, tensor<1xi64>) -> tensor<2x6x3x3xf32>
  %scaled = pdc.node "Mul" "scaled"(%flat, %alpha) {} : (tensor<2x6x3x3xf32>, tensor<f32>) -> tensor<2x6x3x3xf32>
  %shifted = pdc.node "Add" "shifted"(%bias, %scaled) {} : (tensor<f32>, tensor<2x6x3x3xf32>) -> tensor<2x6x3x3xf32>
  %power = pdc.node "Pow" "power"(%shifted, %beta) {} : (tensor<2x6x3x3xf32>, tensor<f32>) -> tensor<2x6x3x3xf32>
  %response = pdc.node "Div" "response"(%image, %power) {} : (tensor<2x6x3x3xf32>, tensor<2x6x3x3xf32>) -> tensor<2x6x3x3xf32>
  pdc.accumulate %response into @of_image : tensor<2x6x3x3xf32>

  // Of lines by one of two, of three channels; padded once more with nothing.
  // CHECK: pdc.node "LRN" "line_response"(%[[LINE]]) {{.*}}size = 3 : i64}
  %line_square = pdc.node "Mul" "line_square"(%line, %line) {} : (tensor<2x6x4xf32>, tensor<2x6x4xf32>) -> tensor<2x6x4xf32>
  %line_deep = pdc.node "Unsqueeze" "line_deep"(%line_square, %one) {} : (tensor<2x6x4xf32>, tensor<1xi64>) -> tensor<2x1x6x4xf32>
  %line_pads = pdc.node "Constant" "line_pads"() {value = dense<[0, 0, 1, 0, 0, 0, 1, 0]> : tensor<8xi64>} : () -> tensor<8xi64>
  %line_padded = pdc.node "Pad" "line_padded"(%line_deep, %line_pads) {mode = "constant"} : (tensor<2x1x6x4xf32>, tensor<8xi64>) -> tensor<2x1x8x4xf32>
  %no_pads = pdc.node "Constant" "no_pads"() {value = dense<0> : tensor<8xi64>} : () -> tensor<8xi64>
  %line_again = pdc.node "Pad" "line_again"(%line_padded, %no_pads) {} : (tensor<2x1x8x4xf32>, tensor<8xi64>) -> tensor<2x1x8x4xf32>
  %line_mean = pdc.node "AveragePool" "line_mean"(%line_again) {kernel_shape = array<i64: 3, 1>} : (tensor<2x1x8x4xf32>) -> tensor<2x1x6x4xf32>
  %line_flat = pdc.node "Squeeze" "line_flat"(%line_mean, %one) {} : (tensor<2x1x6x4xf32>, tensor<1xi64>) -> tensor<2x6x4xf32>
  %line_scaled = pdc.node "Mul" "line_scaled"(%line_flat, %alpha) {} : (tensor<2x6x4xf32>, tensor<f32>) -> tensor<2x6x4xf32>
  %line_shifted = pdc.node "Add" "line_shifted"(%line_scaled, %bias) {} : (tensor<2x6x4xf32>, tensor<f32>) -> tensor<2x6x4xf32>
  %line_power = pdc.node "Pow" "line_power"(%line_shifted, %beta) {} : (tensor<2x6x4xf32>, tensor<f32>) -> tensor<2x6x4xf32>
  %line_response = pdc.node "Div" "line_response"(%line, %line_power) {} : (tensor<2x6x4xf32>, tensor<2x6x4xf32>) -> tensor<2x6x4xf32>
  pdc.accumulate %line_response into @of_line : tensor<2x6x4xf32>

  // The window of an even size begins one channel before ONNX's.
  // CHECK: pdc.node "Div" "even_response"
  %even_pads = pdc.node "Constant" "even_pads"() {value = dense<[0, 0, 2, 0, 0, 0, 1, 0]> : tensor<8xi64>} : () -> tensor<8xi64>
  %even_padded = pdc.node "Pad" "even_padded"(%line_deep, %even_pads) {mode = "constant"} : (tensor<2x1x6x4xf32>, tensor<8xi64>) -> tensor<2x1x9x4xf32>
  %even_mean = pdc.node "AveragePool" "even_mean"(%even_padded) {kernel_shape = array<i64: 4, 1>} : (tensor<2x1x9x4xf32>) -> tensor<2x1x6x4xf32>
  %even_flat = pdc.node "Squeeze" "even_flat"(%even_mean, %one) {} : (tensor<2x1x6x4xf32>, tensor<1xi64>) -> tensor<2x6x4xf32>
  %even_scaled = pdc.node "Mul" "even_scaled"(%even_flat, %alpha) {} : (tensor<2x6x4xf32>, tensor<f32>) -> tensor<2x6x4xf32>
  %even_shifted = pdc.node "Add" "even_shifted"(%even_scaled, %bias) {} : (tensor<2x6x4xf32>, tensor<f32>) -> tensor<2x6x4xf32>
  %even_power = pdc.node "Pow" "even_power"(%even_shifted, %beta) {} : (tensor<2x6x4xf32>, tensor<f32>) -> tensor<2x6x4xf32>
  %even_response = pdc.node "Div" "even_response"(%line, %even_power) {} : (tensor<2x6x4xf32>, tensor<2x6x4xf32>) -> tensor<2x6x4xf32>
  pdc.accumulate %even_response into @of_even : tensor<2x6x4xf32>
  return
}
