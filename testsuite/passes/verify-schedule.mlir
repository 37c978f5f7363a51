// RUN: pdc-opt %S/outline-programs.mlir --insert-cuts --outline-programs --build-schedule="schedule=1f1b microbatches=5" --version-weights --place-transfers --assign-homes --plan-memory --verify-schedule -o %t
// RUN: pdc-opt %S/outline-programs.mlir --insert-cuts --outline-programs --build-schedule="schedule=gpipe microbatches=3" --version-weights --place-transfers --assign-homes --plan-memory --verify-schedule -o %t
// The gradient that arrives is laid over what is kept for it:
// RUN: sed 's/slots.0", 384, 256/slots.0", 128, 256/' %t | not pdc-opt --verify-schedule 2>&1 | FileCheck %s --check-prefix=OVERLAP
// A slot too few:
// RUN: sed 's/array<i64: 0, 1, 2>/array<i64: 0, 1, 0>/' %t | not pdc-opt --verify-schedule 2>&1 | FileCheck %s --check-prefix=SLOT
// A microbatch that nobody sends:
// RUN: grep -v 'pdc.send @relu1 stage 0 microbatch 1' %t | not pdc-opt --verify-schedule 2>&1 | FileCheck %s --check-prefix=DEADLOCK
// Evaluation is proven like training: a value that is received after it is read, one that is received twice:
// RUN: sed -e '/pdc.recv @"evaluate/{h;d;}' -e '/pdc.run 1 evaluate/{p;x;}' %t | not pdc-opt --verify-schedule 2>&1 | FileCheck %s --check-prefix=EVALUATION
// RUN: sed -e '/pdc.recv @"evaluate/p' %t | not pdc-opt --verify-schedule 2>&1 | FileCheck %s --check-prefix=TWICE

// OVERLAP: error: program @rank_0: {{.*}} expects {{.*}} and finds {{.*}}; this is a mistake of the memory plan
// SLOT: error: {{.*}}slot
// DEADLOCK: error:
// EVALUATION: error: schedule evaluation: rank 1 at 1E0: its input 'evaluate/relu1' is not there
// TWICE: error: schedule evaluation stands still: in one iteration rank 0 sends more or fewer messages than rank 1 receives from it
