// RUN: pdc-opt %s --recognise-composites --check-against=%s -o - | FileCheck %s

pdc.memory @x input microbatch : tensor<4x6xf32>
pdc.memory @scale weight version : tensor<6xf32>
pdc.memory @bias weight version : tensor<6xf32>
pdc.memory @one metric update : tensor<4x6xf32>
pdc.memory @two metric update : tensor<4x6xf32>
pdc.memory @three metric update : tensor<4x6xf32>
pdc.memory @four metric update : tensor<4x6xf32>
pdc.memory @five metric update : tensor<4x6xf32>
pdc.memory @six metric update : tensor<4x6xf32>

// As PyTorch exports LayerNorm before opset 17.
// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK-NEXT: %[[X:.*]] = pdc.read @x
  %x = pdc.read @x : tensor<4x6xf32>
  // CHECK-NEXT: %[[SCALE:.*]] = pdc.weight_version @scale
  %scale = pdc.weight_version @scale latest : tensor<6xf32>
  // CHECK-NEXT: %[[BIAS:.*]] = pdc.weight_version @bias
  %bias = pdc.weight_version @bias latest : tensor<6xf32>
  %last = pdc.node "Constant" "last"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %half = pdc.node "Constant" "half"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %1 = pdc.node "Constant" "1"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %2 = pdc.node "Constant" "2"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %3 = pdc.node "Constant" "3"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %epsilon = pdc.node "Constant" "epsilon"() {value = dense<9.765625e-04> : tensor<f32>} : () -> tensor<f32>
  %root2 = pdc.node "Constant" "root 2"() {value = dense<1.41421354> : tensor<f32>} : () -> tensor<f32>
  %small = pdc.node "Constant" "small"() {value = dense<4.471500e-02> : tensor<f32>} : () -> tensor<f32>
  %curved = pdc.node "Constant" "curved"() {value = dense<0.797884583> : tensor<f32>} : () -> tensor<f32>

  // CHECK-NEXT: %[[NORM:.*]]:3 = pdc.node "LayerNormalization" "norm"(%[[X]], %[[SCALE]], %[[BIAS]]) {axis = 1 : i64, epsilon = 9.765625E-4 : f64}
  %mean = pdc.node "ReduceMean" "mean"(%x, %last) {} : (tensor<4x6xf32>, tensor<1xi64>) -> tensor<4x1xf32>
  %centred = pdc.node "Sub" "centred"(%x, %mean) {} : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  %squares = pdc.node "Pow" "squares"(%centred, %2) {} : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  %variance = pdc.node "ReduceMean" "variance"(%squares, %last) {} : (tensor<4x6xf32>, tensor<1xi64>) -> tensor<4x1xf32>
  %shifted = pdc.node "Add" "shifted"(%variance, %epsilon) {} : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %deviation = pdc.node "Sqrt" "deviation"(%shifted) {} : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %rows = pdc.node "Div" "rows"(%centred, %deviation) {} : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  %scaled = pdc.node "Mul" "scaled"(%rows, %scale) {} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %norm = pdc.node "Add" "norm"(%scaled, %bias) {} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  // CHECK-NEXT: pdc.accumulate %[[NORM]]#0 into @one
  pdc.accumulate %norm into @one : tensor<4x6xf32>

  // torch.var centres its rows itself, and what is kept of them has a shape of its own.
  // CHECK-NEXT: %[[VAR:.*]]:3 = pdc.node "LayerNormalization" "var"(%[[X]], %[[SCALE]], %[[BIAS]]) {axis = 1 : i64, epsilon = 9.765625E-4 : f64}
  %own = pdc.node "ReduceMean" "own"(%x, %last) {} : (tensor<4x6xf32>, tensor<1xi64>) -> tensor<4x1xf32>
  %around = pdc.node "Sub" "around"(%x, %own) {} : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  %spread = pdc.node "Mul" "spread"(%around, %around) {} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %flat = pdc.node "ReduceMean" "flat"(%spread, %last) {keepdims = 0 : i64} : (tensor<4x6xf32>, tensor<1xi64>) -> tensor<4xf32>
  %column = pdc.node "Unsqueeze" "column"(%flat, %last) {} : (tensor<4xf32>, tensor<1xi64>) -> tensor<4x1xf32>
  %shift = pdc.node "Add" "shift"(%column, %epsilon) {} : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %width = pdc.node "Sqrt" "width"(%shift) {} : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %even = pdc.node "Div" "even"(%centred, %width) {} : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  %times = pdc.node "Mul" "times"(%scale, %even) {} : (tensor<6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %var = pdc.node "Add" "var"(%times, %bias) {} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  // CHECK-NEXT: pdc.accumulate %[[VAR]]#0 into @six
  pdc.accumulate %var into @six : tensor<4x6xf32>

  // CHECK-NEXT: %[[RMS:.*]]:2 = pdc.node "RMSNormalization" "rms"(%[[X]], %[[SCALE]]) {axis = 1 : i64, epsilon = 9.765625E-4 : f64}
  %product = pdc.node "Mul" "product"(%x, %x) {} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %square = pdc.node "ReduceMean" "square"(%product, %last) {keepdims = 1 : i64} : (tensor<4x6xf32>, tensor<1xi64>) -> tensor<4x1xf32>
  %above = pdc.node "Add" "above"(%epsilon, %square) {} : (tensor<f32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %root = pdc.node "Sqrt" "root"(%above) {} : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %inverse = pdc.node "Div" "inverse"(%1, %root) {} : (tensor<f32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %whole = pdc.node "Mul" "whole"(%x, %inverse) {} : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  %rms = pdc.node "Mul" "rms"(%scale, %whole) {} : (tensor<6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK-NEXT: pdc.accumulate %[[RMS]]#0 into @two
  pdc.accumulate %rms into @two : tensor<4x6xf32>

  // CHECK-NEXT: %[[GELU:.*]] = pdc.node "Gelu" "gelu"(%[[X]]) {}
  %quotient = pdc.node "Div" "quotient"(%x, %root2) {} : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  %erf = pdc.node "Erf" "erf"(%quotient) {} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %gate = pdc.node "Add" "gate"(%erf, %1) {} : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  %gated = pdc.node "Mul" "gated"(%x, %gate) {} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %gelu = pdc.node "Mul" "gelu"(%gated, %half) {} : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  // CHECK-NEXT: pdc.accumulate %[[GELU]] into @three
  pdc.accumulate %gelu into @three : tensor<4x6xf32>

  // CHECK-NEXT: %[[FAST:.*]] = pdc.node "FastGelu" "fast"(%[[X]]) {}
  %halved = pdc.node "Mul" "halved"(%half, %x) {} : (tensor<f32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %cube = pdc.node "Pow" "cube"(%x, %3) {} : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  %little = pdc.node "Mul" "little"(%cube, %small) {} : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  %bent = pdc.node "Add" "bent"(%x, %little) {} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %curve = pdc.node "Mul" "curve"(%bent, %curved) {} : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  %tanh = pdc.node "Tanh" "tanh"(%curve) {} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %open = pdc.node "Add" "open"(%1, %tanh) {} : (tensor<f32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %fast = pdc.node "Mul" "fast"(%halved, %open) {} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK-NEXT: pdc.accumulate %[[FAST]] into @four
  pdc.accumulate %fast into @four : tensor<4x6xf32>

  // CHECK-NEXT: %[[SWISH:.*]] = pdc.node "Swish" "swish"(%[[X]]) {}
  %sigmoid = pdc.node "Sigmoid" "sigmoid"(%x) {} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %swish = pdc.node "Mul" "swish"(%sigmoid, %x) {} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK-NEXT: pdc.accumulate %[[SWISH]] into @five
  pdc.accumulate %swish into @five : tensor<4x6xf32>
  return
}

// Not quite: another axis, another number, another operand.
// CHECK-LABEL: func.func @evaluate
func.func @evaluate() {
  %x = pdc.read @x : tensor<4x6xf32>
  %scale = pdc.weight_version @scale latest : tensor<6xf32>
  %first = pdc.node "Constant" "first"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %half = pdc.node "Constant" "half"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %1 = pdc.node "Constant" "1"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  // CHECK-NOT: "RMSNormalization"
  %product = pdc.node "Mul" "product"(%x, %x) {} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %square = pdc.node "ReduceMean" "square"(%product, %first) {} : (tensor<4x6xf32>, tensor<1xi64>) -> tensor<1x6xf32>
  %above = pdc.node "Add" "above"(%half, %square) {} : (tensor<f32>, tensor<1x6xf32>) -> tensor<1x6xf32>
  %root = pdc.node "Sqrt" "root"(%above) {} : (tensor<1x6xf32>) -> tensor<1x6xf32>
  %whole = pdc.node "Div" "whole"(%x, %root) {} : (tensor<4x6xf32>, tensor<1x6xf32>) -> tensor<4x6xf32>
  %rms = pdc.node "Mul" "rms"(%scale, %whole) {} : (tensor<6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  pdc.accumulate %rms into @one : tensor<4x6xf32>
  // Rows that are centred over another dimension than the variance is taken of.
  // CHECK-NOT: "LayerNormalization"
  %last = pdc.node "Constant" "last"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %bias = pdc.weight_version @bias latest : tensor<6xf32>
  %columns = pdc.node "ReduceMean" "columns"(%x, %first) {} : (tensor<4x6xf32>, tensor<1xi64>) -> tensor<1x6xf32>
  %centred = pdc.node "Sub" "centred"(%x, %columns) {} : (tensor<4x6xf32>, tensor<1x6xf32>) -> tensor<4x6xf32>
  %mean = pdc.node "ReduceMean" "mean"(%x, %last) {} : (tensor<4x6xf32>, tensor<1xi64>) -> tensor<4x1xf32>
  %around = pdc.node "Sub" "around"(%x, %mean) {} : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  %spread = pdc.node "Mul" "spread"(%around, %around) {} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %variance = pdc.node "ReduceMean" "variance"(%spread, %last) {} : (tensor<4x6xf32>, tensor<1xi64>) -> tensor<4x1xf32>
  %shifted = pdc.node "Add" "shifted"(%variance, %half) {} : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %width = pdc.node "Sqrt" "width"(%shifted) {} : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %even = pdc.node "Div" "even"(%centred, %width) {} : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  %times = pdc.node "Mul" "times"(%scale, %even) {} : (tensor<6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %norm = pdc.node "Add" "norm"(%times, %bias) {} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  pdc.accumulate %norm into @two : tensor<4x6xf32>
  // CHECK-NOT: "Gelu"
  %erf = pdc.node "Erf" "erf"(%x) {} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %gate = pdc.node "Add" "gate"(%erf, %1) {} : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  %gated = pdc.node "Mul" "gated"(%x, %gate) {} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %gelu = pdc.node "Mul" "gelu"(%gated, %half) {} : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  pdc.accumulate %gelu into @two : tensor<4x6xf32>
  // CHECK-NOT: "Swish"
  %sigmoid = pdc.node "Sigmoid" "sigmoid"(%x) {} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %other = pdc.node "Mul" "other"(%sigmoid, %gelu) {} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  pdc.accumulate %other into @three : tensor<4x6xf32>
  return
}
