// RUN: dynamlir-opt %s --split-input-file --dynamo-functionalize --dynamo-verify-functional | FileCheck %s
// RUN: dynamlir-opt %s --split-input-file --dynamo-functionalize --dynamo-at="symbols=s0=7" > %t.after
// RUN: dynamlir-opt %s --split-input-file --dynamo-at="symbols=s0=7" --dynamo-functionalize > %t.before
// RUN: diff %t.before %t.after

// Sizes that are expressions. The result is that for numbers, for any values: `dynamo-at` before or after gives the same.

// Views of a tensor that is never written, layouts, and a view that is returned.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<?x4xf32, #dynamo.sizes<s0, 4>> {dynamo.offset = 0 : i64, dynamo.strides = array<i64: 4, 1>}
// CHECK-SAME: -> (tensor<4x?xf32, #dynamo.sizes<4, s0>> {dynamo.strides = #dynamo.sizes<s0, 1>})
// CHECK-SAME: dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<arg_view 0, [4, s0], [1, 4], 0>]
// CHECK: %[[T:.*]] = dynamo.aten "aten.t.default"(%[[X]]) args [#dynamo.operand<0>]
// CHECK-SAME: {operand_strides = [array<i64: 4, 1>], result_strides = [array<i64: 1, 4>]}
// CHECK-SAME: -> tensor<4x?xf32, #dynamo.sizes<4, s0>>
// CHECK: %[[R:.*]] = dynamo.aten "aten.relu.default"(%[[T]])
// CHECK-SAME: result_strides = [#dynamo.sizes<s0, 1>]
func.func @main(%x: !dynamo.tensor<[s0, 4]xf32, [4, 1]>) -> (!dynamo.tensor<[4, s0]xf32, [s0, 1]>, !dynamo.tensor<[4, s0]xf32, [1, 4]>) attributes {
    dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>], dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  %0 = dynamo.aten "aten.t.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>}
    : (!dynamo.tensor<[s0, 4]xf32, [4, 1]>) -> !dynamo.tensor<[4, s0]xf32, [1, 4]>
  %1 = dynamo.aten "aten.relu.default"(%0) args [#dynamo.operand<0>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<[4, s0]xf32, [1, 4]>) -> !dynamo.tensor<[4, s0]xf32, [s0, 1]>
  return %1, %0 : !dynamo.tensor<[4, s0]xf32, [s0, 1]>, !dynamo.tensor<[4, s0]xf32, [1, 4]>
}

// -----

