// RUN: split-file %s %t
// RUN: pdc-opt %t/graph.mlir -estimate-cost=profile=%t/profile.json | FileCheck %t/graph.mlir
// RUN: not pdc-opt %t/graph.mlir -estimate-cost=profile=%t/other.json 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not pdc-opt %t/graph.mlir -estimate-cost=profile=%t/absent.json 2>&1 | FileCheck %s --check-prefix=ABSENT

// OTHER: error: the profile of 'other.onnx' has no unit '/a'; make one with pdc-profile for this model, microbatch size and device
// ABSENT: error: {{.*}}absent.json

//--- profile.json
{"model": "m.onnx", "units": [
  {"name": "/a", "nodes": ["/a"], "forward_seconds": 0.5, "backward_input_seconds": 2.0}], "values": []}
//--- other.json
{"model": "other.onnx", "units": [{"name": "/b", "nodes": ["/b"], "forward_seconds": 0.5}], "values": []}
//--- graph.mlir
// Units that share one measurement have it in proportion to their estimates.
pdc.memory @x input microbatch : tensor<4x6xf32>
func.func @train() {
  %x = pdc.read @x : tensor<4x6xf32>
  // CHECK: pdc.unit "/a"
  // CHECK-SAME: seconds = 5.000000e-01
  %a = pdc.unit "/a" origin "/a" forward microbatch (%0 = %x : tensor<4x6xf32>) -> (tensor<4x6xf32>) attributes {kernel = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>} {
    %1 = pdc.node "Relu" "/a"(%0) {} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    pdc.yield %1 : tensor<4x6xf32>
  }
  // CHECK: pdc.unit "/a/grad"
  // CHECK-SAME: seconds = 1.000000e+00
  %b = pdc.unit "/a/grad" origin "/a" backward_input microbatch (%0 = %a : tensor<4x6xf32>) -> (tensor<4x6xf32>) attributes {kernel = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>} {
    %1 = pdc.node "Relu" "/a/grad"(%0) {} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    pdc.yield %1 : tensor<4x6xf32>
  }
  // CHECK: pdc.unit "/a/grad.1"
  // CHECK-SAME: seconds = 1.000000e+00
  %c = pdc.unit "/a/grad.1" origin "/a" backward_input microbatch (%0 = %b : tensor<4x6xf32>) -> (tensor<4x6xf32>) attributes {kernel = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>} {
    %1 = pdc.node "Relu" "/a/grad.1"(%0) {} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    pdc.yield %1 : tensor<4x6xf32>
  }
  return
}
