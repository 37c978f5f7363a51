// RUN: pdc-opt %s -estimate-cost | FileCheck %s

// What is picked one by one, 6.75 ns for a row, beside what is moved at 20 GB/s; the start of a kernel 0.8 us.
pdc.memory @x input microbatch : tensor<1000x1000xf32>
pdc.memory @picked input microbatch : tensor<1000xi64>
func.func @train() {
  %x = pdc.read @x : tensor<1000x1000xf32>
  %picked = pdc.read @picked : tensor<1000xi64>
  // A thousand rows of a thousand elements.
  // CHECK: pdc.unit "/rows"
  // CHECK-SAME: seconds = 4.079{{[0-9]+}}E-4
  %rows = pdc.unit "/rows" origin "/rows" forward microbatch (%a = %x : tensor<1000x1000xf32>, %b = %picked : tensor<1000xi64>) -> (tensor<1000x1000xf32>) attributes {kernel = #pdc.kernel<"Gather", {count = 1000, inner = 1000, outer = 1, size = 1000}, workspace = 0, accumulates = false>} {
    %0 = pdc.node "Gather" "/rows"(%a, %b) {axis = 0 : i64} : (tensor<1000x1000xf32>, tensor<1000xi64>) -> tensor<1000x1000xf32>
    pdc.yield %0 : tensor<1000x1000xf32>
  }
  // A million elements, six as long as a row.
  // CHECK: pdc.unit "/elements"
  // CHECK-SAME: seconds = 1.526{{[0-9]*}}e-03
  %elements = pdc.unit "/elements" origin "/elements" forward microbatch (%a = %x : tensor<1000x1000xf32>, %b = %picked : tensor<1000xi64>) -> (tensor<1000x1000xf32>) attributes {kernel = #pdc.kernel<"Gather", {count = 1000, inner = 1, outer = 1000, size = 1000}, workspace = 0, accumulates = false>} {
    %0 = pdc.node "Gather" "/elements"(%a, %b) {axis = 1 : i64} : (tensor<1000x1000xf32>, tensor<1000xi64>) -> tensor<1000x1000xf32>
    pdc.yield %0 : tensor<1000x1000xf32>
  }
  // All sorted: some 27 ns for an element.
  // CHECK: pdc.unit "/sorted"
  // CHECK-SAME: seconds = 0.027{{[0-9]*}}
  %sorted = pdc.unit "/sorted" origin "/sorted" forward microbatch (%a = %x : tensor<1000x1000xf32>) -> (tensor<1000x1000xi64>) attributes {kernel = #pdc.kernel<"TopK", {count = 1000, inner = 1, largest = 1, outer = 1000, size = 1000}, workspace = 0, accumulates = false>} {
    %0 = pdc.node "TopKIndices" "/sorted"(%a) {axis = 1 : i64, count = 1000 : i64} : (tensor<1000x1000xf32>) -> tensor<1000x1000xi64>
    pdc.yield %0 : tensor<1000x1000xi64>
  }
  // Few of them: each is looked at.
  // CHECK: pdc.unit "/few"
  // CHECK-SAME: seconds = 7.22{{[0-9]*}}e-03
  %few = pdc.unit "/few" origin "/few" forward microbatch (%a = %x : tensor<1000x1000xf32>) -> (tensor<1000x10xi64>) attributes {kernel = #pdc.kernel<"TopK", {count = 10, inner = 1, largest = 1, outer = 1000, size = 1000}, workspace = 0, accumulates = false>} {
    %0 = pdc.node "TopKIndices" "/few"(%a) {axis = 1 : i64, count = 10 : i64} : (tensor<1000x1000xf32>) -> tensor<1000x10xi64>
    pdc.yield %0 : tensor<1000x10xi64>
  }
  return
}
