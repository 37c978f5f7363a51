// RUN: not pdc-opt %s -append-optimizer="optimizer=sdg" 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not pdc-opt %s -append-optimizer="optimizer=sgd,rate=1" 2>&1 | FileCheck %s --check-prefix=KEY
// RUN: not pdc-opt %s -append-optimizer="optimizer=sgd,lr=fast" 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not pdc-opt %s -append-optimizer="optimizer=sgd,lr=nan" 2>&1 | FileCheck %s --check-prefix=NAN
// RUN: not pdc-opt %s -append-optimizer="optimizer=adam,beta1=1" 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not pdc-opt %s -append-optimizer="optimizer=sgd no-decay=*.bais" 2>&1 | FileCheck %s --check-prefix=PATTERN
// RUN: not pdc-opt %s -append-optimizer="optimizer=sgd lr-scale=*.bais=2" 2>&1 | FileCheck %s --check-prefix=SCALED
// RUN: not pdc-opt %s -append-optimizer="optimizer=sgd lr-scale=w=-1" 2>&1 | FileCheck %s --check-prefix=SCALE

// KIND: error: unknown optimizer 'sdg'; choose one of sgd, momentum, nesterov, adagrad, adam, adamw, lamb
// KEY: error: optimizer 'sgd' has no setting 'rate'; it has lr, weight_decay, momentum, dampening
// NUMBER: error: setting 'lr' of optimizer 'sgd' expects a number, found 'fast'
// NAN: error: setting 'lr' of optimizer 'sgd' is nan, expected at least 0 and finite
// RANGE: error: setting 'beta1' of optimizer 'adam' is 1, expected at least 0 and below 1
// PATTERN: error: pattern '*.bais' of no-decay matches no trained weight
// SCALED: error: pattern '*.bais' of lr-scale matches no trained weight
// SCALE: error: 'w=-1' is no scale of a learning rate; expected PATTERN=F with F at least 0 and finite, as in encoder.*=0.1
pdc.memory @w weight version : tensor<3xf32>
pdc.memory @"w/gradient" gradient update : tensor<3xf32>
func.func @train() {
  %w = pdc.weight_version @w latest : tensor<3xf32>
  %0 = pdc.node "Relu" "/relu"(%w) {} : (tensor<3xf32>) -> tensor<3xf32>
  return
}
