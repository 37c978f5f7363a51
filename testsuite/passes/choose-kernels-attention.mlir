// RUN: pdc-opt %s -choose-kernels="device=cuda precision=bf16" 2>%t | FileCheck %s
// RUN: FileCheck --check-prefix=WARNING --input-file=%t %s

pdc.memory @q input microbatch : tensor<2x6x32x64xbf16>
pdc.memory @k input microbatch : tensor<2x3x32x64xbf16>
pdc.memory @flags input microbatch : tensor<1x1x32x32xi1>
pdc.memory @half_tile input microbatch : tensor<2x6x192x64xbf16>
pdc.memory @half_mask input microbatch : tensor<1x1x1x192xf32>
pdc.memory @half_tiles metric update : tensor<2x6x192x64xbf16>
pdc.memory @one_key input microbatch : tensor<2x6x1x64xbf16>
pdc.memory @one_query input microbatch : tensor<2x6x1x64xbf16>
pdc.memory @ones metric update : tensor<2x6x1x64xbf16>
pdc.memory @narrow input microbatch : tensor<2x6x32x12xbf16>
pdc.memory @random input microbatch : tensor<4xi64>
pdc.memory @bias input microbatch : tensor<1x6x32x32xf32>
pdc.memory @of_keys input microbatch : tensor<1x1x1x32xf32>
pdc.memory @biases metric update : tensor<1x6x32x32xf32>
pdc.memory @sums metric update : tensor<2x6x32x64xbf16>
pdc.memory @keys metric update : tensor<2x3x32x64xbf16>
pdc.memory @rows metric update : tensor<2x6x32x12xbf16>
func.func @train() {
  %q = pdc.read @q : tensor<2x6x32x64xbf16>
  %k = pdc.read @k : tensor<2x3x32x64xbf16>
  // The library's kernel, in what it multiplies: causal, and with heads of keys that serve two of queries.
  // CHECK: pdc.unit "/fused"
  // CHECK-SAME: #pdc.kernel<"Attention", {batch = 2 : i64, causal = 1 : i64, compute = "bf16"
  // CHECK-SAME: results = array<i64: 0, 1>
  %y, %sums = pdc.unit "/fused" origin "/fused" forward microbatch (%a = %q : tensor<2x6x32x64xbf16>, %b = %k : tensor<2x3x32x64xbf16>) -> (tensor<2x6x32x64xbf16>, tensor<2x6x32xf32>) {
    %0:2 = pdc.node "SoftmaxAttention" "/fused"(%a, %b, %b) {is_causal = 1 : i64, rows_first = array<i64: 0, 0, 0, 0>} : (tensor<2x6x32x64xbf16>, tensor<2x3x32x64xbf16>, tensor<2x3x32x64xbf16>) -> (tensor<2x6x32x64xbf16>, tensor<2x6x32xf32>)
    pdc.yield %0#0, %0#1 : tensor<2x6x32x64xbf16>, tensor<2x6x32xf32>
  }
  // CHECK: pdc.unit "/fused/grad"
  // CHECK-SAME: #pdc.kernel<"AttentionGradient", {batch = 2 : i64, causal = 1 : i64, compute = "bf16"
  %d:3 = pdc.unit "/fused/grad" origin "/fused" backward_input microbatch (%dy = %y : tensor<2x6x32x64xbf16>, %a = %q : tensor<2x6x32x64xbf16>, %b = %k : tensor<2x3x32x64xbf16>, %s = %sums : tensor<2x6x32xf32>) -> (tensor<2x6x32x64xbf16>, tensor<2x3x32x64xbf16>, tensor<2x3x32x64xbf16>) {
    %0:3 = pdc.node "SoftmaxAttentionGrad" "/fused/grad"(%dy, %a, %b, %b, %dy, %s) {is_causal = 1 : i64, rows_first = array<i64: 0, 0, 0, 0>} : (tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<2x3x32x64xbf16>, tensor<2x3x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<2x6x32xf32>) -> (tensor<2x6x32x64xbf16>, tensor<2x3x32x64xbf16>, tensor<2x3x32x64xbf16>)
    pdc.yield %0#0, %0#1, %0#2 : tensor<2x6x32x64xbf16>, tensor<2x3x32x64xbf16>, tensor<2x3x32x64xbf16>
  }
  // The runtime makes numbers of booleans, and says which shares dropout keeps.
  // CHECK: pdc.unit "/flags"
  // CHECK-SAME: #pdc.kernel<"Attention", {batch = 2 : i64, boolean = 1 : i64, compute = "bf16"
  %flags = pdc.read @flags : tensor<1x1x32x32xi1>
  %m = pdc.unit "/flags" origin "/flags" forward microbatch (%a = %q : tensor<2x6x32x64xbf16>, %b = %k : tensor<2x3x32x64xbf16>, %c = %flags : tensor<1x1x32x32xi1>) -> (tensor<2x6x32x64xbf16>) {
    %0:2 = pdc.node "SoftmaxAttention" "/flags"(%a, %b, %b, %c) {rows_first = array<i64: 0, 0, 0, 0>} : (tensor<2x6x32x64xbf16>, tensor<2x3x32x64xbf16>, tensor<2x3x32x64xbf16>, tensor<1x1x32x32xi1>) -> (tensor<2x6x32x64xbf16>, tensor<2x6x32xf32>)
    pdc.yield %0#0 : tensor<2x6x32x64xbf16>
  }
  // What the library has not runs on the runtime's own kernel, and a warning says why.
  // CHECK: pdc.unit "/narrow"
  // WARNING: warning: attention has heads of 12 and 12 numbers, and cuDNN wants them equal, a multiple of 8, and 256 at most: it runs on a kernel without tensor cores
  %narrow = pdc.read @narrow : tensor<2x6x32x12xbf16>
  %n = pdc.unit "/narrow" origin "/narrow" forward microbatch (%a = %narrow : tensor<2x6x32x12xbf16>) -> (tensor<2x6x32x12xbf16>) {
    %0:2 = pdc.node "SoftmaxAttention" "/narrow"(%a, %a, %a) {rows_first = array<i64: 0, 0, 0, 0>} : (tensor<2x6x32x12xbf16>, tensor<2x6x32x12xbf16>, tensor<2x6x32x12xbf16>) -> (tensor<2x6x32x12xbf16>, tensor<2x6x32xf32>)
    pdc.yield %0#0 : tensor<2x6x32x12xbf16>
  }
  // CHECK: pdc.unit "/drops"
  // CHECK-SAME: #pdc.kernel<"Attention", {batch = 2 : i64, compute = "bf16"
  // CHECK-SAME: ratio = 1.000000e-01
  %random = pdc.read @random : tensor<4xi64>
  %p = pdc.unit "/drops" origin "/drops" forward microbatch (%a = %q : tensor<2x6x32x64xbf16>, %b = %k : tensor<2x3x32x64xbf16>, %r = %random : tensor<4xi64>) -> (tensor<2x6x32x64xbf16>) {
    %none = pdc.absent
    %0:2 = pdc.node "SoftmaxAttention" "/drops"(%a, %b, %b, %none, %r) {key = 3 : i64, ratio = 1.0e-1 : f64, rows_first = array<i64: 0, 0, 0, 0>} : (tensor<2x6x32x64xbf16>, tensor<2x3x32x64xbf16>, tensor<2x3x32x64xbf16>, none, tensor<4xi64>) -> (tensor<2x6x32x64xbf16>, tensor<2x6x32xf32>)
    pdc.yield %0#0 : tensor<2x6x32x64xbf16>
  }
  // The gradient of a mask that is trained comes from the library, too, where each score has a number of its own.
  // CHECK: pdc.unit "/trained"
  // CHECK-SAME: #pdc.kernel<"AttentionGradient", {batch = 2 : i64, compute = "bf16"
  // CHECK-SAME: results = array<i64: 0, 1, 2, 3>
  %bias = pdc.read @bias : tensor<1x6x32x32xf32>
  %t:4 = pdc.unit "/trained" origin "/trained" backward_input microbatch (%a = %q : tensor<2x6x32x64xbf16>, %s = %sums : tensor<2x6x32xf32>, %c = %bias : tensor<1x6x32x32xf32>) -> (tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<1x6x32x32xf32>) {
    %0:4 = pdc.node "SoftmaxAttentionGrad" "/trained"(%a, %a, %a, %a, %a, %s, %c) {rows_first = array<i64: 0, 0, 0, 0>} : (tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<2x6x32xf32>, tensor<1x6x32x32xf32>) -> (tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<1x6x32x32xf32>)
    pdc.yield %0#0, %0#1, %0#2, %0#3 : tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<1x6x32x32xf32>
  }
  // CHECK: pdc.unit "/of_keys"
  // CHECK-NOT: compute
  // CHECK: pdc.unit "/half/sums"
  // WARNING: warning: attention's gradient is also that of a mask that heads, queries or keys share, which cuDNN does not sum: it runs on a kernel without tensor cores
  %of_keys = pdc.read @of_keys : tensor<1x1x1x32xf32>
  %o:4 = pdc.unit "/of_keys" origin "/of_keys" backward_input microbatch (%a = %q : tensor<2x6x32x64xbf16>, %s = %sums : tensor<2x6x32xf32>, %c = %of_keys : tensor<1x1x1x32xf32>) -> (tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<1x6x32x32xf32>) {
    %0:4 = pdc.node "SoftmaxAttentionGrad" "/of_keys"(%a, %a, %a, %a, %a, %s, %c) {rows_first = array<i64: 0, 0, 0, 0>} : (tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<2x6x32xf32>, tensor<1x1x1x32xf32>) -> (tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<1x6x32x32xf32>)
    pdc.yield %0#0, %0#1, %0#2, %0#3 : tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<1x6x32x32xf32>
  }
  // A gradient that the library is known to overflow; without a mask it is not.
  // CHECK: pdc.unit "/half"
  // CHECK-NOT: compute
  // CHECK: pdc.unit "/half/causal"
  // CHECK-SAME: compute = "bf16"
  // WARNING: warning: attention's gradient has a mask of 192 keys, which may overflow in cuDNN's unless they are a multiple of 128: it runs on a kernel without tensor cores
  %half_tile = pdc.read @half_tile : tensor<2x6x192x64xbf16>
  %half_mask = pdc.read @half_mask : tensor<1x1x1x192xf32>
  %half_sums:2 = pdc.unit "/half/sums" origin "/half/sums" forward microbatch (%a = %half_tile : tensor<2x6x192x64xbf16>) -> (tensor<2x6x192x64xbf16>, tensor<2x6x192xf32>) {
    %0:2 = pdc.node "SoftmaxAttention" "/half/sums"(%a, %a, %a) {is_causal = 1 : i64, rows_first = array<i64: 0, 0, 0, 0>} : (tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>) -> (tensor<2x6x192x64xbf16>, tensor<2x6x192xf32>)
    pdc.yield %0#0, %0#1 : tensor<2x6x192x64xbf16>, tensor<2x6x192xf32>
  }
  %h:3 = pdc.unit "/half" origin "/half" backward_input microbatch (%a = %half_tile : tensor<2x6x192x64xbf16>, %s = %half_sums#1 : tensor<2x6x192xf32>, %c = %half_mask : tensor<1x1x1x192xf32>) -> (tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>) {
    %0:3 = pdc.node "SoftmaxAttentionGrad" "/half"(%a, %a, %a, %a, %a, %s, %c) {rows_first = array<i64: 0, 0, 0, 0>} : (tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>, tensor<2x6x192xf32>, tensor<1x1x1x192xf32>) -> (tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>)
    pdc.yield %0#0, %0#1, %0#2 : tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>
  }
  %u:3 = pdc.unit "/half/causal" origin "/half/causal" backward_input microbatch (%a = %half_tile : tensor<2x6x192x64xbf16>, %s = %half_sums#1 : tensor<2x6x192xf32>) -> (tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>) {
    %0:3 = pdc.node "SoftmaxAttentionGrad" "/half/causal"(%a, %a, %a, %a, %a, %s) {is_causal = 1 : i64, rows_first = array<i64: 0, 0, 0, 0>} : (tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>, tensor<2x6x192xf32>) -> (tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>)
    pdc.yield %0#0, %0#1, %0#2 : tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>, tensor<2x6x192x64xbf16>
  }
  // Gradients of one key; what is causal of one query where heads share keys, and not where each has its own, or behind a past.
  // CHECK: pdc.unit "/one_key/grad"
  // CHECK-NOT: compute
  // CHECK: pdc.unit "/one_query/shared"
  // CHECK-NOT: compute
  // CHECK: pdc.unit "/one_query/own"
  // CHECK-SAME: compute = "bf16"
  // CHECK: pdc.unit "/one_query/past"
  // CHECK-SAME: compute = "bf16"
  // WARNING: warning: attention's gradient has one key, for which cuDNN has none: it runs on a kernel without tensor cores
  // WARNING: warning: attention is causal of one query, with heads that share keys, which cuDNN computes wrongly: it runs on a kernel without tensor cores
  // WARNING-NOT: warning
  %one_key = pdc.read @one_key : tensor<2x6x1x64xbf16>
  %w:3 = pdc.unit "/one_key/grad" origin "/one_key/grad" backward_input microbatch (%a = %q : tensor<2x6x32x64xbf16>, %b = %one_key : tensor<2x6x1x64xbf16>, %s = %sums : tensor<2x6x32xf32>) -> (tensor<2x6x32x64xbf16>, tensor<2x6x1x64xbf16>, tensor<2x6x1x64xbf16>) {
    %0:3 = pdc.node "SoftmaxAttentionGrad" "/one_key/grad"(%a, %a, %b, %b, %a, %s) {rows_first = array<i64: 0, 0, 0, 0>} : (tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>, tensor<2x6x1x64xbf16>, tensor<2x6x1x64xbf16>, tensor<2x6x32x64xbf16>, tensor<2x6x32xf32>) -> (tensor<2x6x32x64xbf16>, tensor<2x6x1x64xbf16>, tensor<2x6x1x64xbf16>)
    pdc.yield %0#0, %0#1, %0#2 : tensor<2x6x32x64xbf16>, tensor<2x6x1x64xbf16>, tensor<2x6x1x64xbf16>
  }
  %one_query = pdc.read @one_query : tensor<2x6x1x64xbf16>
  %x = pdc.unit "/one_query/shared" origin "/one_query/shared" forward microbatch (%a = %one_query : tensor<2x6x1x64xbf16>, %b = %k : tensor<2x3x32x64xbf16>) -> (tensor<2x6x1x64xbf16>) {
    %0:2 = pdc.node "SoftmaxAttention" "/one_query/shared"(%a, %b, %b) {is_causal = 1 : i64, rows_first = array<i64: 0, 0, 0, 0>} : (tensor<2x6x1x64xbf16>, tensor<2x3x32x64xbf16>, tensor<2x3x32x64xbf16>) -> (tensor<2x6x1x64xbf16>, tensor<2x6x1xf32>)
    pdc.yield %0#0 : tensor<2x6x1x64xbf16>
  }
  %y1 = pdc.unit "/one_query/own" origin "/one_query/own" forward microbatch (%a = %one_query : tensor<2x6x1x64xbf16>, %b = %q : tensor<2x6x32x64xbf16>) -> (tensor<2x6x1x64xbf16>) {
    %0:2 = pdc.node "SoftmaxAttention" "/one_query/own"(%a, %b, %b) {is_causal = 1 : i64, rows_first = array<i64: 0, 0, 0, 0>} : (tensor<2x6x1x64xbf16>, tensor<2x6x32x64xbf16>, tensor<2x6x32x64xbf16>) -> (tensor<2x6x1x64xbf16>, tensor<2x6x1xf32>)
    pdc.yield %0#0 : tensor<2x6x1x64xbf16>
  }
  %z = pdc.unit "/one_query/past" origin "/one_query/past" forward microbatch (%a = %one_query : tensor<2x6x1x64xbf16>, %b = %k : tensor<2x3x32x64xbf16>) -> (tensor<2x6x1x64xbf16>) {
    %0:2 = pdc.node "SoftmaxAttention" "/one_query/past"(%a, %b, %b) {is_causal = 1 : i64, past = 31 : i64, rows_first = array<i64: 0, 0, 0, 0>} : (tensor<2x6x1x64xbf16>, tensor<2x3x32x64xbf16>, tensor<2x3x32x64xbf16>) -> (tensor<2x6x1x64xbf16>, tensor<2x6x1xf32>)
    pdc.yield %0#0 : tensor<2x6x1x64xbf16>
  }
  pdc.accumulate %w#0 into @sums : tensor<2x6x32x64xbf16>
  pdc.accumulate %w#1 into @ones : tensor<2x6x1x64xbf16>
  pdc.accumulate %w#2 into @ones : tensor<2x6x1x64xbf16>
  pdc.accumulate %x into @ones : tensor<2x6x1x64xbf16>
  pdc.accumulate %y1 into @ones : tensor<2x6x1x64xbf16>
  pdc.accumulate %z into @ones : tensor<2x6x1x64xbf16>
  pdc.accumulate %half_sums#0 into @half_tiles : tensor<2x6x192x64xbf16>
  pdc.accumulate %h#0 into @half_tiles : tensor<2x6x192x64xbf16>
  pdc.accumulate %h#1 into @half_tiles : tensor<2x6x192x64xbf16>
  pdc.accumulate %h#2 into @half_tiles : tensor<2x6x192x64xbf16>
  pdc.accumulate %u#0 into @half_tiles : tensor<2x6x192x64xbf16>
  pdc.accumulate %u#1 into @half_tiles : tensor<2x6x192x64xbf16>
  pdc.accumulate %u#2 into @half_tiles : tensor<2x6x192x64xbf16>
  pdc.accumulate %t#0 into @sums : tensor<2x6x32x64xbf16>
  pdc.accumulate %t#1 into @sums : tensor<2x6x32x64xbf16>
  pdc.accumulate %t#2 into @sums : tensor<2x6x32x64xbf16>
  pdc.accumulate %t#3 into @biases : tensor<1x6x32x32xf32>
  pdc.accumulate %o#0 into @sums : tensor<2x6x32x64xbf16>
  pdc.accumulate %o#1 into @sums : tensor<2x6x32x64xbf16>
  pdc.accumulate %o#2 into @sums : tensor<2x6x32x64xbf16>
  pdc.accumulate %o#3 into @biases : tensor<1x6x32x32xf32>
  pdc.accumulate %d#0 into @sums : tensor<2x6x32x64xbf16>
  pdc.accumulate %d#1 into @keys : tensor<2x3x32x64xbf16>
  pdc.accumulate %d#2 into @keys : tensor<2x3x32x64xbf16>
  pdc.accumulate %m into @sums : tensor<2x6x32x64xbf16>
  pdc.accumulate %n into @rows : tensor<2x6x32x12xbf16>
  pdc.accumulate %p into @sums : tensor<2x6x32x64xbf16>
  return
}
