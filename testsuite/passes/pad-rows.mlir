// RUN: pdc-opt %s --pad-rows | FileCheck %s

#product = #pdc.kernel<"MatrixProduct", {a = array<i64: 2, 3, 6>, b = array<i64: 6, 61>, bias = array<i64: 1, 1, 61>, compute = "bf16", output = array<i64: 2, 3, 61>}, workspace = 0, accumulates = false>
#loss = #pdc.kernel<"SoftmaxCrossEntropy", {classes = 61 : i64, pixels = 1 : i64, samples = 6 : i64}, workspace = 0, accumulates = false>
#gradient = #pdc.kernel<"SoftmaxCrossEntropyGradient", {classes = 61 : i64, pixels = 1 : i64, samples = 6 : i64}, workspace = 0, accumulates = false>
#sum = #pdc.kernel<"ColumnSum", {input = array<i64: 6, 61>, layout = ""}, workspace = 0, accumulates = true>
#weight = #pdc.kernel<"MatrixProduct", {a = array<i64: 6, 6>, b = array<i64: 6, 61>, compute = "bf16", output = array<i64: 6, 61>, result = "fp32", sums = 1 : i64, transA = 1 : i64}, workspace = 0, accumulates = true>
#vector = #pdc.kernel<"MatrixProduct", {a = array<i64: 4, 61, 16>, b = array<i64: 16, 1>, compute = "bf16", output = array<i64: 4, 61, 1>}, workspace = 0, accumulates = false>
#scores = #pdc.kernel<"MatrixProduct", {a = array<i64: 4, 3, 16>, b = array<i64: 16, 61>, compute = "bf16", output = array<i64: 4, 3, 61>}, workspace = 0, accumulates = false>
#rows = #pdc.kernel<"ColumnSum", {input = array<i64: 4, 183>, layout = ""}, workspace = 0, accumulates = false>
#labelled = #pdc.kernel<"CorrectPredictions", {classes = 61 : i64, pixels = 1 : i64, samples = 4 : i64}, workspace = 0, accumulates = false>
#loop = #pdc.kernel<"Elementwise", {count = 366 : i64}, workspace = 0, accumulates = false>

pdc.memory @x input microbatch : tensor<2x3x6xbf16>
pdc.memory @labels input microbatch : tensor<6xi64>
pdc.memory @w weight version : tensor<6x61xbf16>
pdc.memory @bias weight version : tensor<61xbf16>
pdc.memory @"w/gradient" gradient update : tensor<6x61xf32>
pdc.memory @"bias/gradient" gradient update : tensor<61xf32>
pdc.memory @long input microbatch : tensor<4x61x16xbf16>
pdc.memory @short input microbatch : tensor<4x3x16xbf16>
pdc.memory @four input microbatch : tensor<4xi64>
pdc.memory @column weight version : tensor<16xbf16>
pdc.memory @table weight version : tensor<16x61xbf16>
pdc.memory @loss metric update : tensor<f32>
pdc.memory @seen metric update : tensor<6x61xf32>

