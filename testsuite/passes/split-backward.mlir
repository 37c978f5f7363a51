// RUN: pdc-opt %S/outline-programs.mlir --insert-cuts --outline-programs --split-backward | FileCheck %s
// RUN: pdc-opt %S/outline-programs.mlir --insert-cuts --outline-programs --split-backward | pdc-opt --verify-level=level=staged -o /dev/null
// RUN: not pdc-opt %S/outline-programs.mlir --insert-cuts --outline-programs --split-backward --build-schedule=schedule=1f1b 2>&1 | FileCheck %s --check-prefix=DIVIDED
// RUN: not pdc-opt %S/outline-programs.mlir --insert-cuts --outline-programs --build-schedule=schedule=zb-h1 2>&1 | FileCheck %s --check-prefix=WHOLE

// DIVIDED: error: schedule 1f1b runs the backward pass of stage 0 as a whole, and its task is divided; give split-backward the same plan
// WHOLE: error: schedule zb-h1 runs the backward pass of stage 0 in halves, and its task is whole; give split-backward the same plan

// Stage 0 sends no gradient: everything is a weight gradient. The gradient that it is sent is
// received for the first task all the same.
// CHECK-LABEL: pdc.program @rank_0
// CHECK:      pdc.task backward_input {
// CHECK-NEXT:   pdc.read @"fc2/grad/input"
// CHECK-NEXT: }
// CHECK-NEXT: pdc.task backward_weight {
// CHECK-NEXT:   %[[DH:.*]] = pdc.read @"fc2/grad/input"
// CHECK-NEXT:   %[[KEPT:.*]] = pdc.read @relu1
// CHECK-NEXT:   %[[DR:.*]] = pdc.unit "relu1/grad" {{.*}} = %[[DH]] : {{.*}} = %[[KEPT]]
// CHECK:        %[[X:.*]] = pdc.read @image
// CHECK-NEXT:   %[[FLAT:.*]] = pdc.unit "flatten"
// CHECK:        %[[DW:.*]] = pdc.unit "fc1/grad/weight" {{.*}} = %[[DR]] : {{.*}} = %[[FLAT]]
// CHECK:        pdc.accumulate %[[DW]] into @"fc1.weight/gradient"
// CHECK-NEXT: }
// CHECK-NEXT: pdc.task update

// Stage 1 sends the gradient of relu1; what the loss hands back is kept for the weight gradient.
// CHECK-LABEL: pdc.program @rank_1
// CHECK:      pdc.memory @"loss/grad" activation microbatch : tensor<4x3xf32>
// CHECK:      pdc.task backward_input {
// CHECK:        %[[DY:.*]] = pdc.unit "loss/grad"
// CHECK:        pdc.write %[[DY]] to @"loss/grad"
// CHECK-NOT:    pdc.unit "fc2/grad/weight"
// CHECK:        %[[DX:.*]] = pdc.unit "fc2/grad/input"
// CHECK:        pdc.write %[[DX]] to @"fc2/grad/input"
// CHECK-NEXT: }
// CHECK-NEXT: pdc.task backward_weight {
// CHECK-NEXT:   %[[DY:.*]] = pdc.read @"loss/grad"
// CHECK-NEXT:   %[[H:.*]] = pdc.read @relu1
// CHECK-NEXT:   %[[DW:.*]] = pdc.unit "fc2/grad/weight" {{.*}} = %[[DY]] : {{.*}} = %[[H]]
// CHECK:        pdc.accumulate %[[DW]] into @"fc2.weight/gradient"
// CHECK-NEXT: }
