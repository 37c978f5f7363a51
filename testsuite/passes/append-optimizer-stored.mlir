// RUN: pdc-opt %s -append-optimizer=optimizer=adamw -verify-diagnostics -split-input-file

// States of frozen weights are not read.
module attributes {pdc.stored_states = ["w/exp_avg", "w/exp_avg_sq", "frozen/exp_avg"]} {
  pdc.memory @w weight version : tensor<3xf32>
  pdc.memory @"w/gradient" gradient update : tensor<3xf32>
  pdc.memory @frozen constant once : tensor<3xf32>
  func.func @train() {
    %w = pdc.weight_version @w latest : tensor<3xf32>
    %0 = pdc.node "Relu" "/relu"(%w) {} : (tensor<3xf32>) -> tensor<3xf32>
    return
  }
}

// -----

// expected-error@+1 {{the weights file has optimizer state 'v/exp_avg', but there is no such weight; give --optimizer to begin its states anew}}
module attributes {pdc.stored_states = ["v/exp_avg"]} {
  pdc.memory @w weight version : tensor<3xf32>
  pdc.memory @"w/gradient" gradient update : tensor<3xf32>
  func.func @train() {
    %w = pdc.weight_version @w latest : tensor<3xf32>
    %0 = pdc.node "Relu" "/relu"(%w) {} : (tensor<3xf32>) -> tensor<3xf32>
    return
  }
}

// -----

// expected-error@+1 {{the weights file has optimizer state 'w/sum', but the optimizer has no such state; give --optimizer to begin its states anew}}
module attributes {pdc.stored_states = ["w/sum"]} {
  pdc.memory @w weight version : tensor<3xf32>
  pdc.memory @"w/gradient" gradient update : tensor<3xf32>
  func.func @train() {
    %w = pdc.weight_version @w latest : tensor<3xf32>
    %0 = pdc.node "Relu" "/relu"(%w) {} : (tensor<3xf32>) -> tensor<3xf32>
    return
  }
}