// Scores and their gradient, as whatever views show them; what adds up in f32 has its own readers.
// CHECK-LABEL: func.func @train
func.func @train() {
  %x = pdc.read @x : tensor<2x3x6xbf16>
  %labels = pdc.read @labels : tensor<6xi64>
  %w = pdc.weight_version @w latest : tensor<6x61xbf16>
  %bias = pdc.weight_version @bias latest : tensor<61xbf16>
  // CHECK: %[[Y:.*]] = pdc.unit "fc" {{.*}} -> (tensor<2x3x61xbf16, #pdc.layout<"abC8c">>) {{.*}}pitchY = 64 : i64
  %y = pdc.unit "fc" origin "fc" forward microbatch (%0 = %x : tensor<2x3x6xbf16>, %1 = %w : tensor<6x61xbf16>, %2 = %bias : tensor<61xbf16>) -> (tensor<2x3x61xbf16>) attributes {kernel = #product} {
    %3 = pdc.node "MatMul" "fc"(%0, %1) {} : (tensor<2x3x6xbf16>, tensor<6x61xbf16>) -> tensor<2x3x61xbf16>
    pdc.yield %3 : tensor<2x3x61xbf16>
  }
  // CHECK: %[[V:.*]] = pdc.unit "view" {{.*}}(%{{.*}} = %[[Y]] : tensor<2x3x61xbf16, #pdc.layout<"abC8c">>) -> (tensor<6x61xbf16, #pdc.layout<"aB8b">>)
  %v = pdc.unit "view" origin "fc" forward microbatch (%0 = %y : tensor<2x3x61xbf16>) -> (tensor<6x61xbf16>) {
    %1 = pdc.node "Flatten" "view"(%0) {axis = 2 : i64} : (tensor<2x3x61xbf16>) -> tensor<6x61xbf16>
    pdc.yield %1 : tensor<6x61xbf16>
  }
  // CHECK: pdc.unit "loss" {{.*}} = %[[V]] : tensor<6x61xbf16, #pdc.layout<"aB8b">>{{.*}} -> (tensor<f32>, tensor<6x2xf32>) {{.*}}pitch = 64 : i64, pixels
  %l:2 = pdc.unit "loss" origin "loss" forward microbatch (%0 = %v : tensor<6x61xbf16>, %1 = %labels : tensor<6xi64>) -> (tensor<f32>, tensor<6x2xf32>) attributes {kernel = #loss} {
    %2 = pdc.node "Cast" "wide"(%0) {to = 1 : i64} : (tensor<6x61xbf16>) -> tensor<6x61xf32>
    %3:3 = pdc.node "SoftmaxCrossEntropyLoss" "loss"(%2, %1) {reduction = "sum"} : (tensor<6x61xf32>, tensor<6xi64>) -> (tensor<f32>, tensor<6x61xf32>, tensor<6x2xf32>)
    pdc.yield %3#0, %3#2 : tensor<f32>, tensor<6x2xf32>
  }
  pdc.accumulate %l#0 into @loss : tensor<f32>
  // CHECK: %[[D:.*]] = pdc.unit "loss/gradient" {{.*}} = %[[V]] : tensor<6x61xbf16, #pdc.layout<"aB8b">>{{.*}} -> (tensor<6x61xbf16, #pdc.layout<"aB8b">>) {{.*}}gradientPitch = 64 : i64, pitch = 64 : i64
  %d = pdc.unit "loss/gradient" origin "loss" backward_input microbatch (%0 = %v : tensor<6x61xbf16>, %1 = %l#1 : tensor<6x2xf32>, %2 = %labels : tensor<6xi64>, %3 = %l#0 : tensor<f32>) -> (tensor<6x61xbf16>) attributes {kernel = #gradient} {
    %4 = pdc.node "Cast" "wide/gradient"(%0) {to = 1 : i64} : (tensor<6x61xbf16>) -> tensor<6x61xf32>
    %5 = pdc.node "SoftmaxCrossEntropyLossGrad" "loss/gradient"(%4, %1, %2, %3) {} : (tensor<6x61xf32>, tensor<6x2xf32>, tensor<6xi64>, tensor<f32>) -> tensor<6x61xf32>
    %6 = pdc.node "Cast" "narrow"(%5) {to = 16 : i64} : (tensor<6x61xf32>) -> tensor<6x61xbf16>
    pdc.yield %6 : tensor<6x61xbf16>
  }
  // CHECK: pdc.unit "bias/sum" {{.*}} = %[[D]] : {{.*}}pitch = 64 : i64
  %s = pdc.unit "bias/sum" origin "fc" backward_weight microbatch (%0 = %d : tensor<6x61xbf16>) -> (tensor<61xf32>) attributes {kernel = #sum} {
    %1 = pdc.node "ReduceSum" "bias/sum"(%0) {} : (tensor<6x61xbf16>) -> tensor<61xf32>
    pdc.yield %1 : tensor<61xf32>
  }
  pdc.accumulate %s into @"bias/gradient" : tensor<61xf32>
  %r = pdc.unit "rows" origin "fc" forward microbatch (%0 = %x : tensor<2x3x6xbf16>) -> (tensor<6x6xbf16>) {
    %1 = pdc.node "Flatten" "rows"(%0) {axis = 2 : i64} : (tensor<2x3x6xbf16>) -> tensor<6x6xbf16>
    pdc.yield %1 : tensor<6x6xbf16>
  }
  // CHECK: pdc.unit "w/sum" {{.*}} = %[[D]] : {{.*}} -> (tensor<6x61xf32>) {{.*}}output = array<i64: 6, 61>, pitchB = 64 : i64, result
  %g = pdc.unit "w/sum" origin "fc" backward_weight microbatch (%0 = %r : tensor<6x6xbf16>, %1 = %d : tensor<6x61xbf16>) -> (tensor<6x61xf32>) attributes {kernel = #weight} {
    %2 = pdc.node "FusedMatMul" "w/sum"(%0, %1) {transA = 1 : i64} : (tensor<6x6xbf16>, tensor<6x61xbf16>) -> tensor<6x61xf32>
    pdc.yield %2 : tensor<6x61xf32>
  }
  pdc.accumulate %g into @"w/gradient" : tensor<6x61xf32>
  return
}

