// RUN: pdc-opt %S/outline-programs.mlir --insert-cuts --outline-programs --build-schedule="schedule=1f1b microbatches=2" --place-transfers | FileCheck %s

// CHECK-LABEL: pdc.program @rank_0
// CHECK: pdc.schedule "1f1b"
// CHECK-NEXT: pdc.run 0 forward 0
// CHECK-NEXT: pdc.send @relu1 stage 0 microbatch 0 to 1 tag 0
// CHECK-NEXT: pdc.run 0 forward 1
// CHECK-NEXT: pdc.send @relu1 stage 0 microbatch 1 to 1 tag 0
// CHECK-NEXT: pdc.recv @"fc2/grad/input" stage 0 microbatch 0 from 1 tag 1
// CHECK-NEXT: pdc.run 0 backward 0
// CHECK-NEXT: pdc.recv @"fc2/grad/input" stage 0 microbatch 1 from 1 tag 1
// CHECK-NEXT: pdc.run 0 backward 1
// CHECK-NEXT: pdc.all_reduce
// CHECK: pdc.schedule "evaluation"
// CHECK: pdc.run 0 evaluate 0
// CHECK-NEXT: pdc.send @"evaluate/relu1" stage 0 microbatch 0 to 1 tag 2

// CHECK-LABEL: pdc.program @rank_1
// CHECK: pdc.recv @relu1 stage 1 microbatch 0 from 0 tag 0
// CHECK-NEXT: pdc.run 1 forward 0
// CHECK: pdc.schedule "evaluation"
// CHECK: pdc.recv @"evaluate/relu1" stage 1 microbatch 0 from 0 tag 2
// CHECK-NEXT: pdc.run 1 evaluate 0
