// RUN: pdc-opt %S/outline-programs.mlir --insert-cuts --outline-programs --build-schedule="schedule=1f1b microbatches=2" --version-weights --place-transfers --assign-homes --plan-memory | FileCheck %s

// CHECK-LABEL: pdc.program @rank_0
// CHECK-SAME: {copies = 1 : i64, name = "fixed", offset = 0 : i64, stride = 1088 : i64}
// CHECK-SAME: {copies = 2 : i64, name = "slots.0", offset = 1088 : i64, stride = 640 : i64}
// CHECK-SAME: {copies = 2 : i64, name = "evaluation", offset = 2368 : i64, stride = 384 : i64}
// CHECK-SAME: {copies = 1 : i64, name = "scratch"
// CHECK-SAME: workspace = 0

// Inputs stand first; evaluation's own boxes follow at the same distance.
// CHECK: pdc.memory @image {{.*}}home = #pdc.home<"slots.0", 0, 128>
// CHECK: pdc.memory @relu1 {{.*}}home = #pdc.home<"slots.0", 128, 256>
// CHECK: pdc.memory @"fc2/grad/input" {{.*}}home = #pdc.home<"slots.0", 384, 256>
// CHECK: pdc.memory @"evaluate/relu1" {{.*}}home = #pdc.home<"evaluation", 128, 256>

// CHECK-LABEL: pdc.program @rank_1
// relu1 has been read for the last time when fc2/grad/input is written: one place for both.
// CHECK: pdc.memory @relu1 {{.*}}home = #pdc.home<"slots.1", 64, 256>
// CHECK: pdc.memory @"fc2/grad/input" {{.*}}home = #pdc.home<"slots.1", 64, 256>