// A loop reads the scores, too, and knows of no rows.
// CHECK-LABEL: func.func @evaluate
// CHECK-NOT: layout<
// CHECK-NOT: pitch
func.func @evaluate() {
  %x = pdc.read @x : tensor<2x3x6xbf16>
  %w = pdc.weight_version @w latest : tensor<6x61xbf16>
  %bias = pdc.weight_version @bias latest : tensor<61xbf16>
  %y = pdc.unit "fc" origin "fc" evaluate microbatch (%0 = %x : tensor<2x3x6xbf16>, %1 = %w : tensor<6x61xbf16>, %2 = %bias : tensor<61xbf16>) -> (tensor<2x3x61xbf16>) attributes {kernel = #product} {
    %3 = pdc.node "MatMul" "fc"(%0, %1) {} : (tensor<2x3x6xbf16>, tensor<6x61xbf16>) -> tensor<2x3x61xbf16>
    pdc.yield %3 : tensor<2x3x61xbf16>
  }
  %v = pdc.unit "view" origin "fc" evaluate microbatch (%0 = %y : tensor<2x3x61xbf16>) -> (tensor<6x61xbf16>) {
    %1 = pdc.node "Flatten" "view"(%0) {axis = 2 : i64} : (tensor<2x3x61xbf16>) -> tensor<6x61xbf16>
    pdc.yield %1 : tensor<6x61xbf16>
  }
  %f = pdc.unit "wide" origin "fc" evaluate microbatch (%0 = %v : tensor<6x61xbf16>) -> (tensor<6x61xf32>) attributes {kernel = #loop} {
    %1 = pdc.node "Cast" "wide"(%0) {to = 1 : i64} : (tensor<6x61xbf16>) -> tensor<6x61xf32>
    pdc.yield %1 : tensor<6x61xf32>
  }
  pdc.accumulate %f into @seen : tensor<6x61xf32>
  return
}

// A product with a vector makes a column of what is a row elsewhere.
// CHECK-LABEL: func.func @vector
// CHECK-NOT: layout<
// CHECK-NOT: pitch
func.func @vector() {
  %x = pdc.read @long : tensor<4x61x16xbf16>
  %w = pdc.weight_version @column latest : tensor<16xbf16>
  %labels = pdc.read @four : tensor<4xi64>
  %y = pdc.unit "vector" origin "vector" evaluate microbatch (%0 = %x : tensor<4x61x16xbf16>, %1 = %w : tensor<16xbf16>) -> (tensor<4x61xbf16>) attributes {kernel = #vector} {
    %2 = pdc.node "MatMul" "vector"(%0, %1) {} : (tensor<4x61x16xbf16>, tensor<16xbf16>) -> tensor<4x61xbf16>
    pdc.yield %2 : tensor<4x61xbf16>
  }
  %c = pdc.unit "correct" origin "vector" evaluate microbatch (%0 = %y : tensor<4x61xbf16>, %1 = %labels : tensor<4xi64>) -> (tensor<f32>) attributes {kernel = #labelled} {
    %2 = pdc.node "CorrectPredictions" "correct"(%0, %1) {} : (tensor<4x61xbf16>, tensor<4xi64>) -> tensor<f32>
    pdc.yield %2 : tensor<f32>
  }
  return
}

// A sum over samples takes the three rows of each as one.
// CHECK-LABEL: func.func @several_rows
// CHECK-NOT: layout<
// CHECK-NOT: pitch
func.func @several_rows() {
  %x = pdc.read @short : tensor<4x3x16xbf16>
  %w = pdc.weight_version @table latest : tensor<16x61xbf16>
  %y = pdc.unit "scores" origin "scores" evaluate microbatch (%0 = %x : tensor<4x3x16xbf16>, %1 = %w : tensor<16x61xbf16>) -> (tensor<4x3x61xbf16>) attributes {kernel = #scores} {
    %2 = pdc.node "MatMul" "scores"(%0, %1) {} : (tensor<4x3x16xbf16>, tensor<16x61xbf16>) -> tensor<4x3x61xbf16>
    pdc.yield %2 : tensor<4x3x61xbf16>
  }
  %s = pdc.unit "sum" origin "scores" evaluate microbatch (%0 = %y : tensor<4x3x61xbf16>) -> (tensor<3x61xbf16>) attributes {kernel = #rows} {
    %2 = pdc.node "ReduceSum" "sum"(%0) {} : (tensor<4x3x61xbf16>) -> tensor<3x61xbf16>
    pdc.yield %2 : tensor<3x61xbf16>
  }
  return
}
