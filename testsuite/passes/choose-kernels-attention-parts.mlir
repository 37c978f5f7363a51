// RUN: pdc-opt %s -choose-kernels="device=cuda precision=bf16" 2>%t | FileCheck %s
// RUN: FileCheck --check-prefix=WARNING --input-file=%t %s

// The gradient of a library's attention holds scores: of a part of the batch or of the heads where all take much.
pdc.memory @whole_q input microbatch : tensor<8x12x1024x64xbf16>
pdc.memory @whole_k input microbatch : tensor<8x12x1024x64xbf16>
pdc.memory @whole_rows input microbatch : tensor<8x12x1024xf32>
pdc.memory @whole_dq metric update : tensor<8x12x1024x64xbf16>
pdc.memory @whole_dk metric update : tensor<8x12x1024x64xbf16>
pdc.memory @random input microbatch : tensor<10xi64>
pdc.memory @samples_q input microbatch : tensor<32x4x4096x64xbf16>
pdc.memory @samples_k input microbatch : tensor<32x4x4096x64xbf16>
pdc.memory @samples_rows input microbatch : tensor<32x4x4096xf32>
pdc.memory @samples_dq metric update : tensor<32x4x4096x64xbf16>
pdc.memory @samples_dk metric update : tensor<32x4x4096x64xbf16>
pdc.memory @heads_q input microbatch : tensor<2x64x4096x64xbf16>
pdc.memory @heads_k input microbatch : tensor<2x16x4096x64xbf16>
pdc.memory @heads_rows input microbatch : tensor<2x64x4096xf32>
pdc.memory @heads_dq metric update : tensor<2x64x4096x64xbf16>
pdc.memory @heads_dk metric update : tensor<2x16x4096x64xbf16>
pdc.memory @odd_q input microbatch : tensor<12x1x4097x64xbf16>
pdc.memory @odd_k input microbatch : tensor<12x1x4097x64xbf16>
pdc.memory @odd_rows input microbatch : tensor<12x1x4097xf32>
pdc.memory @odd_dq metric update : tensor<12x1x4097x64xbf16>
pdc.memory @odd_dk metric update : tensor<12x1x4097x64xbf16>
pdc.memory @longest_q input microbatch : tensor<1x1x32768x64xbf16>
pdc.memory @longest_k input microbatch : tensor<1x1x32768x64xbf16>
pdc.memory @longest_rows input microbatch : tensor<1x1x32768xf32>
pdc.memory @longest_dq metric update : tensor<1x1x32768x64xbf16>
pdc.memory @longest_dk metric update : tensor<1x1x32768x64xbf16>
func.func @train() {
  %whole_q = pdc.read @whole_q : tensor<8x12x1024x64xbf16>
  %whole_k = pdc.read @whole_k : tensor<8x12x1024x64xbf16>
  %whole_rows = pdc.read @whole_rows : tensor<8x12x1024xf32>
  // 192 MiB of scores are held at once.
  // CHECK: pdc.unit "/whole"
  // CHECK-SAME: "AttentionGradient", {batch = 8 : i64, compute = "bf16"
  // CHECK-NOT: Together
  %whole:3 = pdc.unit "/whole" origin "/whole" backward_input microbatch (%a = %whole_q : tensor<8x12x1024x64xbf16>, %b = %whole_k : tensor<8x12x1024x64xbf16>, %s = %whole_rows : tensor<8x12x1024xf32>) -> (tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>) {
    %0:3 = pdc.node "SoftmaxAttentionGrad" "/whole"(%a, %a, %b, %b, %a, %s) {rows_first = array<i64: 0, 0, 0, 0>} : (tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>, tensor<8x12x1024xf32>) -> (tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>)
    pdc.yield %0#0, %0#1, %0#2 : tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>
  }
  pdc.accumulate %whole#0 into @whole_dq : tensor<8x12x1024x64xbf16>
  pdc.accumulate %whole#1 into @whole_dk : tensor<8x12x1024x64xbf16>
  pdc.accumulate %whole#2 into @whole_dk : tensor<8x12x1024x64xbf16>
  // As much again says which shares dropout keeps; forward it is all there is, and one piece.
  // CHECK: pdc.unit "/kept"
  // CHECK-SAME: "Attention", {batch = 8 : i64, compute = "bf16"
  // CHECK: pdc.unit "/dropped"
  // CHECK-SAME: "AttentionGradient", {batch = 8 : i64, batchTogether = 4 : i64, compute = "bf16"
  %random = pdc.read @random : tensor<10xi64>
  %kept = pdc.unit "/kept" origin "/kept" forward microbatch (%a = %whole_q : tensor<8x12x1024x64xbf16>, %b = %whole_k : tensor<8x12x1024x64xbf16>, %r = %random : tensor<10xi64>) -> (tensor<8x12x1024x64xbf16>) {
    %none = pdc.absent
    %0:2 = pdc.node "SoftmaxAttention" "/kept"(%a, %b, %b, %none, %r) {key = 3 : i64, ratio = 1.0e-1 : f64, rows_first = array<i64: 0, 0, 0, 0>} : (tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>, none, tensor<10xi64>) -> (tensor<8x12x1024x64xbf16>, tensor<8x12x1024xf32>)
    pdc.yield %0#0 : tensor<8x12x1024x64xbf16>
  }
  %dropped:3 = pdc.unit "/dropped" origin "/dropped" backward_input microbatch (%a = %whole_q : tensor<8x12x1024x64xbf16>, %b = %whole_k : tensor<8x12x1024x64xbf16>, %s = %whole_rows : tensor<8x12x1024xf32>, %r = %random : tensor<10xi64>) -> (tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>) {
    %none = pdc.absent
    %0:3 = pdc.node "SoftmaxAttentionGrad" "/dropped"(%a, %a, %b, %b, %a, %s, %none, %r) {key = 3 : i64, ratio = 1.0e-1 : f64, rows_first = array<i64: 0, 0, 0, 0>} : (tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>, tensor<8x12x1024xf32>, none, tensor<10xi64>) -> (tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>)
    pdc.yield %0#0, %0#1, %0#2 : tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>, tensor<8x12x1024x64xbf16>
  }
  pdc.accumulate %kept into @whole_dq : tensor<8x12x1024x64xbf16>
  pdc.accumulate %dropped#0 into @whole_dq : tensor<8x12x1024x64xbf16>
  pdc.accumulate %dropped#1 into @whole_dk : tensor<8x12x1024x64xbf16>
  pdc.accumulate %dropped#2 into @whole_dk : tensor<8x12x1024x64xbf16>
  %samples_q = pdc.read @samples_q : tensor<32x4x4096x64xbf16>
  %samples_k = pdc.read @samples_k : tensor<32x4x4096x64xbf16>
  %samples_rows = pdc.read @samples_rows : tensor<32x4x4096xf32>
  // 4 GiB: sample by sample, 128 MiB and a sum for each row.
  // CHECK: pdc.unit "/samples"
  // CHECK-SAME: "AttentionGradient", {batch = 32 : i64, batchTogether = 1 : i64, compute = "bf16"
  // CHECK-SAME: keyHeadsTogether = 4 : i64
  // CHECK-SAME: workspace = 134288640
  %samples:3 = pdc.unit "/samples" origin "/samples" backward_input microbatch (%a = %samples_q : tensor<32x4x4096x64xbf16>, %b = %samples_k : tensor<32x4x4096x64xbf16>, %s = %samples_rows : tensor<32x4x4096xf32>) -> (tensor<32x4x4096x64xbf16>, tensor<32x4x4096x64xbf16>, tensor<32x4x4096x64xbf16>) {
    %0:3 = pdc.node "SoftmaxAttentionGrad" "/samples"(%a, %a, %b, %b, %a, %s) {rows_first = array<i64: 0, 0, 0, 0>} : (tensor<32x4x4096x64xbf16>, tensor<32x4x4096x64xbf16>, tensor<32x4x4096x64xbf16>, tensor<32x4x4096x64xbf16>, tensor<32x4x4096x64xbf16>, tensor<32x4x4096xf32>) -> (tensor<32x4x4096x64xbf16>, tensor<32x4x4096x64xbf16>, tensor<32x4x4096x64xbf16>)
    pdc.yield %0#0, %0#1, %0#2 : tensor<32x4x4096x64xbf16>, tensor<32x4x4096x64xbf16>, tensor<32x4x4096x64xbf16>
  }
  pdc.accumulate %samples#0 into @samples_dq : tensor<32x4x4096x64xbf16>
  pdc.accumulate %samples#1 into @samples_dk : tensor<32x4x4096x64xbf16>
  pdc.accumulate %samples#2 into @samples_dk : tensor<32x4x4096x64xbf16>
  %heads_q = pdc.read @heads_q : tensor<2x64x4096x64xbf16>
  %heads_k = pdc.read @heads_k : tensor<2x16x4096x64xbf16>
  %heads_rows = pdc.read @heads_rows : tensor<2x64x4096xf32>
  // 2 GiB a sample: by heads of keys, of which each serves four of queries.
  // CHECK: pdc.unit "/heads"
  // CHECK-SAME: "AttentionGradient", {batch = 2 : i64, batchTogether = 1 : i64, compute = "bf16"
  // CHECK-SAME: keyHeadsTogether = 1 : i64
  // CHECK-SAME: workspace = 138482944
  %heads:3 = pdc.unit "/heads" origin "/heads" backward_input microbatch (%a = %heads_q : tensor<2x64x4096x64xbf16>, %b = %heads_k : tensor<2x16x4096x64xbf16>, %s = %heads_rows : tensor<2x64x4096xf32>) -> (tensor<2x64x4096x64xbf16>, tensor<2x16x4096x64xbf16>, tensor<2x16x4096x64xbf16>) {
    %0:3 = pdc.node "SoftmaxAttentionGrad" "/heads"(%a, %a, %b, %b, %a, %s) {rows_first = array<i64: 0, 0, 0, 0>} : (tensor<2x64x4096x64xbf16>, tensor<2x64x4096x64xbf16>, tensor<2x16x4096x64xbf16>, tensor<2x16x4096x64xbf16>, tensor<2x64x4096x64xbf16>, tensor<2x64x4096xf32>) -> (tensor<2x64x4096x64xbf16>, tensor<2x16x4096x64xbf16>, tensor<2x16x4096x64xbf16>)
    pdc.yield %0#0, %0#1, %0#2 : tensor<2x64x4096x64xbf16>, tensor<2x16x4096x64xbf16>, tensor<2x16x4096x64xbf16>
  }
  pdc.accumulate %heads#0 into @heads_dq : tensor<2x64x4096x64xbf16>
  pdc.accumulate %heads#1 into @heads_dk : tensor<2x16x4096x64xbf16>
  pdc.accumulate %heads#2 into @heads_dk : tensor<2x16x4096x64xbf16>
  %odd_q = pdc.read @odd_q : tensor<12x1x4097x64xbf16>
  %odd_k = pdc.read @odd_k : tensor<12x1x4097x64xbf16>
  %odd_rows = pdc.read @odd_rows : tensor<12x1x4097xf32>
  // Sums of rows begin at multiples of four in each part: 6 samples would fit, 4 do.
  // CHECK: pdc.unit "/odd"
  // CHECK-SAME: "AttentionGradient", {batch = 12 : i64, batchTogether = 4 : i64, compute = "bf16"
  %odd:3 = pdc.unit "/odd" origin "/odd" backward_input microbatch (%a = %odd_q : tensor<12x1x4097x64xbf16>, %b = %odd_k : tensor<12x1x4097x64xbf16>, %s = %odd_rows : tensor<12x1x4097xf32>) -> (tensor<12x1x4097x64xbf16>, tensor<12x1x4097x64xbf16>, tensor<12x1x4097x64xbf16>) {
    %0:3 = pdc.node "SoftmaxAttentionGrad" "/odd"(%a, %a, %b, %b, %a, %s) {rows_first = array<i64: 0, 0, 0, 0>} : (tensor<12x1x4097x64xbf16>, tensor<12x1x4097x64xbf16>, tensor<12x1x4097x64xbf16>, tensor<12x1x4097x64xbf16>, tensor<12x1x4097x64xbf16>, tensor<12x1x4097xf32>) -> (tensor<12x1x4097x64xbf16>, tensor<12x1x4097x64xbf16>, tensor<12x1x4097x64xbf16>)
    pdc.yield %0#0, %0#1, %0#2 : tensor<12x1x4097x64xbf16>, tensor<12x1x4097x64xbf16>, tensor<12x1x4097x64xbf16>
  }
  pdc.accumulate %odd#0 into @odd_dq : tensor<12x1x4097x64xbf16>
  pdc.accumulate %odd#1 into @odd_dk : tensor<12x1x4097x64xbf16>
  pdc.accumulate %odd#2 into @odd_dk : tensor<12x1x4097x64xbf16>
  %longest_q = pdc.read @longest_q : tensor<1x1x32768x64xbf16>
  %longest_k = pdc.read @longest_k : tensor<1x1x32768x64xbf16>
  %longest_rows = pdc.read @longest_rows : tensor<1x1x32768xf32>
  // 2 GiB for one head: not in the library's way.
  // CHECK: pdc.unit "/longest"
  // CHECK-NOT: compute
  // CHECK: pdc.accumulate
  // WARNING: warning: attention's gradient would hold 2048 MiB of scores: it runs on a kernel without tensor cores, which holds none
  %longest:3 = pdc.unit "/longest" origin "/longest" backward_input microbatch (%a = %longest_q : tensor<1x1x32768x64xbf16>, %b = %longest_k : tensor<1x1x32768x64xbf16>, %s = %longest_rows : tensor<1x1x32768xf32>) -> (tensor<1x1x32768x64xbf16>, tensor<1x1x32768x64xbf16>, tensor<1x1x32768x64xbf16>) {
    %0:3 = pdc.node "SoftmaxAttentionGrad" "/longest"(%a, %a, %b, %b, %a, %s) {rows_first = array<i64: 0, 0, 0, 0>} : (tensor<1x1x32768x64xbf16>, tensor<1x1x32768x64xbf16>, tensor<1x1x32768x64xbf16>, tensor<1x1x32768x64xbf16>, tensor<1x1x32768x64xbf16>, tensor<1x1x32768xf32>) -> (tensor<1x1x32768x64xbf16>, tensor<1x1x32768x64xbf16>, tensor<1x1x32768x64xbf16>)
    pdc.yield %0#0, %0#1, %0#2 : tensor<1x1x32768x64xbf16>, tensor<1x1x32768x64xbf16>, tensor<1x1x32768x64xbf16>
  }
  pdc.accumulate %longest#0 into @longest_dq : tensor<1x1x32768x64xbf16>
  pdc.accumulate %longest#1 into @longest_dk : tensor<1x1x32768x64xbf16>
  pdc.accumulate %longest#2 into @longest_dk : tensor<1x1x32768x64xbf16>
  return
}
