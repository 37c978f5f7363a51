// RUN: pdc-opt %s | pdc-opt | FileCheck %s

// CHECK: pdc.memory @fc.weight weight version : tensor<4x3xf32> {initial = "file"}
pdc.memory @fc.weight weight version : tensor<4x3xf32> {initial = "file"}
pdc.memory @"fc.weight/gradient" gradient update : tensor<4x3xf32, #pdc.layout<"ba">>
pdc.memory @x input microbatch : tensor<2x3xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK: %[[X:.*]] = pdc.read @x : tensor<2x3xf32>
  %x = pdc.read @x : tensor<2x3xf32>
  // CHECK: %[[W:.*]] = pdc.weight_version @fc.weight latest : tensor<4x3xf32>
  %w = pdc.weight_version @fc.weight latest : tensor<4x3xf32>
  // CHECK: %[[NONE:.*]] = pdc.absent
  %none = pdc.absent
  // CHECK: pdc.unit "/fc/Gemm" origin "/fc/Gemm" forward microbatch (%{{.*}} = %[[X]] : tensor<2x3xf32>, %{{.*}} = %[[W]] : tensor<4x3xf32>, %{{.*}} = %[[NONE]] : none) -> (tensor<2x4xf32>)
  // CHECK-SAME: attributes {kernel = #pdc.kernel<"MatrixProduct", {transposed = 1 : i64}, workspace = 64, accumulates = true>, stage = 0 : i64}
  %y = pdc.unit "/fc/Gemm" origin "/fc/Gemm" forward microbatch (%a = %x : tensor<2x3xf32>, %b = %w : tensor<4x3xf32>, %c = %none : none) -> (tensor<2x4xf32>)
      attributes {kernel = #pdc.kernel<"MatrixProduct", {transposed = 1 : i64}, workspace = 64, accumulates = true>, stage = 0 : i64} {
    // CHECK: pdc.node "Gemm" "/fc/Gemm"
    // CHECK-SAME: {transB = 1 : i64} phase forward rate microbatch : (tensor<2x3xf32>, tensor<4x3xf32>, none) -> tensor<2x4xf32>
    %0 = pdc.node "Gemm" "/fc/Gemm"(%a, %b, %c) {transB = 1 : i64} phase forward rate microbatch : (tensor<2x3xf32>, tensor<4x3xf32>, none) -> tensor<2x4xf32>
    pdc.yield %0 : tensor<2x4xf32>
  }
  // CHECK: pdc.cut %{{.*}} from 0 to 1 : tensor<2x4xf32> -> tensor<2x4xf32>
  %z = pdc.cut %y from 0 to 1 : tensor<2x4xf32> -> tensor<2x4xf32>
  // CHECK: pdc.accumulate %{{.*}} into @"fc.weight/gradient"
  pdc.accumulate %w into @"fc.weight/gradient" : tensor<4x3xf32>
  return
}

// CHECK: pdc.program @rank_0 ranks [0]
pdc.program @rank_0 ranks [0] {
  pdc.memory @y outbox microbatch : tensor<2x4xf32>
  // CHECK: pdc.stage 0
  pdc.stage 0 {
    // CHECK: pdc.task forward
    pdc.task forward {
    }
  }
  // CHECK: pdc.schedule "1f1b"
  pdc.schedule "1f1b" attributes {asynchronous = false, microbatches = 1 : i64, period = 0 : i64} warm_up {
    // CHECK: pdc.run 0 forward 0
    pdc.run 0 forward 0
    // CHECK: pdc.send @y stage 0 microbatch 0 to 1 tag 0
    pdc.send @y stage 0 microbatch 0 to 1 tag 0
    // CHECK: pdc.all_reduce [@loss]
    pdc.all_reduce [@loss]
  } repeat {
  } drain {
  }
}
