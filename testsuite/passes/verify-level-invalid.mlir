// RUN: pdc-opt %s --verify-level=level=cut -split-input-file -verify-diagnostics
// RUN: not pdc-opt %S/insert-cuts.mlir --verify-level=level=staged 2>&1 | FileCheck %s --check-prefix=STAGED
// RUN: not pdc-opt %S/outline-programs.mlir --insert-cuts --outline-programs --verify-level=level=scheduled 2>&1 | FileCheck %s --check-prefix=SCHEDULED
// RUN: not pdc-opt %S/insert-cuts.mlir --verify-level=level=middle 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// STAGED: error: 'pdc.memory' stands beside the programs; run outline-programs first
// SCHEDULED: error: the program has no arena; run plan-memory first
// UNKNOWN: error: unknown level 'middle'; levels are graph, cut, staged, scheduled

pdc.memory @x input microbatch : tensor<4xf32>
func.func @train() {
  %x = pdc.read @x : tensor<4xf32>
  // expected-error@+1 {{'pdc.node' stands outside of a unit; run form-units first}}
  %a = pdc.node "Relu" "a"(%x) {} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

pdc.memory @x input microbatch : tensor<4xf32>
func.func @train() {
  %x = pdc.read @x : tensor<4xf32>
  %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 0 : i64} {
    %1 = pdc.node "Relu" "a"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %1 : tensor<4xf32>
  }
  // expected-error@+1 {{unit 'b' of stage 1 reads 'a' of stage 0 without a cut; run insert-cuts first}}
  %b = pdc.unit "b" origin "b" forward microbatch (%0 = %a : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 1 : i64} {
    %1 = pdc.node "Relu" "b"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %1 : tensor<4xf32>
  }
  return
}

// -----

pdc.memory @x input microbatch : tensor<4xf32>
func.func @train() {
  %x = pdc.read @x : tensor<4xf32>
  %a = pdc.unit "a" origin "a" forward microbatch (%0 = %x : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 0 : i64} {
    %1 = pdc.node "Relu" "a"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %1 : tensor<4xf32>
  }
  // expected-error@+1 {{two units are named 'a'; names are unique in a function}}
  %b = pdc.unit "a" origin "a" forward microbatch (%0 = %a : tensor<4xf32>) -> (tensor<4xf32>) attributes {stage = 0 : i64} {
    %1 = pdc.node "Relu" "b"(%0) {} : (tensor<4xf32>) -> tensor<4xf32>
    pdc.yield %1 : tensor<4xf32>
  }
  return
}
