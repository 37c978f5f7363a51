// The interpreter accepts a pass that computes the same and refuses a transformation that does not.
// RUN: pdc-opt %S/levels.mlir --infer-shapes --differentiate --append-optimizer=optimizer=momentum,lr=0.1 -o %t.graph
// RUN: pdc-opt %t.graph --label-phases --canonicalize --cse --form-units --choose-kernels --check-against=%t.graph -o %t.units
// RUN: grep -q pdc.unit %t.units
// RUN: rm -f %t.wrong
// RUN: sed 's/"Relu" "r2"/"Sigmoid" "r2"/' %t.units | not pdc-opt --canonicalize --check-against=%t.graph -o %t.wrong 2>&1 | FileCheck %s
// CHECK: error: the result does not compute what {{.*}}.graph does: memory '{{.*}}': element {{[0-9]+}} is {{.*}} before and {{.*}} after
// RUN: not ls %t.wrong
// RUN: not pdc-opt %t.graph --check-against=%t.absent 2>&1 | FileCheck %s --check-prefix=ABSENT
// ABSENT: error: {{.*}}.absent: cannot open input file
