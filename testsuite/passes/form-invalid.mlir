// What every pass relies on is refused by every pass.
// RUN: pdc-opt %s -infer-shapes -split-input-file -verify-diagnostics
// RUN: pdc-opt %s -differentiate -split-input-file -verify-diagnostics
// RUN: pdc-opt %s -append-optimizer -split-input-file -verify-diagnostics
// RUN: pdc-opt %s -label-phases -split-input-file -verify-diagnostics
// RUN: pdc-opt %s -form-units -split-input-file -verify-diagnostics
// RUN: pdc-opt %s -choose-kernels -split-input-file -verify-diagnostics
// RUN: pdc-opt %s -estimate-cost -split-input-file -verify-diagnostics
// RUN: pdc-opt %s -assign-stages -split-input-file -verify-diagnostics
// RUN: pdc-opt %s -insert-cuts -split-input-file -verify-diagnostics
// RUN: pdc-opt %s -outline-programs -split-input-file -verify-diagnostics
// RUN: pdc-opt %s -build-schedule -split-input-file -verify-diagnostics
// RUN: pdc-opt %s -version-weights -split-input-file -verify-diagnostics
// RUN: pdc-opt %s -place-transfers -split-input-file -verify-diagnostics
// RUN: pdc-opt %s -assign-homes -split-input-file -verify-diagnostics
// RUN: pdc-opt %s -plan-memory -split-input-file -verify-diagnostics
// RUN: pdc-opt %s -verify-schedule -split-input-file -verify-diagnostics
// RUN: pdc-opt %s -name-values -split-input-file -verify-diagnostics
// RUN: pdc-opt %s -verify-level -split-input-file -verify-diagnostics

// expected-error@+1 {{function @train has arguments, results or control flow, expected one block that reads and writes memories and ends in a return}}
func.func @train(%x: tensor<2xf32>) {
  return
}

// -----

// expected-error@+1 {{function @train has arguments, results or control flow}}
func.func private @train()

// -----

// expected-error@+1 {{the programs run on ranks [0, 1, 3], expected each of 0 to 2 once}}
module {
  pdc.program @p ranks [0, 1] {
    pdc.stage 0 {
    }
  }
  pdc.program @q ranks [3] {
    pdc.stage 1 {
    }
  }
}

// -----

// expected-error@+1 {{program @p has no stage}}
pdc.program @p ranks [0] {
}

// -----

// expected-error@+1 {{the programs run on ranks [1], expected each of 0 to 0 once}}
module {
  pdc.program @p ranks [1] {
    pdc.stage 0 {
    }
  }
}

// -----

// expected-error@+1 {{the programs hold stages [0, 2], expected each of 0 to 1 once}}
module {
  pdc.program @p ranks [0] {
    pdc.stage 0 {
    }
  }
  pdc.program @q ranks [1] {
    pdc.stage 2 {
    }
  }
}
