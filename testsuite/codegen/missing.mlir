// What a pass of level 4 leaves out is named together with the pass.
// RUN: split-file %s %t
// RUN: not pdc-print-sources %t/rows.mlir 2>&1 | FileCheck --check-prefix=ROWS %s
// RUN: not pdc-print-sources %t/home.mlir 2>&1 | FileCheck --check-prefix=HOME %s
// RUN: not pdc-print-sources %t/name.mlir 2>&1 | FileCheck --check-prefix=NAME %s

// ROWS: error: program rank_0 has no rows for training; run build-schedule first
// HOME: error: pdc.memory x has no home; run plan-memory first
// NAME: error: pdc.memory x has no legal 'variable'; run name-values first

//--- rows.mlir
pdc.program @rank_0 ranks [0] {
  pdc.stage 0 {
  }
}

//--- home.mlir
pdc.program @rank_0 ranks [0] attributes {regions = []} {
  pdc.memory @x input microbatch : tensor<4xf32>
  pdc.stage 0 {
  }
  pdc.schedule "gpipe" attributes {asynchronous = false, microbatches = 1 : i64, period = 0 : i64} warm_up {} repeat {} drain {}
  pdc.schedule "evaluation" attributes {asynchronous = false, evaluation, microbatches = 1 : i64, period = 1 : i64} warm_up {} repeat {} drain {}
}

//--- name.mlir
pdc.program @rank_0 ranks [0] attributes {regions = [{name = "fixed", offset = 0 : i64, stride = 64 : i64, copies = 1 : i64}]} {
  pdc.memory @x input microbatch : tensor<4xf32> {home = #pdc.home<"fixed", 0, 16>, variable = "x y"}
  pdc.stage 0 {
  }
  pdc.schedule "gpipe" attributes {asynchronous = false, microbatches = 1 : i64, period = 0 : i64} warm_up {} repeat {} drain {}
  pdc.schedule "evaluation" attributes {asynchronous = false, evaluation, microbatches = 1 : i64, period = 1 : i64} warm_up {} repeat {} drain {}
}
