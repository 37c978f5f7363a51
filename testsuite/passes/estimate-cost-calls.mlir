// RUN: pdc-opt %s -estimate-cost | FileCheck %s

pdc.memory @x input microbatch : tensor<1000x1000xf32>
func.func @train() {
  %x = pdc.read @x : tensor<1000x1000xf32>
  // Exponentials go by vectors: some tenths of a nanosecond for each element.
  // CHECK: pdc.unit "/sigmoid"
  // CHECK-SAME: seconds = {{[0-9.]+}}E-4
  %y = pdc.unit "/sigmoid" origin "/sigmoid" forward microbatch (%a = %x : tensor<1000x1000xf32>) -> (tensor<1000x1000xf32>) attributes {kernel = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>} {
    %0 = pdc.node "Sigmoid" "/sigmoid"(%a) {} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
    pdc.yield %0 : tensor<1000x1000xf32>
  }
  // Beside a function that has no vectors they do not: tens of nanoseconds.
  // CHECK: pdc.unit "/tangent"
  // CHECK-SAME: seconds = 2.875080e-02
  %z = pdc.unit "/tangent" origin "/tangent" forward microbatch (%a = %x : tensor<1000x1000xf32>) -> (tensor<1000x1000xf32>) attributes {kernel = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>} {
    %0 = pdc.node "Sigmoid" "/sigmoid.1"(%a) {} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
    %1 = pdc.node "Tan" "/tangent"(%0) {} : (tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
    pdc.yield %1 : tensor<1000x1000xf32>
  }
  return
}
