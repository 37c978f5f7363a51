// RUN: pdc-opt %s -estimate-cost | FileCheck %s

// A million elements: 8 MB at 20 GB/s take 400 us, a run of neighbours 24 ns; the start of a kernel 0.8 us.
pdc.memory @x input microbatch : tensor<1000x1000xf32>
func.func @train() {
  %x = pdc.read @x : tensor<1000x1000xf32>
  // Few long runs: as fast as memory.
  // CHECK: pdc.unit "/long"
  // CHECK-SAME: seconds = 4.008{{[0-9]*}}E-4
  %long = pdc.unit "/long" origin "/long" forward microbatch (%a = %x : tensor<1000x1000xf32>) -> (tensor<1000x1000xf32>) attributes {kernel = #pdc.kernel<"StridedCopy", {inputStrides = array<i64: 250000, 1>, outputStrides = array<i64: 250000, 1>, shape = array<i64: 4, 250000>}, workspace = 0, accumulates = false>} {
    %0 = pdc.node "Transpose" "/long"(%a) {perm = array<i64: 1, 0>} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
    pdc.yield %0 : tensor<1000x1000xf32>
  }
  // Runs of four elements.
  // CHECK: pdc.unit "/short"
  // CHECK-SAME: seconds = 6.000800e-03
  %short = pdc.unit "/short" origin "/short" forward microbatch (%a = %x : tensor<1000x1000xf32>) -> (tensor<1000x1000xf32>) attributes {kernel = #pdc.kernel<"StridedCopy", {inputStrides = array<i64: 4, 1>, outputStrides = array<i64: 4, 1>, shape = array<i64: 250000, 4>}, workspace = 0, accumulates = false>} {
    %0 = pdc.node "Transpose" "/short"(%a) {perm = array<i64: 1, 0>} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
    pdc.yield %0 : tensor<1000x1000xf32>
  }
  // A matrix transposed, by squares: 24 elements as long as a run.
  // CHECK: pdc.unit "/transposed"
  // CHECK-SAME: seconds = 1.000800e-03
  %transposed = pdc.unit "/transposed" origin "/transposed" forward microbatch (%a = %x : tensor<1000x1000xf32>) -> (tensor<1000x1000xf32>) attributes {kernel = #pdc.kernel<"StridedCopy", {inputStrides = array<i64: 1, 1000>, outputStrides = array<i64: 1000, 1>, shape = array<i64: 1000, 1000>}, workspace = 0, accumulates = false>} {
    %0 = pdc.node "Transpose" "/transposed"(%a) {perm = array<i64: 1, 0>} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
    pdc.yield %0 : tensor<1000x1000xf32>
  }
  // Each element in a page of its own: three as long as a run.
  // CHECK: pdc.unit "/pages"
  // CHECK-SAME: seconds = 8.000800e-03
  %pages = pdc.unit "/pages" origin "/pages" forward microbatch (%a = %x : tensor<1000x1000xf32>) -> (tensor<1000x1000xf32>) attributes {kernel = #pdc.kernel<"StridedCopy", {inputStrides = array<i64: 3, 2000>, outputStrides = array<i64: 1000, 1>, shape = array<i64: 1000, 1000>}, workspace = 0, accumulates = false>} {
    %0 = pdc.node "Transpose" "/pages"(%a) {perm = array<i64: 1, 0>} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
    pdc.yield %0 : tensor<1000x1000xf32>
  }
  // Nothing is known of the runs.
  // CHECK: pdc.unit "/bare"
  // CHECK-SAME: seconds = 4.008{{[0-9]*}}E-4
  %bare = pdc.unit "/bare" origin "/bare" forward microbatch (%a = %x : tensor<1000x1000xf32>) -> (tensor<1000x1000xf32>) attributes {kernel = #pdc.kernel<"StridedCopy", {}, workspace = 0, accumulates = false>} {
    %0 = pdc.node "Transpose" "/bare"(%a) {perm = array<i64: 1, 0>} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
    pdc.yield %0 : tensor<1000x1000xf32>
  }
  return
}
