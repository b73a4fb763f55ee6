// RUN: dynamlir-opt %s --split-input-file --dynamo-autodiff --dynamo-verify-functional | FileCheck %s
// RUN: dynamlir-opt %s --split-input-file --dynamo-autodiff --dynamo-at="symbols=s0=7" > %t.after
// RUN: dynamlir-opt %s --split-input-file --dynamo-at="symbols=s0=7" --dynamo-autodiff > %t.before
// RUN: diff %t.before %t.after

// Symbolic sizes. Gradients are computed as for numbers, and valid for all values: `dynamo-at` before and after gives the same result.

// A layer on any number of rows. The tangent has the result's type and layout, the gradient of the bias is a sum over all rows, that of the
// weight a product along them.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[T:[^:]*]]: tensor<?x3xf32, #dynamo.sizes<s0, 3>> {dynamo.kept_by_eager, dynamo.offset = 0 : i64, dynamo.once, dynamo.strides = array<i64: 3, 1>, dynamo.tangent = 0 : i64})
// CHECK-SAME: -> (tensor<?x3xf32, #dynamo.sizes<s0, 3>> {dynamo.strides = array<i64: 3, 1>},
// CHECK-SAME: tensor<?x4xf32, #dynamo.sizes<s0, 4>> {dynamo.gradient = 0 : i64, dynamo.strides = array<i64: 4, 1>},
// CHECK-SAME: tensor<3x4xf32> {dynamo.gradient = 1 : i64, dynamo.strides = array<i64: 4, 1>},
// CHECK-SAME: tensor<3xf32> {dynamo.gradient = 2 : i64, dynamo.strides = array<i64: 1>})
// CHECK-SAME: dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]
// CHECK: %[[Y:.*]] = dynamo.aten "aten.tanh.default"
// CHECK: %[[G:.*]] = dynamo.aten "aten.tanh_backward.default"(%[[T]], %[[Y]])
// CHECK: %[[SUM:.*]] = dynamo.aten "aten.sum.dim_IntList"(%[[G]]) args [#dynamo.operand<0>, [0], true, unit]
// CHECK: %[[GB:.*]] = dynamo.reshape %[[SUM]] : tensor<1x3xf32> -> tensor<3xf32>
// CHECK: dynamo.aten "aten.mm.default"(%[[G]], %{{.*}}) {{.*}} -> tensor<?x4xf32, #dynamo.sizes<s0, 4>>
// CHECK: %[[TURNED:.*]] = dynamo.permute %[[G]] dims [1, 0] : {{.*}} -> tensor<3x?xf32, #dynamo.sizes<3, s0>>
// CHECK: dynamo.aten "aten.mm.default"(%[[TURNED]], %{{.*}}) {{.*}} operand_strides = [array<i64: 1, 3>, array<i64: 4, 1>]
func.func @main(%x: tensor<?x4xf32, #dynamo.sizes<s0, 4>> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 4, 1>},
                %w: tensor<3x4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 4, 1>},
                %b: tensor<3xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<?x3xf32, #dynamo.sizes<s0, 3>> {dynamo.strides = array<i64: 3, 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>,
                dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  %0 = dynamo.aten "aten.t.default"(%w) args [#dynamo.operand<0>]
    {grad_enabled, operand_strides = [array<i64: 4, 1>], result_strides = [array<i64: 1, 4>]} : (tensor<3x4xf32>) -> tensor<4x3xf32>
  %1 = dynamo.aten "aten.addmm.default"(%b, %x, %0) args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, 1, 1]
    {grad_enabled, operand_strides = [array<i64: 1>, array<i64: 4, 1>, array<i64: 1, 4>], result_strides = [array<i64: 3, 1>]}
    : (tensor<3xf32>, tensor<?x4xf32, #dynamo.sizes<s0, 4>>, tensor<4x3xf32>) -> tensor<?x3xf32, #dynamo.sizes<s0, 3>>
  %2 = dynamo.aten "aten.tanh.default"(%1) args [#dynamo.operand<0>]
    {grad_enabled, operand_strides = [array<i64: 3, 1>], result_strides = [array<i64: 3, 1>]}
    : (tensor<?x3xf32, #dynamo.sizes<s0, 3>>) -> tensor<?x3xf32, #dynamo.sizes<s0, 3>>
  return %2 : tensor<?x3xf32, #dynamo.sizes<s0, 3>>
}

// -----

// A mean divides by a size that is known at the call. The rows cut off at both ends have no gradient: their number depends on the size.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[T:[^:]*]]: tensor<4xf32>
// CHECK: %[[SHARE:.*]] = dynamo.aten "aten.div.Scalar"(%[[T]]) args [#dynamo.operand<0>, #dynamo.expr<s0 - 3>]
// CHECK: %[[ROW:.*]] = dynamo.reshape %[[SHARE]] : tensor<4xf32> -> tensor<1x4xf32>
// CHECK: %[[ALL:.*]] = dynamo.broadcast %[[ROW]] dims [0, 1] : tensor<1x4xf32> -> tensor<?x4xf32, #dynamo.sizes<s0 - 3, 4>>
// CHECK: dynamo.pad %[[ALL]]
// CHECK-SAME: low [1, 0] high [2, 0]
// CHECK-SAME: -> tensor<?x4xf32, #dynamo.sizes<s0, 4>>
func.func @main(%x: tensor<?x4xf32, #dynamo.sizes<s0, 4>> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 4, 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>,
                dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0, min = 4>]} {
  %0 = dynamo.aten "aten.slice.Tensor"(%x) args [#dynamo.operand<0>, 0, 1, -2, 1]
    {grad_enabled, operand_strides = [array<i64: 4, 1>], result_strides = [array<i64: 4, 1>]}
    : (tensor<?x4xf32, #dynamo.sizes<s0, 4>>) -> tensor<?x4xf32, #dynamo.sizes<s0 - 3, 4>>
  %1 = dynamo.aten "aten.mean.dim"(%0) args [#dynamo.operand<0>, [0], false, unit]
    {grad_enabled, operand_strides = [array<i64: 4, 1>], result_strides = [array<i64: 1>]}
    : (tensor<?x4xf32, #dynamo.sizes<s0 - 3, 4>>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// Two concatenated values get back their parts. The assumptions about symbols stay with the entry.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[T:[^:]*]]: tensor<?xf32, #dynamo.sizes<s0 + 5>> {{[{][^}]*}}dynamo.tangent = 0 : i64})
// CHECK-SAME: dynamo.assumed = "s0 != 9"
// CHECK-DAG: dynamo.slice %[[T]] starts [0] steps [1] : {{.*}} -> tensor<?xf32, #dynamo.sizes<s0>>
// CHECK-DAG: dynamo.slice %[[T]] starts [s0] steps [1] : {{.*}} -> tensor<5xf32>
func.func @main(%x: tensor<?xf32, #dynamo.sizes<s0>> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>},
                %y: tensor<5xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<?xf32, #dynamo.sizes<s0 + 5>> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>,
                dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>], dynamo.assumed = "s0 != 9"} {
  %0 = dynamo.concatenate %x, %y dim 0 : (tensor<?xf32, #dynamo.sizes<s0>>, tensor<5xf32>) -> tensor<?xf32, #dynamo.sizes<s0 + 5>>
  return %0 : tensor<?xf32, #dynamo.sizes<s0 + 5>>
}
