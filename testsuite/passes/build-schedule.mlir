// RUN: pdc-opt %S/outline-programs.mlir --insert-cuts --outline-programs --build-schedule="schedule=1f1b microbatches=2" | FileCheck %s
// RUN: not pdc-opt %S/outline-programs.mlir --insert-cuts --outline-programs --build-schedule=schedule=pipedream 2>&1 | FileCheck %s --check-prefix=ASYNCHRONOUS
// RUN: not pdc-opt %S/outline-programs.mlir --insert-cuts --outline-programs --build-schedule=schedule=dualpipe 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not pdc-opt %S/outline-programs.mlir --build-schedule 2>&1 | FileCheck %s --check-prefix=EARLY

// ASYNCHRONOUS: error: schedule pipedream is asynchronous, but the graph was made for sums over microbatches; choose the schedule before the graph is differentiated
// UNKNOWN: error: unknown schedule 'dualpipe'; known schedules: 1f1b, {{[a-z0-9-]+(, [a-z0-9-]+)*$}}
// EARLY: error: the module has no programs; run outline-programs first

// CHECK-LABEL: pdc.program @rank_0
// CHECK: pdc.stage 0 attributes {slots = array<i64: 0, 1>, versions = 1 : i64}
// CHECK: pdc.schedule "1f1b" attributes {asynchronous = false, microbatches = 2 : i64, period = 0 : i64} warm_up {
// CHECK-NEXT: pdc.run 0 forward 0
// CHECK-NEXT: pdc.run 0 forward 1
// CHECK-NEXT: pdc.run 0 backward 0
// CHECK-NEXT: pdc.run 0 backward 1
// CHECK-NEXT: pdc.all_reduce []
// CHECK-NEXT: pdc.run 0 update 1
// CHECK-NEXT: } repeat {
// CHECK-NEXT: } drain {
// CHECK-NEXT: }
// CHECK-NEXT: pdc.schedule "evaluation" attributes {asynchronous = true, evaluation, microbatches = 1 : i64, period = 1 : i64} warm_up {
// CHECK-NEXT: } repeat {
// CHECK-NEXT: pdc.run 0 evaluate 0
// CHECK-NEXT: } drain {

// CHECK-LABEL: pdc.program @rank_1
// CHECK: pdc.run 1 forward 0
// CHECK-NEXT: pdc.run 1 backward 0
// CHECK-NEXT: pdc.run 1 forward 1
// CHECK-NEXT: pdc.run 1 backward 1
// Only training's metrics are summed before the update.
// CHECK-NEXT: pdc.all_reduce [@pdc.loss]
// CHECK-NEXT: pdc.run 1 update 1
