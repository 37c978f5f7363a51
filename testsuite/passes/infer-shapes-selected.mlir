// RUN: pdc-opt %s -infer-shapes | FileCheck %s

pdc.memory @scores input microbatch : tensor<2x3x4xf32>
pdc.memory @labels input microbatch : tensor<2x3xi64>
pdc.memory @mask input microbatch : tensor<2x3xi1>
pdc.memory @loss metric update : tensor<f32>

// Cross entropy of selected rows reads all rows as they are; the labels of the others are ignored.
// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK: %[[SCORES:.*]] = pdc.read @scores
  // CHECK: %[[LABELS:.*]] = pdc.read @labels
  // CHECK: %[[MASK:.*]] = pdc.read @mask
  %scores = pdc.read @scores : tensor<2x3x4xf32>
  %labels = pdc.read @labels : tensor<2x3xi64>
  %mask = pdc.read @mask : tensor<2x3xi1>
  // CHECK: %[[ROWS:.*]] = pdc.node "Reshape" "/Rows/Reshape"(%[[SCORES]], %{{.*}}) {{.*}} -> tensor<6x4xf32>
  // CHECK: %[[FIRST:.*]] = pdc.node "pdc.StopGradient" "/Rows/pdc.StopGradient"
  // CHECK: %[[FILLED:.*]] = pdc.node "Where" "/Rows/Where"(%{{.*}}, %[[ROWS]], %[[FIRST]])
  %rows = pdc.node "pdc.SelectedRows" "/Rows"(%scores, %mask) {} : (tensor<2x3x4xf32>, tensor<2x3xi1>) -> tensor<*xf32>
  // CHECK: %[[TARGETS:.*]] = pdc.node "Reshape" "/Targets/Reshape"(%[[LABELS]], %{{.*}}) {{.*}} -> tensor<6xi64>
  %targets = pdc.node "pdc.SelectedRows" "/Targets"(%labels, %mask) {} : (tensor<2x3xi64>, tensor<2x3xi1>) -> tensor<*xi64>
  // CHECK: %[[KNOWN:.*]] = pdc.node "Where" "/Loss/Where"(%{{.*}}, %[[TARGETS]], %{{.*}})
  // CHECK: pdc.node "SoftmaxCrossEntropyLoss" "/Loss/SoftmaxCrossEntropyLoss"(%[[ROWS]], %[[KNOWN]]) {ignore_index = -100 : i64, reduction = "sum"}
  %loss = pdc.node "SoftmaxCrossEntropyLoss" "/Loss"(%rows, %targets) {ignore_index = -100 : i64, reduction = "sum"} : (tensor<*xf32>, tensor<*xi64>) -> tensor<*xf32>
  pdc.accumulate %loss into @loss : tensor<*xf32>
  // A mean is the sum of what is selected by how much that is.
  // CHECK: %[[SINE:.*]] = pdc.node "Sin" "/Sin"(%[[FILLED]])
  %sine = pdc.node "Sin" "/Sin"(%rows) {} : (tensor<*xf32>) -> tensor<*xf32>
  // CHECK: %[[ZEROED:.*]] = pdc.node "Where" "/Mean/Where"(%{{.*}}, %[[SINE]], %{{.*}})
  // CHECK: %[[SUM:.*]] = pdc.node "ReduceSum" "/Mean/ReduceSum"(%[[ZEROED]])
  // CHECK: %[[COUNT:.*]] = pdc.node "ReduceSum" "/Mean/ReduceSum.1"
  // CHECK: %[[NUMBERS:.*]] = pdc.node "Mul" "/Mean/Mul"(%[[COUNT]], %{{.*}})
  // CHECK: pdc.node "Div" "/Mean/Div"(%[[SUM]], %[[NUMBERS]])
  %mean = pdc.node "ReduceMean" "/Mean"(%sine) {keepdims = 0 : i64} : (tensor<*xf32>) -> tensor<*xf32>
  // Along the other dimension nothing changes.
  // CHECK: pdc.node "ReduceMean" "/Rows_mean"(%[[SINE]], %{{.*}}) {keepdims = 0 : i64} {{.*}} -> tensor<6xf32>
  %axis = pdc.node "Constant" "/axis"() {value = dense<1> : tensor<1xi64>} : () -> tensor<*xi64>
  %means = pdc.node "ReduceMean" "/Rows_mean"(%sine, %axis) {keepdims = 0 : i64} : (tensor<*xf32>, tensor<*xi64>) -> tensor<*xf32>
  // Nor within each of them.
  // CHECK: %[[NORMAL:.*]]:3 = pdc.node "GroupNormalization" "/Groups"(%[[SINE]]) {{.*}} -> (tensor<6x4xf32>, tensor<6x2xf32>, tensor<6x2xf32>)
  // CHECK: %[[KEPT:.*]] = pdc.node "Where" "/Sum/Where"(%{{.*}}, %[[NORMAL]]#0, %{{.*}})
  // CHECK: pdc.node "ReduceSum" "/Sum/ReduceSum"(%[[KEPT]])
  %normal:3 = pdc.node "GroupNormalization" "/Groups"(%sine) {num_groups = 2 : i64} : (tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  %sum = pdc.node "ReduceSum" "/Sum"(%normal#0) {keepdims = 0 : i64} : (tensor<*xf32>) -> tensor<*xf32>
  return
}

pdc.memory @words weight version : tensor<3x4xf32>
pdc.memory @places input microbatch : tensor<2x3xi64>
pdc.memory @largest metric update : tensor<3x4xf32>

// Behind selected rows others stand, which all count.
// CHECK-LABEL: func.func @joined
func.func @joined() {
  %scores = pdc.read @scores : tensor<2x3x4xf32>
  %places = pdc.read @places : tensor<2x3xi64>
  // CHECK: %[[MASK:.*]] = pdc.read @mask
  %mask = pdc.read @mask : tensor<2x3xi1>
  %words = pdc.weight_version @words latest : tensor<3x4xf32>
  %rows = pdc.node "pdc.SelectedRows" "/Rows"(%scores, %mask) {} : (tensor<2x3x4xf32>, tensor<2x3xi1>) -> tensor<*xf32>
  %found = pdc.node "pdc.SelectedRows" "/Places"(%places, %mask) {} : (tensor<2x3xi64>, tensor<2x3xi1>) -> tensor<*xi64>
  // CHECK-DAG: %[[FLAGS:.*]] = pdc.node "Reshape" "/Both/Reshape"(%[[MASK]], %{{.*}}) {{.*}} -> tensor<6xi1>
  // CHECK-DAG: %[[ALL:.*]] = pdc.node "Constant" "/Both/Constant{{.*}}"() {value = dense<true> : tensor<3xi1>}
  // CHECK: %[[BOTH:.*]] = pdc.node "Concat" "/Both/Concat"(%[[FLAGS]], %[[ALL]]) {axis = 0 : i64} {{.*}} -> tensor<9xi1>
  // CHECK: %[[UPDATES:.*]] = pdc.node "Concat" "/Both"(%{{.*}}, %{{.*}}) {{.*}} -> tensor<9x4xf32>
  %both = pdc.node "Concat" "/Both"(%rows, %words) {axis = 0 : i64} : (tensor<*xf32>, tensor<3x4xf32>) -> tensor<*xf32>
  %all = pdc.node "Constant" "/all"() {value = dense<[0, 1, 2]> : tensor<3xi64>} : () -> tensor<*xi64>
  %targets = pdc.node "Concat" "/Targets_joined"(%found, %all) {axis = 0 : i64} : (tensor<*xi64>, tensor<*xi64>) -> tensor<*xi64>
  %shape = pdc.node "Constant" "/shape"() {value = dense<[3, 4]> : tensor<2xi64>} : () -> tensor<*xi64>
  // Less than any other are those that are not selected.
  // CHECK: %[[LOWEST:.*]] = pdc.node "Constant" "/Most/Constant{{.*}}"() {value = dense<0xFF800000> : tensor<f32>}
  // CHECK: %[[MASKED:.*]] = pdc.node "Where" "/Most/Where"(%{{.*}}, %[[UPDATES]], %[[LOWEST]])
  // CHECK: pdc.node "ScatterMax" "/Most/ScatterMax"(%{{.*}}, %{{.*}}, %[[MASKED]]) {axis = 0 : i64}
  %most = pdc.node "ScatterMax" "/Most"(%shape, %targets, %both) {axis = 0 : i64} : (tensor<*xi64>, tensor<*xi64>, tensor<*xf32>) -> tensor<*xf32>
  pdc.accumulate %most into @largest : tensor<*xf32>
  // A number of them in a tensor of one element, as many as the rows of a Concat of three.
  %number = pdc.node "Shape" "/Number"(%found) {end = 1 : i64, start = 0 : i64} : (tensor<*xi64>) -> tensor<*xi64>
  %scalar_axes = pdc.node "Constant" "/axes"() {value = dense<0> : tensor<1xi64>} : () -> tensor<*xi64>
  %scalar = pdc.node "Squeeze" "/Scalar"(%number, %scalar_axes) {} : (tensor<*xi64>, tensor<*xi64>) -> tensor<*xi64>
  %three = pdc.node "Constant" "/three"() {value = dense<3> : tensor<1xi64>} : () -> tensor<*xi64>
  %more = pdc.node "Add" "/More"(%three, %scalar) {} : (tensor<*xi64>, tensor<*xi64>) -> tensor<*xi64>
  %most_more = pdc.node "Add" "/More_still"(%more, %three) {} : (tensor<*xi64>, tensor<*xi64>) -> tensor<*xi64>
  %number_of_all = pdc.node "Gather" "/Taken"(%most_more, %scalar_axes) {axis = 0 : i64} : (tensor<*xi64>, tensor<*xi64>) -> tensor<*xi64>
  %one = pdc.node "Constant" "/one"() {value = dense<1.0> : tensor<1xf32>} : () -> tensor<*xf32>
  %ones = pdc.node "Expand" "/Ones"(%one, %number_of_all) {} : (tensor<*xf32>, tensor<*xi64>) -> tensor<*xf32>
  %six = pdc.node "Constant" "/six"() {value = dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]> : tensor<6xf32>} : () -> tensor<*xf32>
  %float = pdc.node "Cast" "/Float"(%found) {to = 1 : i64} : (tensor<*xi64>) -> tensor<*xf32>
  %joined = pdc.node "Concat" "/Three"(%float, %six) {axis = 0 : i64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  // CHECK: pdc.node "Mul" "/Product"(%{{.*}}, %{{.*}}) {{.*}} -> tensor<12xf32>
  %product = pdc.node "Mul" "/Product"(%joined, %ones) {} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  // CHECK: pdc.node "ReduceSum" "/Product_sum/ReduceSum"
  %sum = pdc.node "ReduceSum" "/Product_sum"(%product) {keepdims = 0 : i64} : (tensor<*xf32>) -> tensor<*xf32>
  pdc.accumulate %sum into @loss : tensor<*xf32>
  // The number itself, as the type of another.
  // CHECK: %[[COUNTED:.*]] = pdc.node "ReduceSum" "/As_float/{{.*}}"
  // CHECK: pdc.node "Mul" "/As_float/{{.*}}"(%[[COUNTED]], %{{.*}})
  %as_float = pdc.node "CastLike" "/As_float"(%scalar, %one) {} : (tensor<*xi64>, tensor<*xf32>) -> tensor<*xf32>
  pdc.accumulate %as_float into @loss : tensor<*xf32>
  return
}
