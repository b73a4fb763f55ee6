// RUN: dynamlir-opt %s --split-input-file --dynamo-decompose --dynamo-select --dynamo-verify-prims | FileCheck %s

// The program's indices are checked before anything is read with them.

// CHECK-LABEL: func.func @embedding
// CHECK-SAME: (%[[TABLE:.*]]: tensor<10x4xf32>, %[[I:.*]]: tensor<2x3xi64>)
// CHECK-NEXT: %[[C:.*]] = dynamo.check_range %[[I]] in{{ ?}}[0, 10) "aten.embedding.default: index out of range"
// CHECK-NEXT: %[[ROW:.*]] = dynamo.broadcast %[[C]] dims [0, 1] : tensor<2x3xi64> -> tensor<2x3x4xi64>
// CHECK-NEXT: %[[COLUMN:.*]] = dynamo.iota 2 : tensor<2x3x4xi64>
// CHECK-NEXT: %[[R:.*]] = dynamo.gather %[[TABLE]][%[[ROW]], %[[COLUMN]]]
// CHECK-NEXT: return %[[R]]
func.func @embedding(%table: tensor<10x4xf32>, %i: tensor<2x3xi64>) -> tensor<2x3x4xf32> {
  %0 = dynamo.aten "aten.embedding.default"(%table, %i) args [#dynamo.operand<0>, #dynamo.operand<1>, -1, false, false]
    : (tensor<10x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

// -----

// Positions are known to be in range.

// CHECK-LABEL: func.func @positions
// CHECK-NOT: check_range
// CHECK: dynamo.gather
func.func @positions(%table: tensor<10x4xf32>) -> tensor<3x4xf32> {
  %i = dynamo.iota 0 : tensor<3xi64>
  %0 = dynamo.aten "aten.embedding.default"(%table, %i) args [#dynamo.operand<0>, #dynamo.operand<1>, -1, false, false]
    : (tensor<10x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// Negative indices count from the end. The dimensions of indices that are not adjacent come first.

// CHECK-LABEL: func.func @apart
// CHECK-SAME: (%[[X:.*]]: tensor<5x4x3xf32>, %[[I:.*]]: tensor<2x1xi64>, %[[J:.*]]: tensor<6xi32>)
// CHECK: %[[WIDE:.*]] = dynamo.convert %[[J]] : tensor<6xi32> -> tensor<6xi64>
// CHECK: %[[C:.*]] = dynamo.check_range %[[I]] in{{ ?}}[-5, 5)
// CHECK: %[[FIVE:.*]] = dynamo.full 5 : i64 -> tensor<2x1xi64>
// CHECK: %[[BACK:.*]] = dynamo.add %[[C]], %[[FIVE]]
// CHECK: %[[NEGATIVE:.*]] = dynamo.compare lt %[[C]], %{{.*}}
// CHECK: %[[AT:.*]] = dynamo.select %[[NEGATIVE]], %[[BACK]], %[[C]]
// CHECK: %[[ROW:.*]] = dynamo.broadcast %[[AT]] dims [0, 1] : tensor<2x1xi64> -> tensor<2x6x4xi64>
// CHECK: dynamo.check_range %[[WIDE]] in{{ ?}}[-3, 3)
// CHECK: %[[COLUMN:.*]] = dynamo.broadcast %{{.*}} dims [1] : tensor<6xi64> -> tensor<2x6x4xi64>
// CHECK: %[[BETWEEN:.*]] = dynamo.iota 2
// CHECK: dynamo.gather %[[X]][%[[ROW]], %[[BETWEEN]], %[[COLUMN]]]
func.func @apart(%x: tensor<5x4x3xf32>, %i: tensor<2x1xi64>, %j: tensor<6xi32>) -> tensor<2x6x4xf32> {
  %0 = dynamo.aten "aten.index.Tensor"(%x, %i, %j) args [#dynamo.operand<0>, [#dynamo.operand<1>, unit, #dynamo.operand<2>]]
    : (tensor<5x4x3xf32>, tensor<2x1xi64>, tensor<6xi32>) -> tensor<2x6x4xf32>
  return %0 : tensor<2x6x4xf32>
}

// -----

// Calls with masks stay: the number of selected elements is data-dependent.

// CHECK-LABEL: func.func @mask
// CHECK: dynamo.aten "aten.index.Tensor"
func.func @mask(%x: tensor<5xf32>, %m: tensor<5xi1>) -> tensor<2xf32> {
  %0 = dynamo.aten "aten.index.Tensor"(%x, %m) args [#dynamo.operand<0>, [#dynamo.operand<1>]]
    : (tensor<5xf32>, tensor<5xi1>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// An empty index reads nothing.

// CHECK-LABEL: func.func @empty
// CHECK-NOT: check_range
// CHECK: dynamo.gather
func.func @empty(%x: tensor<0x3xf32>, %i: tensor<0xi64>) -> tensor<0x3xf32> {
  %0 = dynamo.aten "aten.index_select.default"(%x, %i) args [#dynamo.operand<0>, 0, #dynamo.operand<1>]
    : (tensor<0x3xf32>, tensor<0xi64>) -> tensor<0x3xf32>
  return %0 : tensor<0x3xf32>
}

// -----

// The source of each element of an enlarged image is known.

// CHECK-LABEL: func.func @enlarge
// CHECK-NOT: check_range
// CHECK: %[[I:.*]] = dynamo.iota 0 : tensor<6xi64>
// CHECK: %[[TWO:.*]] = dynamo.full 2 : i64
// CHECK: dynamo.div %[[I]], %[[TWO]]
// CHECK: dynamo.gather
func.func @enlarge(%x: tensor<1x2x3xf32>) -> tensor<1x2x6xf32> {
  %0 = dynamo.aten "aten.upsample_nearest1d.default"(%x) args [#dynamo.operand<0>, [6], 2.0]
    : (tensor<1x2x3xf32>) -> tensor<1x2x6xf32>
  return %0 : tensor<1x2x6xf32>
}

// -----

// A class out of range raises; if all are known to be in range, nothing is checked.

// CHECK-LABEL: func.func @one_hot
// CHECK-SAME: (%[[I:.*]]: tensor<4xi64>)
// CHECK: %[[C:.*]] = dynamo.check_range %[[I]] in{{ ?}}[0, 3) "aten.one_hot.default: index out of range"
// CHECK: %[[CLASS:.*]] = dynamo.broadcast %[[C]] dims [0] : tensor<4xi64> -> tensor<4x3xi64>
// CHECK: %[[HOT:.*]] = dynamo.compare eq %[[CLASS]], %{{.*}}
// CHECK: dynamo.convert %[[HOT]] : tensor<4x3xi1> -> tensor<4x3xi64>
func.func @one_hot(%i: tensor<4xi64>) -> tensor<4x3xi64> {
  %0 = dynamo.aten "aten.one_hot.default"(%i) args [#dynamo.operand<0>, 3] : (tensor<4xi64>) -> tensor<4x3xi64>
  return %0 : tensor<4x3xi64>
}

// -----

// Unused results are checked all the same. Operators are kept unless they are known not to raise, here on floats.

// CHECK-LABEL: func.func @unused
// CHECK-NOT: aten.mm
// CHECK: dynamo.check_range
// CHECK-NOT: dynamo.gather
// CHECK: dynamo.aten "aten.floor_divide.default"
// CHECK: dynamo.aten "aten.mm.default"{{.*}}tensor<3x3xi64>
// CHECK-NOT: dynamo.aten
func.func @unused(%table: tensor<10x4xf32>, %i: tensor<3xi64>, %x: tensor<4096x4096xf32>, %y: tensor<3x3xi64>) {
  %0 = dynamo.aten "aten.mm.default"(%x, %x) args [#dynamo.operand<0>, #dynamo.operand<1>]
    : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  %1 = dynamo.aten "aten.embedding.default"(%table, %i) args [#dynamo.operand<0>, #dynamo.operand<1>, -1, false, false]
    : (tensor<10x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  %2 = dynamo.aten "aten.floor_divide.default"(%i, %i) args [#dynamo.operand<0>, #dynamo.operand<1>]
    : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  %3 = dynamo.aten "aten.mm.default"(%y, %y) args [#dynamo.operand<0>, #dynamo.operand<1>]
    : (tensor<3x3xi64>, tensor<3x3xi64>) -> tensor<3x3xi64>
  %4 = dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  return
}
