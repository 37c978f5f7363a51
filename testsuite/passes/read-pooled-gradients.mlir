// RUN: pdc-opt %s --read-pooled-gradients --check-against=%s -o - | FileCheck %s

// A relu's mask is that of what is pooled, of windows that overlap, too, and a bias's gradient its sum; not where others read the gradient, the pooled
// image is another one, or a normalisation masks.

pdc.memory @x input microbatch : tensor<2x3x5x5xf32>
pdc.memory @dy input microbatch : tensor<2x3x3x3xf32>
pdc.memory @n input microbatch : tensor<3xf32>
pdc.memory @bias metric update : tensor<3xf32>
pdc.memory @one metric update : tensor<2x3x5x5xf32>
pdc.memory @two metric update : tensor<2x3x5x5xf32>
pdc.memory @three metric update : tensor<2x3x5x5xf32>
pdc.memory @four metric update : tensor<2x3x5x5xf32>
pdc.memory @five metric update : tensor<2x3x5x5xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  %x = pdc.read @x : tensor<2x3x5x5xf32>
  // CHECK: %[[DY:.*]] = pdc.read @dy
  %dy = pdc.read @dy : tensor<2x3x3x3xf32>
  %n = pdc.read @n : tensor<3xf32>
  // CHECK: %[[P:.*]]:2 = pdc.node "MaxPool" "pool"
  %y = pdc.node "Relu" "relu"(%x) {} : (tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %p:2 = pdc.node "MaxPool" "pool"(%y) {kernel_shape = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>} : (tensor<2x3x5x5xf32>) -> (tensor<2x3x3x3xf32>, tensor<2x3x3x3xi64>)
  // CHECK: %[[M:.*]] = pdc.node "ReluGrad" "relu/grad"(%[[DY]], %[[P]]#0) {} origin "pool"
  // CHECK: %[[D:.*]] = pdc.node "MaxPoolGrad" "pool/grad"(%[[M]], %[[P]]#1)
  // CHECK: pdc.accumulate %[[D]] into @one
  %d = pdc.node "MaxPoolGrad" "pool/grad"(%dy, %p#1) {input_shape = array<i64: 2, 3, 5, 5>, kernel_shape = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>} origin "pool" : (tensor<2x3x3x3xf32>, tensor<2x3x3x3xi64>) -> tensor<2x3x5x5xf32>
  %g = pdc.node "ReluGrad" "relu/grad"(%d, %y) {} origin "relu" : (tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  pdc.accumulate %g into @one : tensor<2x3x5x5xf32>
  // CHECK: %[[S:.*]] = pdc.node "ConvBiasGrad" "bias/grad"(%[[M]]) {} origin "conv"
  // CHECK: pdc.accumulate %[[S]] into @bias
  %s = pdc.node "ConvBiasGrad" "bias/grad"(%g) {} origin "conv" : (tensor<2x3x5x5xf32>) -> tensor<3xf32>
  pdc.accumulate %s into @bias : tensor<3xf32>
  // CHECK: pdc.node "ReluGrad" "shared/grad"(%[[E:[^,]*]], %{{.*}}) {} origin "relu" : (tensor<2x3x5x5xf32>
  %e = pdc.node "MaxPoolGrad" "pool/grad.1"(%dy, %p#1) {input_shape = array<i64: 2, 3, 5, 5>, kernel_shape = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>} origin "pool" : (tensor<2x3x3x3xf32>, tensor<2x3x3x3xi64>) -> tensor<2x3x5x5xf32>
  %h = pdc.node "ReluGrad" "shared/grad"(%e, %y) {} origin "relu" : (tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  pdc.accumulate %e into @two : tensor<2x3x5x5xf32>
  pdc.accumulate %h into @three : tensor<2x3x5x5xf32>
  // CHECK: pdc.node "ReluGrad" "other/grad"(%{{.*}}, %{{.*}}) {} origin "relu" : (tensor<2x3x5x5xf32>
  %f = pdc.node "MaxPoolGrad" "pool/grad.2"(%dy, %p#1) {input_shape = array<i64: 2, 3, 5, 5>, kernel_shape = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>} origin "pool" : (tensor<2x3x3x3xf32>, tensor<2x3x3x3xi64>) -> tensor<2x3x5x5xf32>
  %i = pdc.node "ReluGrad" "other/grad"(%f, %x) {} origin "relu" : (tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  pdc.accumulate %i into @four : tensor<2x3x5x5xf32>
  // CHECK: pdc.node "ReluGrad" "normalised/grad"(%{{.*}}, %{{.*}}) {} origin "relu" : (tensor<2x3x5x5xf32>
  %j = pdc.node "MaxPoolGrad" "pool/grad.3"(%dy, %p#1) {input_shape = array<i64: 2, 3, 5, 5>, kernel_shape = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>} origin "pool" : (tensor<2x3x3x3xf32>, tensor<2x3x3x3xi64>) -> tensor<2x3x5x5xf32>
  %k = pdc.node "ReluGrad" "normalised/grad"(%j, %y) {} origin "relu" : (tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %l:3 = pdc.node "BatchNormalizationGrad" "norm/grad"(%k, %x, %n, %n, %n) {} origin "relu" : (tensor<2x3x5x5xf32>, tensor<2x3x5x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x5x5xf32>, tensor<3xf32>, tensor<3xf32>)
  pdc.accumulate %l#0 into @five : tensor<2x3x5x5xf32>
  return
}
