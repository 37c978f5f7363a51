// RUN: pdc-opt %s --infer-shapes -o - | FileCheck %s

// Indices that are repeated for all elements of a row name the row as a whole, before it and behind.

pdc.memory @x input microbatch : tensor<2x3x4xf32>
pdc.memory @few input microbatch : tensor<2x5x1xi64>
pdc.memory @one input microbatch : tensor<1x5x1xi32>

// CHECK-LABEL: func.func @train
func.func @train() {
  // CHECK-DAG: %[[X:.*]] = pdc.read @x
  // CHECK-DAG: %[[FEW:.*]] = pdc.read @few
  // CHECK-DAG: %[[ONE:.*]] = pdc.read @one
  %x = pdc.read @x : tensor<2x3x4xf32>
  %few = pdc.read @few : tensor<2x5x1xi64>
  %one = pdc.read @one : tensor<1x5x1xi32>
  %shape = pdc.node "Constant" "shape"() {value = dense<[2, 5, 4]> : tensor<3xi64>} : () -> tensor<3xi64>
  %wide = pdc.node "Expand" "wide"(%few, %shape) {} : (tensor<2x5x1xi64>, tensor<3xi64>) -> tensor<*xi64>
  // CHECK: %[[INDEX:.*]] = pdc.node "Reshape" "rows/Reshape"(%[[FEW]], %{{.*}}) {} : (tensor<2x5x1xi64>, tensor<2xi64>) -> tensor<2x5xi64>
  // CHECK: %[[START:.*]] = pdc.node "IndexFromStart" "rows/IndexFromStart"(%[[INDEX]], %{{.*}})
  // CHECK: pdc.node "Constant" {{.*}}dense<{{\[}}[0], [3]]> : tensor<2x1xi64>
  // CHECK: %[[PLACE:.*]] = pdc.node "Add" "rows/Add"(%[[START]], %{{.*}})
  // CHECK: %[[ROW:.*]] = pdc.node "RowInside" "rows/RowInside"(%[[INDEX]], %{{.*}}, %[[PLACE]])
  // CHECK: %[[FLAT:.*]] = pdc.node "Reshape" {{.*}} : (tensor<2x3x4xf32>, tensor<2xi64>) -> tensor<6x4xf32>
  // CHECK: pdc.node "Gather" "rows/Gather"(%[[FLAT]], %[[ROW]]) {axis = 0 : i64} : (tensor<6x4xf32>, tensor<2x5xi64>) -> tensor<2x5x4xf32>
  %rows = pdc.node "GatherElements" "rows"(%x, %wide) {axis = -2 : i64} : (tensor<2x3x4xf32>, tensor<*xi64>) -> tensor<*xf32>
  // The same for all samples.
  // CHECK: %[[WHOLE:.*]] = pdc.node "Cast" "shared/Cast"(%[[ONE]]) {to = 7 : i64}
  // CHECK: pdc.node "Add" "shared/Add"({{.*}}) {} : (tensor<1x5xi64>, tensor<2x1xi64>) -> tensor<2x5xi64>
  // CHECK: pdc.node "Gather" "shared/Gather"({{.*}} : (tensor<6x4xf32>, tensor<2x5xi64>)
  %wider = pdc.node "Expand" "wider"(%one, %shape) {} : (tensor<1x5x1xi32>, tensor<3xi64>) -> tensor<*xi32>
  %shared = pdc.node "GatherElements" "shared"(%x, %wider) {axis = 1 : i64} : (tensor<2x3x4xf32>, tensor<*xi32>) -> tensor<*xf32>
  // Half of each row, by its elements.
  // CHECK: pdc.node "Gather" "half/Gather"({{.*}} : (tensor<24xf32>, tensor<2x5x2xi64>)
  %part = pdc.node "Constant" "part"() {value = dense<[2, 5, 2]> : tensor<3xi64>} : () -> tensor<3xi64>
  %narrow = pdc.node "Expand" "narrow"(%few, %part) {} : (tensor<2x5x1xi64>, tensor<3xi64>) -> tensor<*xi64>
  %half = pdc.node "GatherElements" "half"(%x, %narrow) {axis = 1 : i64} : (tensor<2x3x4xf32>, tensor<*xi64>) -> tensor<*xf32>
  // Along the last dimension there is no row.
  // CHECK: pdc.node "Gather" "last/Gather"({{.*}} : (tensor<24xf32>, tensor<2x3x4xi64>)
  %all = pdc.node "Constant" "all"() {value = dense<[2, 3, 4]> : tensor<3xi64>} : () -> tensor<3xi64>
  %begin = pdc.node "Constant" "begin"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %three = pdc.node "Constant" "three"() {value = dense<3> : tensor<1xi64>} : () -> tensor<1xi64>
  %axis = pdc.node "Constant" "axis"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  %first = pdc.node "Slice" "first"(%few, %begin, %three, %axis) {} : (tensor<2x5x1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xi64>
  %columns = pdc.node "Expand" "columns"(%first, %all) {} : (tensor<*xi64>, tensor<3xi64>) -> tensor<*xi64>
  %last = pdc.node "GatherElements" "last"(%x, %columns) {axis = 2 : i64} : (tensor<2x3x4xf32>, tensor<*xi64>) -> tensor<*xf32>
  return
}

// What data repeat is read where it lies, and the indices are worked out once.

pdc.memory @points input microbatch : tensor<2x1x3x4xf32>
pdc.memory @near input microbatch : tensor<2x5x2x1xi64>
pdc.memory @other input microbatch : tensor<2x1x5x2xi64>

// CHECK-LABEL: func.func @evaluate
func.func @evaluate() {
  // CHECK-DAG: %[[POINTS:.*]] = pdc.read @points
  // CHECK-DAG: %[[NEAR:.*]] = pdc.read @near
  // CHECK-DAG: %[[OTHER:.*]] = pdc.read @other
  %points = pdc.read @points : tensor<2x1x3x4xf32>
  %near = pdc.read @near : tensor<2x5x2x1xi64>
  %other = pdc.read @other : tensor<2x1x5x2xi64>
  %five = pdc.node "Constant" "five"() {value = dense<[2, 5, 3, 4]> : tensor<4xi64>} : () -> tensor<4xi64>
  %repeated = pdc.node "Expand" "repeated"(%points, %five) {} : (tensor<2x1x3x4xf32>, tensor<4xi64>) -> tensor<*xf32>
  %wide_shape = pdc.node "Constant" "wide_shape"() {value = dense<[2, 5, 2, 4]> : tensor<4xi64>} : () -> tensor<4xi64>
  %wide = pdc.node "Expand" "wide_near"(%near, %wide_shape) {} : (tensor<2x5x2x1xi64>, tensor<4xi64>) -> tensor<*xi64>
  // Whole rows.
  // CHECK: pdc.node "Constant" {{.*}}dense<{{\[}}{{\[}}[0]], {{\[}}[3]]]> : tensor<2x1x1xi64>
  // CHECK: %[[ROW:.*]] = pdc.node "RowInside" "rows_of_repeated/RowInside"({{.*}} -> tensor<2x5x2xi64>
  // CHECK: %[[FLAT:.*]] = pdc.node "Reshape" {{.*}}(%[[POINTS]], {{.*}} -> tensor<6x4xf32>
  // CHECK: pdc.node "Gather" "rows_of_repeated/Gather"(%[[FLAT]], %[[ROW]]) {{.*}} -> tensor<2x5x2x4xf32>
  %rows = pdc.node "GatherElements" "rows_of_repeated"(%repeated, %wide) {axis = 2 : i64} : (tensor<*xf32>, tensor<*xi64>) -> tensor<*xf32>
  // Elements along the last dimension.
  %channels = pdc.node "Constant" "channels"() {value = dense<[2, 3, 5, 2]> : tensor<4xi64>} : () -> tensor<4xi64>
  %behind = pdc.node "Constant" "behind"() {value = dense<[2, 3, 1, 4]> : tensor<4xi64>} : () -> tensor<4xi64>
  %moved = pdc.node "Reshape" "moved"(%points, %behind) {} : (tensor<2x1x3x4xf32>, tensor<4xi64>) -> tensor<2x3x1x4xf32>
  %grid_shape = pdc.node "Constant" "grid_shape"() {value = dense<[2, 3, 5, 4]> : tensor<4xi64>} : () -> tensor<4xi64>
  %grid = pdc.node "Expand" "grid"(%moved, %grid_shape) {} : (tensor<2x3x1x4xf32>, tensor<4xi64>) -> tensor<*xf32>
  %for_all = pdc.node "Expand" "for_all"(%other, %channels) {} : (tensor<2x1x5x2xi64>, tensor<4xi64>) -> tensor<*xi64>
  // CHECK: pdc.node "IndexFromStart" "elements/IndexFromStart"(%[[OTHER]], {{.*}} -> tensor<2x1x5x2xi64>
  // CHECK: pdc.node "Add" "elements/Add"({{.*}} : (tensor<2x1x5x2xi64>, tensor<2x3x1x1xi64>) -> tensor<2x3x5x2xi64>
  // CHECK: pdc.node "Gather" "elements/Gather"({{.*}} : (tensor<24xf32>, tensor<2x3x5x2xi64>)
  %elements = pdc.node "GatherElements" "elements"(%grid, %for_all) {axis = 3 : i64} : (tensor<*xf32>, tensor<*xi64>) -> tensor<*xf32>
  // What is written has all of its rows.
  // CHECK: pdc.node "GatherGrad" "written/GatherGrad"({{.*}} -> tensor<120xf32>
  %written = pdc.node "ScatterElements" "written"(%grid, %for_all, %elements) {axis = 3 : i64, reduction = "add"} : (tensor<*xf32>, tensor<*xi64>, tensor<*xf32>) -> tensor<*xf32>
  return
}
