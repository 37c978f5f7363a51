// RUN: pdc-opt %S/outline-programs.mlir --insert-cuts --outline-programs --build-schedule="schedule=1f1b microbatches=5" --version-weights --place-transfers --assign-homes --plan-memory --verify-schedule -o %t
// RUN: pdc-opt %S/outline-programs.mlir --insert-cuts --outline-programs --build-schedule="schedule=gpipe microbatches=3" --version-weights --place-transfers --assign-homes --plan-memory --verify-schedule -o %t
// The gradient that arrives is laid over what is kept for it:
// RUN: sed 's/slots.0", 384, 256/slots.0", 128, 256/' %t | not pdc-opt --verify-schedule 2>&1 | FileCheck %s --check-prefix=OVERLAP
// A slot too few:
// RUN: sed 's/array<i64: 0, 1, 2>/array<i64: 0, 1, 0>/' %t | not pdc-opt --verify-schedule 2>&1 | FileCheck %s --check-prefix=SLOT
// A microbatch that nobody sends:
// RUN: grep -v 'pdc.send @relu1 stage 0 microbatch 1' %t | not pdc-opt --verify-schedule 2>&1 | FileCheck %s --check-prefix=DEADLOCK

// OVERLAP: error: program @rank_0: {{.*}} expects {{.*}} and finds {{.*}}; this is a mistake of the memory plan
// SLOT: error: {{.*}}slot
// DEADLOCK: error:
