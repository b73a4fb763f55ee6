// RUN: dynamlir-opt %s --dynamo-decompose | FileCheck %s

// Most views need only the shape of their result; recording has resolved -1.

// CHECK-LABEL: func.func @shapes
// CHECK-SAME: (%[[X:.*]]: tensor<2x1x6xf32>)
// CHECK: %[[VIEW:.*]] = dynamo.reshape %[[X]] : tensor<2x1x6xf32> -> tensor<12xf32>
// CHECK: %[[SQUEEZED:.*]] = dynamo.reshape %[[X]] : tensor<2x1x6xf32> -> tensor<2x6xf32>
// CHECK: %[[T:.*]] = dynamo.permute %[[X]] dims [2, 1, 0]
// CHECK: %[[WIDE:.*]] = dynamo.broadcast %[[X]] dims [1, 2, 3] : tensor<2x1x6xf32> -> tensor<3x2x5x6xf32>
// CHECK: return %[[VIEW]], %[[SQUEEZED]], %[[T]], %[[WIDE]], %[[X]]
func.func @shapes(%x: tensor<2x1x6xf32>) -> (tensor<12xf32>, tensor<2x6xf32>, tensor<6x1x2xf32>, tensor<3x2x5x6xf32>, tensor<2x1x6xf32>) {
  %0 = dynamo.aten "aten.view.default"(%x) args [#dynamo.operand<0>, [-1 : i64]] : (tensor<2x1x6xf32>) -> tensor<12xf32>
  %1 = dynamo.aten "aten.squeeze.dim"(%x) args [#dynamo.operand<0>, 1 : i64] : (tensor<2x1x6xf32>) -> tensor<2x6xf32>
  %2 = dynamo.aten "aten.transpose.int"(%x) args [#dynamo.operand<0>, 0 : i64, -1 : i64] : (tensor<2x1x6xf32>) -> tensor<6x1x2xf32>
  %3 = dynamo.aten "aten.expand.default"(%x) args [#dynamo.operand<0>, [3 : i64, -1 : i64, 5 : i64, -1 : i64], false] : (tensor<2x1x6xf32>) -> tensor<3x2x5x6xf32>
  %4 = dynamo.aten "aten.alias.default"(%x) args [#dynamo.operand<0>] : (tensor<2x1x6xf32>) -> tensor<2x1x6xf32>
  return %0, %1, %2, %3, %4 : tensor<12xf32>, tensor<2x6xf32>, tensor<6x1x2xf32>, tensor<3x2x5x6xf32>, tensor<2x1x6xf32>
}

// Negative bounds count from the back, and bounds are clamped; the stride of a diagonal is a row plus one element.

// CHECK-LABEL: func.func @parts
// CHECK-SAME: (%[[X:.*]]: tensor<4x6xf32>)
// CHECK: dynamo.slice %[[X]] starts [1, 0] steps [2, 1] : tensor<4x6xf32> -> tensor<2x6xf32>
// CHECK: %[[ROW:.*]] = dynamo.slice %[[X]] starts [3, 0] steps [1, 1] : tensor<4x6xf32> -> tensor<1x6xf32>
// CHECK: dynamo.reshape %[[ROW]] : tensor<1x6xf32> -> tensor<6xf32>
// CHECK: dynamo.as_strided %[[X]] strides [7] offset 1 : tensor<4x6xf32> -> tensor<4xf32>
// CHECK: dynamo.slice %[[X]] starts [0, 0] steps [1, 1] : tensor<4x6xf32> -> tensor<4x4xf32>
// CHECK: dynamo.slice %[[X]] starts [0, 4] steps [1, 1] : tensor<4x6xf32> -> tensor<4x2xf32>
// CHECK: dynamo.as_strided %[[X]] strides [6, 2, 1] offset 0 : tensor<4x6xf32> -> tensor<4x2x3xf32>
func.func @parts(%x: tensor<4x6xf32>) -> (tensor<2x6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x2xf32>, tensor<4x2x3xf32>) {
  %0 = dynamo.aten "aten.slice.Tensor"(%x) args [#dynamo.operand<0>, 0 : i64, -3 : i64, 9223372036854775807 : i64, 2 : i64] : (tensor<4x6xf32>) -> tensor<2x6xf32>
  %1 = dynamo.aten "aten.select.int"(%x) args [#dynamo.operand<0>, 0 : i64, -1 : i64] : (tensor<4x6xf32>) -> tensor<6xf32>
  %2 = dynamo.aten "aten.diagonal.default"(%x) args [#dynamo.operand<0>, 1 : i64, 0 : i64, 1 : i64] : (tensor<4x6xf32>) -> tensor<4xf32>
  %3:2 = dynamo.aten "aten.split.Tensor"(%x) args [#dynamo.operand<0>, 4 : i64, -1 : i64] : (tensor<4x6xf32>) -> (tensor<4x4xf32>, tensor<4x2xf32>)
  %4 = dynamo.aten "aten.unfold.default"(%x) args [#dynamo.operand<0>, 1 : i64, 3 : i64, 2 : i64] : (tensor<4x6xf32>) -> tensor<4x2x3xf32>
  return %0, %1, %2, %3#0, %3#1, %4 : tensor<2x6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x2xf32>, tensor<4x2x3xf32>
}

// ATen's as_strided indexes the storage: it is lowered if the operand is row-major, and kept otherwise.

// CHECK-LABEL: func.func @storage
// CHECK: dynamo.as_strided %{{.*}} strides [5, 1] offset 3
// CHECK: dynamo.aten "aten.as_strided.default"
func.func @storage(%x: tensor<4x4xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %0 = dynamo.aten "aten.as_strided.default"(%x) args [#dynamo.operand<0>, [2 : i64, 2 : i64], [5 : i64, 1 : i64], 3 : i64] {operand_strides = [array<i64: 4, 1>]} : (tensor<4x4xf32>) -> tensor<2x2xf32>
  %1 = dynamo.aten "aten.as_strided.default"(%x) args [#dynamo.operand<0>, [2 : i64, 2 : i64], [5 : i64, 1 : i64], 3 : i64] {operand_strides = [array<i64: 1, 4>]} : (tensor<4x4xf32>) -> tensor<2x2xf32>
  return %0, %1 : tensor<2x2xf32>, tensor<2x2xf32>
}

// A storage offset of the argument shifts the window.

// CHECK-LABEL: func.func @storage_offset
// CHECK: dynamo.aten "aten.as_strided.default"
func.func @storage_offset(%x: tensor<4xf32> {dynamo.offset = 2 : i64, dynamo.strides = array<i64: 1>}) -> tensor<2xf32> {
  %0 = dynamo.aten "aten.as_strided.default"(%x) args [#dynamo.operand<0>, [2 : i64], [1 : i64], 1 : i64] {operand_strides = [array<i64: 1>]} : (tensor<4xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// Concatenation converts to the result's type, and accepts an empty vector anywhere.

// CHECK-LABEL: func.func @cat
// CHECK-SAME: (%[[A:.*]]: tensor<2x3xf32>, %[[B:.*]]: tensor<1x3xi64>, %[[NONE:.*]]: tensor<0xf32>)
// CHECK: %[[CONVERTED:.*]] = dynamo.convert %[[B]] : tensor<1x3xi64> -> tensor<1x3xf32>
// CHECK: dynamo.concatenate %[[A]], %[[CONVERTED]] dim 0
func.func @cat(%a: tensor<2x3xf32>, %b: tensor<1x3xi64>, %none: tensor<0xf32>) -> tensor<3x3xf32> {
  %0 = dynamo.aten "aten.cat.default"(%none, %a, %b) args [[#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>], -2 : i64] : (tensor<0xf32>, tensor<2x3xf32>, tensor<1x3xi64>) -> tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}

// Repetitions become a new dimension, unless the repeated one has size 1.

// CHECK-LABEL: func.func @repeat
// CHECK: %[[WIDE:.*]] = dynamo.broadcast %{{.*}} dims [0, 2] : tensor<1x3xf32> -> tensor<4x2x3xf32>
// CHECK: dynamo.reshape %[[WIDE]] : tensor<4x2x3xf32> -> tensor<4x6xf32>
func.func @repeat(%x: tensor<1x3xf32>) -> tensor<4x6xf32> {
  %0 = dynamo.aten "aten.repeat.default"(%x) args [#dynamo.operand<0>, [4 : i64, 2 : i64]] : (tensor<1x3xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @roll
// CHECK-SAME: (%[[X:.*]]: tensor<5xf32>)
// CHECK: %[[BACK:.*]] = dynamo.slice %[[X]] starts [3] steps [1] : tensor<5xf32> -> tensor<2xf32>
// CHECK: %[[FRONT:.*]] = dynamo.slice %[[X]] starts [0] steps [1] : tensor<5xf32> -> tensor<3xf32>
// CHECK: dynamo.concatenate %[[BACK]], %[[FRONT]] dim 0
func.func @roll(%x: tensor<5xf32>) -> tensor<5xf32> {
  %0 = dynamo.aten "aten.roll.default"(%x) args [#dynamo.operand<0>, [7 : i64], [0 : i64]] : (tensor<5xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// Negative padding crops.

// CHECK-LABEL: func.func @pad
// CHECK: %[[CROPPED:.*]] = dynamo.slice %{{.*}} starts [0, 1] steps [1, 1] : tensor<3x4xf32> -> tensor<3x3xf32>
// CHECK: dynamo.pad %[[CROPPED]] low [0, 0] high [0, 2] value 0xFF800000 : f32
func.func @pad(%x: tensor<3x4xf32>) -> tensor<3x5xf32> {
  %0 = dynamo.aten "aten.constant_pad_nd.default"(%x) args [#dynamo.operand<0>, [-1 : i64, 2 : i64], 0xFFF0000000000000 : f64] : (tensor<3x4xf32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}

// Reflection does not repeat the edge: `c b | a b c | b`.

// CHECK-LABEL: func.func @reflect
// CHECK-SAME: (%[[X:.*]]: tensor<1x3xf32>)
// CHECK: %[[INNER:.*]] = dynamo.slice %[[X]] starts [0, 1] steps [1, 1] : tensor<1x3xf32> -> tensor<1x2xf32>
// CHECK: %[[BEFORE:.*]] = dynamo.reverse %[[INNER]] dims [1]
// CHECK: %[[AFTER:.*]] = dynamo.slice %[[X]] starts [0, 1] steps [1, 1] : tensor<1x3xf32> -> tensor<1x1xf32>
// CHECK: dynamo.concatenate %[[BEFORE]], %[[X]], %[[AFTER]] dim 1
func.func @reflect(%x: tensor<1x3xf32>) -> tensor<1x6xf32> {
  %0 = dynamo.aten "aten.reflection_pad1d.default"(%x) args [#dynamo.operand<0>, [2 : i64, 1 : i64]] : (tensor<1x3xf32>) -> tensor<1x6xf32>
  return %0 : tensor<1x6xf32>
}

// A contiguous part is written by concatenating it with the rest; a strided one through its window.

// CHECK-LABEL: func.func @scatter
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32>, %[[PART:.*]]: tensor<3xf32>)
// CHECK: %[[LOW:.*]] = dynamo.slice %[[X]] starts [0] steps [1] : tensor<8xf32> -> tensor<2xf32>
// CHECK: %[[HIGH:.*]] = dynamo.slice %[[X]] starts [5] steps [1] : tensor<8xf32> -> tensor<3xf32>
// CHECK: dynamo.concatenate %[[LOW]], %[[PART]], %[[HIGH]] dim 0
// CHECK: dynamo.as_strided_scatter %[[X]], %[[PART]] strides [2] offset 1
func.func @scatter(%x: tensor<8xf32>, %part: tensor<3xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = dynamo.aten "aten.slice_scatter.default"(%x, %part) args [#dynamo.operand<0>, #dynamo.operand<1>, 0 : i64, 2 : i64, 5 : i64, 1 : i64] : (tensor<8xf32>, tensor<3xf32>) -> tensor<8xf32>
  %1 = dynamo.aten "aten.slice_scatter.default"(%x, %part) args [#dynamo.operand<0>, #dynamo.operand<1>, 0 : i64, 1 : i64, 7 : i64, 2 : i64] : (tensor<8xf32>, tensor<3xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// A constant that does not fit is left to eager, which raises.

// CHECK-LABEL: func.func @masked_fill
// CHECK-SAME: (%[[X:.*]]: tensor<3xi8>, %[[MASK:.*]]: tensor<3xi1>)
// CHECK: %[[VALUE:.*]] = dynamo.full -1 : i8 -> tensor<3xi8>
// CHECK: dynamo.select %[[MASK]], %[[VALUE]], %[[X]]
// CHECK: dynamo.aten "aten.masked_fill.Scalar"(%[[X]], %[[MASK]]) args {{.*}}1000
func.func @masked_fill(%x: tensor<3xi8>, %mask: tensor<3xi1>) -> (tensor<3xi8>, tensor<3xi8>) {
  %0 = dynamo.aten "aten.masked_fill.Scalar"(%x, %mask) args [#dynamo.operand<0>, #dynamo.operand<1>, -1 : i64] : (tensor<3xi8>, tensor<3xi1>) -> tensor<3xi8>
  %1 = dynamo.aten "aten.masked_fill.Scalar"(%x, %mask) args [#dynamo.operand<0>, #dynamo.operand<1>, 1000 : i64] : (tensor<3xi8>, tensor<3xi1>) -> tensor<3xi8>
  return %0, %1 : tensor<3xi8>, tensor<3xi8>
}
