// RUN: pdc-opt %s --narrow-values=precision=bf16 --check-against=%s -o - | FileCheck %s
// RUN: pdc-opt %s --narrow-values=precision=tf32 -o - | FileCheck --check-prefix=SAME %s
// RUN: pdc-opt %s --narrow-values=precision=fp16 -o - | FileCheck --check-prefix=FP16 %s
// SAME-NOT: bf16
// SAME-NOT: Cast

pdc.memory @x input microbatch : tensor<4x6xf32>
pdc.memory @mask input microbatch : tensor<4x3xf32>
pdc.memory @w weight version : tensor<6x3xf32>
pdc.memory @b weight version : tensor<3xf32>
pdc.memory @scale weight version : tensor<3xf32>
pdc.memory @sums metric update : tensor<4x3xf32>
pdc.memory @products metric update : tensor<4x3xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  // What a product reads is cast where it is made: once, whoever reads it.
  // CHECK-NEXT: %[[X:.*]] = pdc.read @x
  // CHECK-NEXT: %[[NARROW_X:.*]] = pdc.node "Cast" "x/bf16"(%[[X]]) {to = 16 : i64} : (tensor<4x6xf32>) -> tensor<4x6xbf16>
  %x = pdc.read @x : tensor<4x6xf32>
  // CHECK-NEXT: %[[MASK:.*]] = pdc.read @mask
  // CHECK-NEXT: %[[MASK_BF16:.*]] = pdc.node "Cast" "mask/bf16"
  %mask = pdc.read @mask : tensor<4x3xf32>
  // CHECK-NEXT: pdc.weight_version @w
  // CHECK-NEXT: %[[W:.*]] = pdc.node "Cast" "w/bf16"
  %w = pdc.weight_version @w latest : tensor<6x3xf32>
  // CHECK-NEXT: pdc.weight_version @b
  // CHECK-NEXT: %[[B:.*]] = pdc.node "Cast" "b/bf16"
  %b = pdc.weight_version @b latest : tensor<3xf32>
  // CHECK-NEXT: %[[SCALE:.*]] = pdc.weight_version @scale
  %scale = pdc.weight_version @scale latest : tensor<3xf32>
  // What is made of inputs alone stays f32.
  // CHECK-NEXT: %[[EXP:.*]] = pdc.node "Exp" "/exp"(%[[MASK]]) {} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %exp = pdc.node "Exp" "/exp"(%mask) {} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  // CHECK-NEXT: %[[Y:.*]] = pdc.node "MatMul" "/mm"(%[[NARROW_X]], %[[W]]) {} : (tensor<4x6xbf16>, tensor<6x3xbf16>) -> tensor<4x3xbf16>
  %y = pdc.node "MatMul" "/mm"(%x, %w) {} : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>
  // A product's bias has its type; loops else mix both and stay narrow.
  // CHECK-NEXT: %[[A:.*]] = pdc.node "Add" "/add"(%[[Y]], %[[B]]) {} : (tensor<4x3xbf16>, tensor<3xbf16>) -> tensor<4x3xbf16>
  %a = pdc.node "Add" "/add"(%y, %b) {} : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  // CHECK-NEXT: %[[F:.*]] = pdc.node "FusedMatMul" "/fused"({{.*}}) {{.*}} -> tensor<4x3xbf16>
  %f = pdc.node "FusedMatMul" "/fused"(%x, %w) {} : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>
  // CHECK-NEXT: pdc.node "Add" "/fused/add"(%[[F]], %[[B]]) {} : (tensor<4x3xbf16>, tensor<3xbf16>) -> tensor<4x3xbf16>
  %g = pdc.node "Add" "/fused/add"(%f, %b) {} : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  // CHECK-NEXT: %[[SUMMED:.*]] = pdc.node "ReduceSum" "/sum"({{.*}}) {} : (tensor<4x3xbf16>) -> tensor<1x1xf32>
  %summed = pdc.node "ReduceSum" "/sum"(%g) {} : (tensor<4x3xf32>) -> tensor<1x1xf32>
  // CHECK-NEXT: %[[M:.*]] = pdc.node "Mul" "/mul"(%[[A]], %[[EXP]]) {} : (tensor<4x3xbf16>, tensor<4x3xf32>) -> tensor<4x3xbf16>
  %m = pdc.node "Mul" "/mul"(%a, %exp) {} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  // The larger of two is stored in 16 bits, and compared with both as they would have been stored.
  // CHECK-NEXT: %[[LARGER:.*]] = pdc.node "Max" "/max"(%[[M]], %[[MASK]]) {} : (tensor<4x3xbf16>, tensor<4x3xf32>) -> tensor<4x3xbf16>
  %larger = pdc.node "Max" "/max"(%m, %mask) {} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  // CHECK-NEXT: pdc.node "Equal" "/max/grad"(%[[MASK_BF16]], %[[LARGER]]) {} : (tensor<4x3xbf16>, tensor<4x3xbf16>) -> tensor<4x3xi1>
  %equal = pdc.node "Equal" "/max/grad"(%mask, %larger) {} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xi1>
  // A finite number that 16 bits would make infinite leaves what it stands in f32, and fp16 leaves powers there.
  // CHECK: %[[WIDE_M:.*]] = pdc.node "Cast" "/mul/f32"(%[[M]])
  // CHECK-NEXT: %[[MASKED:.*]] = pdc.node "Where" "/masked"(%{{.*}}, %[[WIDE_M]], %{{.*}}) {} : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %hidden = pdc.node "Constant" "/hidden"() {value = dense<-3.40282347E+38> : tensor<f32>} : () -> tensor<f32>
  %masked = pdc.node "Where" "/masked"(%equal, %m, %hidden) {} : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  // So do numbers that are made of the inputs alone where they are added or picked: they may mask.
  // CHECK-NEXT: pdc.node "Add" "/plus"(%[[WIDE_M]], %[[EXP]]) {} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %plus = pdc.node "Add" "/plus"(%m, %exp) {} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  // CHECK-NEXT: pdc.node "Where" "/picked"(%{{.*}}, %[[WIDE_M]], %[[MASK]]) {} : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %picked = pdc.node "Where" "/picked"(%equal, %m, %mask) {} : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  // As autocast has it.
  // CHECK-NEXT: pdc.node "Exp" "/range"({{.*}} -> tensor<4x3xf32>
  // FP16: pdc.node "Exp" "/range"({{.*}} -> tensor<4x3xf32>
  %range = pdc.node "Exp" "/range"(%m) {} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  // And squares, which variances are sums of.
  // CHECK-NEXT: pdc.node "Mul" "/square"({{.*}} -> tensor<4x3xbf16>
  // FP16: pdc.node "Mul" "/square"({{.*}} -> tensor<4x3xf32>
  %square = pdc.node "Mul" "/square"(%m, %m) {} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  // Normalisations take narrow rows; their statistics and scales are f32.
  // CHECK-NEXT: %[[N:.*]]:2 = pdc.node "RMSNormalization" "/norm"(%[[M]], %[[SCALE]]) {} : (tensor<4x3xbf16>, tensor<3xf32>) -> (tensor<4x3xbf16>, tensor<4x1xf32>)
  %n:2 = pdc.node "RMSNormalization" "/norm"(%m, %scale) {} : (tensor<4x3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<4x1xf32>)
  // A kernel without 16 bits, and sums, read f32.
  // CHECK: %[[WIDE:.*]] = pdc.node "Cast" "/norm/f32"(%[[N]]#0) {to = 1 : i64} : (tensor<4x3xbf16>) -> tensor<4x3xf32>
  // CHECK-NEXT: %[[C:.*]] = pdc.node "CumSum" "/cumulate"(%[[WIDE]]
  %axis = pdc.node "Constant" "/axis"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  %c = pdc.node "CumSum" "/cumulate"(%n#0, %axis) {} : (tensor<4x3xf32>, tensor<1xi64>) -> tensor<4x3xf32>
  pdc.accumulate %c into @sums : tensor<4x3xf32>
  // CHECK: pdc.accumulate %[[WIDE_M]] into @products
  pdc.accumulate %m into @products : tensor<4x3xf32>
  // What shows a value to products alone is cast in front of them: what makes the value may round it.
  // CHECK: %[[SHOWN:.*]] = pdc.node "CumSum" "/shown/sums"
  // CHECK-NEXT: %[[ROUNDED:.*]] = pdc.node "Cast" "/shown/sums/bf16"(%[[SHOWN]])
  // CHECK-NEXT: %[[FLAT:.*]] = pdc.node "Flatten" "/shown"(%[[ROUNDED]]) {{.*}} -> tensor<4x3xbf16>
  // CHECK: pdc.node "ReduceSum" "/shown/sum"(%[[FLAT]]) {} : (tensor<4x3xbf16>) -> tensor<1x1xf32>
  // CHECK: pdc.node "FusedMatMul" "/shown/mm"(%[[FLAT]], %[[FLAT]])
  %sums = pdc.node "CumSum" "/shown/sums"(%exp, %axis) {} : (tensor<4x3xf32>, tensor<1xi64>) -> tensor<4x3xf32>
  %shown = pdc.node "Flatten" "/shown"(%sums) {axis = 1 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %shown_sum = pdc.node "ReduceSum" "/shown/sum"(%shown) {} : (tensor<4x3xf32>) -> tensor<1x1xf32>
  %shown_product = pdc.node "FusedMatMul" "/shown/mm"(%shown, %shown) {transA = 1 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  // Views of a view are narrowed with it, in whichever order products read them.
  // CHECK: %[[FIRST:.*]] = pdc.node "Flatten" "/first"({{.*}}) {{.*}} -> tensor<4x3xbf16>
  // CHECK-NEXT: %[[SECOND:.*]] = pdc.node "Flatten" "/second"(%[[FIRST]]) {{.*}} -> tensor<4x3xbf16>
  // CHECK: pdc.node "FusedMatMul" "/first/mm"(%[[FIRST]], %[[FIRST]])
  // CHECK: pdc.node "FusedMatMul" "/second/mm"(%[[SECOND]], %[[SECOND]])
  %viewed_sums = pdc.node "CumSum" "/viewed/sums"(%exp, %axis) {} : (tensor<4x3xf32>, tensor<1xi64>) -> tensor<4x3xf32>
  %first = pdc.node "Flatten" "/first"(%viewed_sums) {axis = 1 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %second = pdc.node "Flatten" "/second"(%first) {axis = 1 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %first_product = pdc.node "FusedMatMul" "/first/mm"(%first, %first) {transA = 1 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  %second_product = pdc.node "FusedMatMul" "/second/mm"(%second, %second) {transA = 1 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  // Nor where something else reads what it is a view of: the view itself is of the short copy, for
  // gradients name it as their origin.
  // CHECK: %[[BOTH:.*]] = pdc.node "CumSum" "/both/sums"
  // CHECK-NEXT: %[[COPY:.*]] = pdc.node "Cast" "/both/sums/bf16"(%[[BOTH]])
  // CHECK-NEXT: %[[ITSELF:.*]] = pdc.node "Flatten" "/both"(%[[COPY]]) {{.*}} -> tensor<4x3xbf16>
  // CHECK-NEXT: pdc.node "FusedMatMul" "/both/mm"(%[[ITSELF]], %[[ITSELF]])
  // CHECK-NEXT: pdc.node "CumSum" "/both/again"(%[[BOTH]]
  %both_sums = pdc.node "CumSum" "/both/sums"(%exp, %axis) {} : (tensor<4x3xf32>, tensor<1xi64>) -> tensor<4x3xf32>
  %both = pdc.node "Flatten" "/both"(%both_sums) {axis = 1 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %both_product = pdc.node "FusedMatMul" "/both/mm"(%both, %both) {transA = 1 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  %both_again = pdc.node "CumSum" "/both/again"(%both_sums, %axis) {} : (tensor<4x3xf32>, tensor<1xi64>) -> tensor<4x3xf32>
  // Not where something else reads the view: what it is a view of is brought to 16 bits once, for all
  // its readers.
  // CHECK: %[[SUMS:.*]] = pdc.node "CumSum" "/read/sums"
  // CHECK-NEXT: %[[SHORT:.*]] = pdc.node "Cast" "/read/sums/bf16"(%[[SUMS]])
  // CHECK: %[[READ:.*]] = pdc.node "Flatten" "/read"(%[[SUMS]]) {{.*}} -> tensor<4x3xf32>
  // CHECK-NEXT: %[[VIEW:.*]] = pdc.node "Flatten" "/read/bf16"(%[[SHORT]]) {{.*}} -> tensor<4x3xbf16>
  // CHECK-NEXT: pdc.node "FusedMatMul" "/read/mm"(%[[VIEW]], %[[VIEW]])
  // CHECK-NEXT: pdc.node "FusedMatMul" "/read/again/mm"(%[[SHORT]], %[[SHORT]])
  // CHECK-NEXT: pdc.node "CumSum" "/read/again"(%[[READ]]
  %read_sums = pdc.node "CumSum" "/read/sums"(%exp, %axis) {} : (tensor<4x3xf32>, tensor<1xi64>) -> tensor<4x3xf32>
  %read = pdc.node "Flatten" "/read"(%read_sums) {axis = 1 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %read_product = pdc.node "FusedMatMul" "/read/mm"(%read, %read) {transA = 1 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  %again_product = pdc.node "FusedMatMul" "/read/again/mm"(%read_sums, %read_sums) {transA = 1 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  %again = pdc.node "CumSum" "/read/again"(%read, %axis) {} : (tensor<4x3xf32>, tensor<1xi64>) -> tensor<4x3xf32>
  return
}

// Of a view, kernels that read 16 bits as f32 have a Cast each, so that it can be part of them; another may be part of what makes
// the value.
// CHECK-LABEL: func.func @evaluate
// CHECK: %[[SCORES:.*]] = pdc.node "FusedMatMul" "/mm"
// CHECK: %[[WIDE:.*]] = pdc.node "Cast" "/mm/f32"(%[[SCORES]])
// CHECK: pdc.node "SoftmaxCrossEntropyLoss" "/loss"(%[[WIDE]],
// CHECK: pdc.node "CorrectPredictions" "/correct"(%[[WIDE]],
// CHECK: %[[VIEW:.*]] = pdc.node "Flatten" "/rows"
// CHECK: %[[OF_LOSS:.*]] = pdc.node "Cast" "/rows/f32"(%[[VIEW]])
// CHECK: pdc.node "SoftmaxCrossEntropyLoss" "/rows/loss"(%[[OF_LOSS]],
// CHECK: %[[OF_COUNT:.*]] = pdc.node "Cast" "/rows/f32.1"(%[[VIEW]])
// CHECK: pdc.node "CorrectPredictions" "/rows/correct"(%[[OF_COUNT]],
pdc.memory @labels input microbatch : tensor<4xi64>
func.func @evaluate() {
  %x = pdc.read @x : tensor<4x6xf32>
  %w = pdc.weight_version @w latest : tensor<6x3xf32>
  %labels = pdc.read @labels : tensor<4xi64>
  %m = pdc.node "FusedMatMul" "/mm"(%x, %w) {} : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>
  %l = pdc.node "SoftmaxCrossEntropyLoss" "/loss"(%m, %labels) {reduction = "sum"} : (tensor<4x3xf32>, tensor<4xi64>) -> tensor<f32>
  %c = pdc.node "CorrectPredictions" "/correct"(%m, %labels) {} : (tensor<4x3xf32>, tensor<4xi64>) -> tensor<f32>
  %v = pdc.node "FusedMatMul" "/mm2"(%x, %w) {} : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>
  %r = pdc.node "Flatten" "/rows"(%v) {axis = 1 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %k = pdc.node "SoftmaxCrossEntropyLoss" "/rows/loss"(%r, %labels) {reduction = "sum"} : (tensor<4x3xf32>, tensor<4xi64>) -> tensor<f32>
  %d = pdc.node "CorrectPredictions" "/rows/correct"(%r, %labels) {} : (tensor<4x3xf32>, tensor<4xi64>) -> tensor<f32>
  return
}

// A loss's gradient reads the scores again: what the product has written in f32 for both, or each its own Cast of a view.
// CHECK-LABEL: func.func @losses
// CHECK: %[[WIDE:.*]] = pdc.node "Cast" "/mm/f32"
// CHECK-NEXT: pdc.node "SoftmaxCrossEntropyLoss" "/loss"(%[[WIDE]],
// CHECK-NEXT: pdc.node "SoftmaxCrossEntropyLossGrad" "/loss/grad"(%[[WIDE]],
// CHECK: %[[VIEW:.*]] = pdc.node "Flatten" "/rows"
// CHECK-NEXT: %[[OF_LOSS:.*]] = pdc.node "Cast" "/rows/f32"(%[[VIEW]]) {to = 1 : i64} : (
// CHECK-NEXT: pdc.node "SoftmaxCrossEntropyLoss" "/rows/loss"(%[[OF_LOSS]],
// CHECK-NEXT: %[[OF_GRADIENT:.*]] = pdc.node "Cast" "/rows/f32.1"(%[[VIEW]]) {to = 1 : i64} origin "/rows/loss"
// CHECK-NEXT: pdc.node "SoftmaxCrossEntropyLossGrad" "/rows/loss/grad"(%[[OF_GRADIENT]],
func.func @losses() {
  %x = pdc.read @x : tensor<4x6xf32>
  %w = pdc.weight_version @w latest : tensor<6x3xf32>
  %labels = pdc.read @labels : tensor<4xi64>
  %m = pdc.node "FusedMatMul" "/mm"(%x, %w) {} : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>
  %l:3 = pdc.node "SoftmaxCrossEntropyLoss" "/loss"(%m, %labels) {reduction = "sum"} : (tensor<4x3xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4x3xf32>, tensor<4x2xf32>)
  %dm = pdc.node "SoftmaxCrossEntropyLossGrad" "/loss/grad"(%m, %l#2, %labels, %l#0) {reduction = "sum"} origin "/loss" : (tensor<4x3xf32>, tensor<4x2xf32>, tensor<4xi64>, tensor<f32>) -> tensor<4x3xf32>
  %v = pdc.node "FusedMatMul" "/mm2"(%x, %w) {} : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>
  %r = pdc.node "Flatten" "/rows"(%v) {axis = 1 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %k:3 = pdc.node "SoftmaxCrossEntropyLoss" "/rows/loss"(%r, %labels) {reduction = "sum"} : (tensor<4x3xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4x3xf32>, tensor<4x2xf32>)
  %dr = pdc.node "SoftmaxCrossEntropyLossGrad" "/rows/loss/grad"(%r, %k#2, %labels, %k#0) {reduction = "sum"} origin "/rows/loss" : (tensor<4x3xf32>, tensor<4x2xf32>, tensor<4xi64>, tensor<f32>) -> tensor<4x3xf32>
  return
}

// A product with numbers that 16 bits would round, such as sines, stays f32; with others it does not.
// CHECK-LABEL: func.func @transforms
// CHECK: pdc.node "MatMul" "/sines"(%{{.*}}, %{{.*}}) {} : (tensor<4x6xf32>, tensor<6x2xf32>) -> tensor<4x2xf32>
// CHECK: pdc.node "MatMul" "/halves"(%{{.*}}, %{{.*}}) {} : (tensor<4x6xbf16>, tensor<6x2xbf16>) -> tensor<4x2xbf16>
func.func @transforms() {
  %x = pdc.read @x : tensor<4x6xf32>
  %s = pdc.node "Constant" "/sine"() {value = dense<0.1> : tensor<6x2xf32>} : () -> tensor<6x2xf32>
  %a = pdc.node "MatMul" "/sines"(%x, %s) {} : (tensor<4x6xf32>, tensor<6x2xf32>) -> tensor<4x2xf32>
  %h = pdc.node "Constant" "/half"() {value = dense<0.5> : tensor<6x2xf32>} : () -> tensor<6x2xf32>
  %b = pdc.node "MatMul" "/halves"(%x, %h) {} : (tensor<4x6xf32>, tensor<6x2xf32>) -> tensor<4x2xf32>
  return
}
