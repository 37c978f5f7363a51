// RUN: pdc-opt %s -infer-shapes -canonicalize | FileCheck %s

// What depends on constants alone and is too large to be evaluated is computed without the samples over which it repeats.

pdc.memory @x input microbatch : tensor<3x1x4096x4096xf32>
pdc.memory @sum metric update : tensor<3x1x4096x4096xf32>
pdc.memory @numbers metric update : tensor<3x4096x4096xf32>
pdc.memory @lower metric update : tensor<4096x4096xf32>

// CHECK-LABEL: func.func @train
func.func @train() {
  %x = pdc.read @x : tensor<3x1x4096x4096xf32>
  %zero = pdc.node "Constant" "zero"() {value = dense<0> : tensor<i64>} : () -> tensor<*xi64>
  %one = pdc.node "Constant" "one"() {value = dense<1> : tensor<i64>} : () -> tensor<*xi64>
  %long = pdc.node "Constant" "long"() {value = dense<4096> : tensor<i64>} : () -> tensor<*xi64>
  %low = pdc.node "Constant" "low"() {value = dense<-1.0e9> : tensor<f32>} : () -> tensor<*xf32>
  %none = pdc.node "Constant" "none"() {value = dense<0.0> : tensor<f32>} : () -> tensor<*xf32>
  %columns = pdc.node "Constant" "columns"() {value = dense<[3, 1, 1, 4096]> : tensor<4xi64>} : () -> tensor<*xi64>
  %rows = pdc.node "Constant" "rows"() {value = dense<[1, 1, 4096, 1]> : tensor<4xi64>} : () -> tensor<*xi64>
  %places = pdc.node "Range" "places"(%zero, %long, %one) {} : (tensor<*xi64>, tensor<*xi64>, tensor<*xi64>) -> tensor<*xi64>
  %column = pdc.node "Expand" "column"(%places, %columns) {} : (tensor<*xi64>, tensor<*xi64>) -> tensor<*xi64>
  %row = pdc.node "Reshape" "row"(%places, %rows) {} : (tensor<*xi64>, tensor<*xi64>) -> tensor<*xi64>

  // The sum repeats what it adds itself.
  // CHECK: %[[SEEN:.*]] = pdc.node "LessOrEqual" "seen/LessOrEqual"({{.*}}) {} : (tensor<1x1x1x4096xi64>, tensor<1x1x4096x1xi64>) -> tensor<1x1x4096x4096xi1>
  // CHECK: %[[MASK:.*]] = pdc.node "Where" "mask/Where"(%[[SEEN]], {{.*}} -> tensor<1x1x4096x4096xf32>
  // CHECK: pdc.node "Add" "add"(%{{.*}}, %[[MASK]]) {} : (tensor<3x1x4096x4096xf32>, tensor<1x1x4096x4096xf32>) -> tensor<3x1x4096x4096xf32>
  %seen = pdc.node "LessOrEqual" "seen"(%column, %row) {} : (tensor<*xi64>, tensor<*xi64>) -> tensor<*xi1>
  %mask = pdc.node "Where" "mask"(%seen, %none, %low) {} : (tensor<*xi1>, tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  %add = pdc.node "Add" "add"(%x, %mask) {} : (tensor<3x1x4096x4096xf32>, tensor<*xf32>) -> tensor<*xf32>
  pdc.accumulate %add into @sum : tensor<*xf32>

  // A view is taken of what is repeated.
  // CHECK: %[[VIEW:.*]] = pdc.node "Reshape" "view/Reshape"(%[[SEEN]], {{.*}} -> tensor<1x4096x4096xi1>
  // CHECK: %[[NOT:.*]] = pdc.node "Not" "not/Not"(%[[VIEW]]) {}
  // CHECK: pdc.node "Expand" "not/Expand"(%[[NOT]], {{.*}} -> tensor<3x4096x4096xi1>
  %shape = pdc.node "Constant" "shape"() {value = dense<[3, 4096, 4096]> : tensor<3xi64>} : () -> tensor<*xi64>
  %view = pdc.node "Reshape" "view"(%seen, %shape) {} : (tensor<*xi1>, tensor<*xi64>) -> tensor<*xi1>
  %not = pdc.node "Not" "not"(%view) {} : (tensor<*xi1>) -> tensor<*xi1>
  %number = pdc.node "Cast" "number"(%not) {to = 1 : i64} : (tensor<*xi1>) -> tensor<*xf32>
  pdc.accumulate %number into @numbers : tensor<*xf32>

  // Flags of a triangle compare places; what is the same everywhere is one number.
  // CHECK: %[[SIDE:.*]] = pdc.node "GreaterOrEqual" "lower/GreaterOrEqual"({{.*}}) {} : (tensor<4096xi64>, tensor<4096x1xi64>) -> tensor<4096x4096xi1>
  // CHECK: pdc.node "Where" "lower/Where"(%[[SIDE]], {{.*}}) {} : (tensor<4096x4096xi1>, tensor<f32>, tensor<f32>) -> tensor<4096x4096xf32>
  %square = pdc.node "Constant" "square"() {value = dense<[4096, 4096]> : tensor<2xi64>} : () -> tensor<*xi64>
  %full = pdc.node "ConstantOfShape" "full"(%square) {value = dense<-1.0e9> : tensor<1xf32>} : (tensor<*xi64>) -> tensor<*xf32>
  %lower = pdc.node "Trilu" "lower"(%full, %one) {upper = 1 : i64} : (tensor<*xf32>, tensor<*xi64>) -> tensor<*xf32>
  pdc.accumulate %lower into @lower : tensor<*xf32>
  return
}
