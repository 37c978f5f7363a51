// RUN: pdc-opt %s -estimate-cost=device=abacus -verify-diagnostics

// expected-error@+1 {{unknown device 'abacus'}}
module {
}