// A row, and all but the last rows, of a tensor that is written in place: both are read from the new value.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<?x4xf32, #dynamo.sizes<s0, 4>>
// CHECK: %[[NEW:.*]] = dynamo.aten "aten.relu.default"(%[[X]])
// CHECK: %[[LAST:.*]] = dynamo.slice %[[NEW]] starts [s0 - 1, 0] steps [1, 1] : {{.*}} -> tensor<1x4xf32>
// CHECK: %[[ROW:.*]] = dynamo.reshape %[[LAST]] : tensor<1x4xf32> -> tensor<4xf32>
// CHECK: dynamo.aten "aten.sin.default"(%[[ROW]])
// CHECK: %[[REST:.*]] = dynamo.slice %[[NEW]] starts [0, 0] steps [1, 1] : {{.*}} -> tensor<?x4xf32, #dynamo.sizes<s0 - 1, 4>>
// CHECK: dynamo.aten "aten.cos.default"(%[[REST]])
func.func @main(%x: !dynamo.tensor<[s0, 4]xf32, [4, 1]>) -> (!dynamo.tensor<4xf32, [1]>, !dynamo.tensor<[s0 - 1, 4]xf32, [4, 1]>) attributes {
    dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>], dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  %row = dynamo.aten "aten.select.int"(%x) args [#dynamo.operand<0>, 0, -1] {aliases = array<i64: 0>}
    : (!dynamo.tensor<[s0, 4]xf32, [4, 1]>) -> !dynamo.tensor<4xf32, [1], s0*4 - 4>
  %rest = dynamo.aten "aten.slice.Tensor"(%x) args [#dynamo.operand<0>, 0, 0, #dynamo.expr<s0 - 1>, 1] {aliases = array<i64: 0>}
    : (!dynamo.tensor<[s0, 4]xf32, [4, 1]>) -> !dynamo.tensor<[s0 - 1, 4]xf32, [4, 1]>
  %new = dynamo.aten "aten.relu_.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<[s0, 4]xf32, [4, 1]>) -> !dynamo.tensor<[s0, 4]xf32, [4, 1]>
  %0 = dynamo.aten "aten.sin.default"(%row) args [#dynamo.operand<0>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<4xf32, [1], s0*4 - 4>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.cos.default"(%rest) args [#dynamo.operand<0>] {aliases = array<i64: -1>}
    : (!dynamo.tensor<[s0 - 1, 4]xf32, [4, 1]>) -> !dynamo.tensor<[s0 - 1, 4]xf32, [4, 1]>
  return %0, %1 : !dynamo.tensor<4xf32, [1]>, !dynamo.tensor<[s0 - 1, 4]xf32, [4, 1]>
}

// -----

// A write to columns of a transposed argument, of which there is no row-major view: the value is the argument with its own layout.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<4x?xf32, #dynamo.sizes<4, s0>>
// CHECK: %[[NEW:.*]] = dynamo.aten "aten.sin.default"(%[[X]])
// CHECK: return %[[NEW]]
func.func @main(%x: !dynamo.tensor<[4, s0]xf32, [1, 4]>) attributes {
    dynamo.entry, dynamo.outputs = [], dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 1>]} {
  %new = dynamo.aten "aten.sin_.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<[4, s0]xf32, [1, 4]>) -> !dynamo.tensor<[4, s0]xf32, [1, 4]>
  return
}

// -----

// The first rows of a cache are written: the sizes of the cache are numbers, the number of rows is an expression.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[CACHE:.*]]: tensor<128x4xf32>
// CHECK: dynamo.as_strided_scatter %[[CACHE]], %{{.*}} strides [4, 1] offset 0
func.func @main(%cache: !dynamo.tensor<128x4xf32, [4, 1]>, %x: !dynamo.tensor<[s0, 4]xf32, [4, 1]>) attributes {
    dynamo.entry, dynamo.outputs = [], dynamo.symbols = [#dynamo.symbol<s0, argument = 1, dim = 0, max = 128>]} {
  %rows = dynamo.aten "aten.slice.Tensor"(%cache) args [#dynamo.operand<0>, 0, 0, #dynamo.expr<s0>, 1] {aliases = array<i64: 0>}
    : (!dynamo.tensor<128x4xf32, [4, 1]>) -> !dynamo.tensor<[s0, 4]xf32, [4, 1]>
  %new = dynamo.aten "aten.copy_.default"(%rows, %x) args [#dynamo.operand<0>, #dynamo.operand<1>, false] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<[s0, 4]xf32, [4, 1]>, !dynamo.tensor<[s0, 4]xf32, [4, 1]>) -> !dynamo.tensor<[s0, 4]xf32, [4, 1]>
  return
}

// -----

// All rows but two are written. They may be none: then their place does not matter.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<?x4xf32, #dynamo.sizes<s0, 4>>
// CHECK: %[[ZERO:.*]] = dynamo.full 0.000000e+00 : f32 -> tensor<?x4xf32, #dynamo.sizes<s0 - 2, 4>>
// CHECK: dynamo.as_strided_scatter %[[X]], %[[ZERO]] strides [4, 1] offset 8
func.func @main(%x: !dynamo.tensor<[s0, 4]xf32, [4, 1]>) attributes {
    dynamo.entry, dynamo.outputs = [], dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  %rest = dynamo.aten "aten.slice.Tensor"(%x) args [#dynamo.operand<0>, 0, 2, 9223372036854775807, 1] {aliases = array<i64: 0>}
    : (!dynamo.tensor<[s0, 4]xf32, [4, 1]>) -> !dynamo.tensor<[s0 - 2, 4]xf32, [4, 1], 8>
  %new = dynamo.aten "aten.zero_.default"(%rest) args [#dynamo.operand<0>] {aliases = array<i64: 0>, functional = "aten.zero.default", mutates = array<i64: 0>}
    : (!dynamo.tensor<[s0 - 2, 4]xf32, [4, 1], 8>) -> !dynamo.tensor<[s0 - 2, 4]xf32, [4, 1], 8>
  return
}
