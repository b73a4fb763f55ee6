// RUN: dynamlir-opt %s --split-input-file --dynamo-autodiff --dynamo-verify-functional | FileCheck %s

// The output of dynamo-autodiff for an entry that is differentiated. One case per module, from simple to unusual.

// The result gets a tangent. Each argument that requires a gradient gets one, placed after the results and with the argument's layout. The
// user's outputs are unchanged. The emitted operators are those that eager calls.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x4xf32> {{[{][^}]*[}]}}, %[[W:[^:]*]]: tensor<3x4xf32> {{[{][^}]*[}]}}, %[[B:[^:]*]]: tensor<3xf32> {{[{][^}]*[}]}},
// CHECK-SAME: %[[T:[^:]*]]: tensor<2x3xf32> {dynamo.kept_by_eager, dynamo.offset = 0 : i64, dynamo.once, dynamo.strides = array<i64: 3, 1>, dynamo.tangent = 0 : i64})
// CHECK-SAME: -> (tensor<2x3xf32> {dynamo.strides = array<i64: 3, 1>},
// CHECK-SAME: tensor<3x4xf32> {dynamo.gradient = 1 : i64, dynamo.strides = array<i64: 4, 1>},
// CHECK-SAME: tensor<3xf32> {dynamo.gradient = 2 : i64, dynamo.strides = array<i64: 1>})
// CHECK-SAME: dynamo.differentiable = array<i64: 0>
// CHECK-SAME: dynamo.outputs = [#dynamo.output<result 0>]
// CHECK: %[[WT:.*]] = dynamo.aten "aten.t.default"(%[[W]])
// CHECK: %[[H:.*]] = dynamo.aten "aten.addmm.default"(%[[B]], %[[X]], %[[WT]])
// CHECK: %[[Y:.*]] = dynamo.aten "aten.tanh.default"(%[[H]])
// CHECK: %[[G:.*]] = dynamo.aten "aten.tanh_backward.default"(%[[T]], %[[Y]])
// CHECK-SAME: {grad_enabled, operand_strides = [array<i64: 3, 1>, array<i64: 3, 1>], result_strides = [array<i64: 3, 1>]}
// CHECK: %[[SUM:.*]] = dynamo.aten "aten.sum.dim_IntList"(%[[G]]) args [#dynamo.operand<0>, [0], true, unit]
// CHECK: %[[GB:.*]] = dynamo.reshape %[[SUM]]
// The weight was transposed: its gradient is computed so that it has the weight's layout. The gradient of %x is not needed.
// CHECK: %[[GT:.*]] = dynamo.permute %[[G]] dims [1, 0]
// CHECK: %[[GW:.*]] = dynamo.aten "aten.mm.default"(%[[GT]], %[[X]])
// CHECK-SAME: operand_strides = [array<i64: 1, 3>, array<i64: 4, 1>]
// CHECK-NOT: aten.mm
// CHECK: return %[[Y]], %{{.*}}, %[[GB]]
func.func @main(%x: tensor<2x4xf32> {dynamo.offset = 0 : i64, dynamo.strides = array<i64: 4, 1>},
                %w: tensor<3x4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 4, 1>},
                %b: tensor<3xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<2x3xf32> {dynamo.strides = array<i64: 3, 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.aten "aten.t.default"(%w) args [#dynamo.operand<0>]
    {grad_enabled, operand_strides = [array<i64: 4, 1>], result_strides = [array<i64: 1, 4>]} : (tensor<3x4xf32>) -> tensor<4x3xf32>
  %1 = dynamo.aten "aten.addmm.default"(%b, %x, %0) args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, 1, 1]
    {grad_enabled, operand_strides = [array<i64: 1>, array<i64: 4, 1>, array<i64: 1, 4>], result_strides = [array<i64: 3, 1>]}
    : (tensor<3xf32>, tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %2 = dynamo.aten "aten.tanh.default"(%1) args [#dynamo.operand<0>]
    {grad_enabled, operand_strides = [array<i64: 3, 1>], result_strides = [array<i64: 3, 1>]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}

// -----

// A value with two uses gets the sum of both gradients.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:[^:]*]]: tensor<4xf32> {{[{][^}]*[}]}}, %[[T:[^:]*]]: tensor<4xf32> {{[{][^}]*}}dynamo.tangent = 0 : i64})
// CHECK: %[[Y:.*]] = dynamo.mul %[[X]], %[[X]]
// CHECK-DAG: %[[A:.*]] = dynamo.mul %[[T]], %[[X]]
// CHECK-DAG: %[[B:.*]] = dynamo.mul %[[T]], %[[X]]
// CHECK: %[[S:.*]] = dynamo.aten "aten.add.Tensor"
// CHECK: return %[[Y]], %[[S]]
func.func @main(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.mul %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Gradients pass neither through operators called with grad mode off, nor through dynamo.detach. The other result has no tangent, since it
// is not differentiable in eager. The argument that no gradient reaches has none: zeros are not emitted for it.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:[^:]*]]: tensor<4xf32> {{[{][^}]*[}]}}, %[[Y:[^:]*]]: tensor<4xf32> {{[{][^}]*[}]}}, %[[T:[^:]*]]: tensor<4xf32> {{[{][^}]*}}dynamo.tangent = 0 : i64})
// CHECK-SAME: -> (tensor<4xf32> {{[{][^}]*[}]}}, tensor<4xf32> {{[{][^}]*[}]}}, tensor<4xf32> {dynamo.gradient = 0 : i64,
// CHECK: %[[E:.*]] = dynamo.aten "aten.exp.default"(%[[Y]])
// CHECK: %[[D:.*]] = dynamo.detach %[[E]]
// CHECK: %[[R:.*]] = dynamo.mul %[[X]], %[[D]]
// CHECK-NEXT: %[[G:.*]] = dynamo.mul %[[T]], %[[D]]
// CHECK-NEXT: return %[[R]], %[[E]], %[[G]]
func.func @main(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>},
                %y: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>}, tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.aten "aten.exp.default"(%y) args [#dynamo.operand<0>]
    {operand_strides = [array<i64: 1>], result_strides = [array<i64: 1>]} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = dynamo.detach %0 : tensor<4xf32>
  %2 = dynamo.mul %x, %1 : tensor<4xf32>
  return %2, %0 : tensor<4xf32>, tensor<4xf32>
}

// -----

// The value of one tensor with the gradient of another: `y = x * 2; with no_grad(): y.mul_(3)`.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[T:[^:]*]]: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.strides = array<i64: 1>, dynamo.tangent = 0 : i64}
// CHECK: %[[H:.*]] = dynamo.history
// CHECK-NEXT: %[[G:.*]] = dynamo.aten "aten.mul.Scalar"(%[[T]]) args [#dynamo.operand<0>, 2]
// CHECK-NEXT: return %[[H]], %[[G]]
func.func @main(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.aten "aten.mul.Scalar"(%x) args [#dynamo.operand<0>, 2]
    {grad_enabled, operand_strides = [array<i64: 1>], result_strides = [array<i64: 1>]} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = dynamo.aten "aten.mul.Scalar"(%0) args [#dynamo.operand<0>, 3]
    {operand_strides = [array<i64: 1>], result_strides = [array<i64: 1>]} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = dynamo.history %1 of %0 : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// An overwritten value has a gradient of zeros: `y = x * 2; y.copy_(z)`. The gradient of `z` is the tangent.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[T:[^:]*]]: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.strides = array<i64: 1>, dynamo.tangent = 0 : i64}
// CHECK: %[[O:.*]] = dynamo.overwrite
// CHECK: %[[Z:.*]] = dynamo.full 0.0
// CHECK: %[[G:.*]] = dynamo.aten "aten.mul.Scalar"(%[[Z]]) args [#dynamo.operand<0>, 2]
// CHECK: return %[[O]], %[[G]], %[[T]]
func.func @main(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>},
                %z: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.aten "aten.mul.Scalar"(%x) args [#dynamo.operand<0>, 2]
    {grad_enabled, operand_strides = [array<i64: 1>], result_strides = [array<i64: 1>]} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = dynamo.overwrite %z of %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// The gradient of a broadcast value is summed, and that of a promoted one is converted back to its own element type.

// CHECK-LABEL: func.func @main
// CHECK: %[[P:.*]] = dynamo.aten "aten.mul.Tensor"(%{{.*}}, %{{.*}}) {{.*}} : (tensor<2x3xf64>, tensor<3xf32>) -> tensor<2x3xf64>
// CHECK: %[[G:.*]] = dynamo.aten "aten.mul.Tensor"(%{{.*}}, %{{.*}}) {{.*}} : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
// CHECK-NEXT: %[[S:.*]] = dynamo.aten "aten.sum.dim_IntList"(%[[G]]) args [#dynamo.operand<0>, [0], true, unit]
// CHECK-NEXT: %[[R:.*]] = dynamo.reshape %[[S]] : tensor<1x3xf64> -> tensor<3xf64>
// CHECK-NEXT: %[[C:.*]] = dynamo.aten "aten._to_copy.default"(%[[R]]) args [#dynamo.operand<0>, f32, unit, unit, unit, false, unit]
// CHECK-NEXT: return %[[P]], %[[C]]
func.func @main(%x: tensor<2x3xf64> {dynamo.offset = 0 : i64, dynamo.strides = array<i64: 3, 1>},
                %y: tensor<3xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<2x3xf64> {dynamo.strides = array<i64: 3, 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.aten "aten.mul.Tensor"(%x, %y) args [#dynamo.operand<0>, #dynamo.operand<1>]
    {grad_enabled, operand_strides = [array<i64: 3, 1>, array<i64: 1>], result_strides = [array<i64: 3, 1>]}
    : (tensor<2x3xf64>, tensor<3xf32>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}

// -----

// An output that is a view of a result uses the tangent of the result. One that is a view of an argument is built outside of the graph,
// together with its gradient, so it has none here. Two outputs that are the same object have one tangent.

// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<2x3xf32> {dynamo.kept_by_eager, dynamo.offset = 0 : i64, dynamo.strides = array<i64: 3, 1>, dynamo.tangent = 0 : i64}) ->
// CHECK-SAME: tensor<2x3xf32> {dynamo.gradient = 0 : i64
func.func @main(%x: tensor<2x3xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 3, 1>})
    -> (tensor<2x3xf32> {dynamo.strides = array<i64: 3, 1>})
    attributes {dynamo.entry, dynamo.differentiable = array<i64: 0, 1, 2>,
      dynamo.outputs = [#dynamo.output<result_view 0, [3], [1], 3>, #dynamo.output<arg_view 0, [3, 2], [1, 3], 0>, #dynamo.output<same 0>]} {
  %0 = dynamo.exp %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// Parts: if some have a gradient, those that no gradient has reached get zeros.

// CHECK-LABEL: func.func @main
// CHECK: %[[S:.*]]:2 = dynamo.aten "aten.split.Tensor"
// CHECK: %[[Z:.*]] = dynamo.full 0.000000e+00 : f32 -> tensor<2x2xf32>
// CHECK: %[[G:.*]] = dynamo.concatenate %[[Z]], %{{.*}} dim 1
// CHECK: return %[[S]]#1, %[[G]]
func.func @main(%x: tensor<2x4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 4, 1>})
    -> (tensor<2x2xf32> {dynamo.strides = array<i64: 2, 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0:2 = dynamo.aten "aten.split.Tensor"(%x) args [#dynamo.operand<0>, 2, 1]
    {grad_enabled, operand_strides = [array<i64: 4, 1>], result_strides = [array<i64: 4, 1>, array<i64: 4, 1>]}
    : (tensor<2x4xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)
  return %0#1 : tensor<2x2xf32>
}

// -----

// `vjp` takes precedence over the tables. Its gradients of operands that do not require one are dropped, and an undefined tangent is zeros.

// CHECK-LABEL: func.func private @swirl_vjp
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32> {{[{][^}]*[}]}}, %[[Y:[^:]*]]: tensor<4xf32> {{[{][^}]*[}]}}, %[[T:[^:]*]]: tensor<4xf32> {{[{][^}]*}}dynamo.tangent = 0
// CHECK-SAME: -> (tensor<4xf32> {{[{][^}]*[}]}}, tensor<4xf32> {dynamo.gradient = 0 : i64
// CHECK: %[[S:.*]]:2 = dynamo.aten "mine.swirl.default"
// CHECK: %[[Z:.*]] = dynamo.full 0.000000e+00
// CHECK: %[[P:.*]] = dynamo.mul %[[T]], %[[S]]#0
// CHECK: %[[G:.*]] = dynamo.add %[[P]], %[[Z]]
// CHECK: return %[[S]]#0, %[[G]]
func.func private @swirl_vjp(%x: tensor<4xf32>, %y: tensor<4xf32>, %r: tensor<4xf32>, %s: tensor<4xf32>,
                             %t: tensor<4xf32> {dynamo.tangent = 0 : i64}, %u: tensor<4xf32> {dynamo.tangent = 1 : i64})
    -> (tensor<4xf32> {dynamo.gradient = 0 : i64}, tensor<4xf32> {dynamo.gradient = 1 : i64}) {
  %0 = dynamo.mul %t, %r : tensor<4xf32>
  %1 = dynamo.add %0, %u : tensor<4xf32>
  %2 = dynamo.mul %t, %y : tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}
func.func @main(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>},
                %y: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0:2 = dynamo.aten "mine.swirl.default"(%x, %y) args [#dynamo.operand<0>, #dynamo.operand<1>]
    {grad_enabled, vjp = @swirl_vjp, operand_strides = [array<i64: 1>, array<i64: 1>], result_strides = [array<i64: 1>, array<i64: 1>]}
    : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0#0 : tensor<4xf32>
}

// -----

// A buffer that is mutated without a gradient is unaffected: batch norm's statistics.

// CHECK-LABEL: func.func @main
// CHECK-SAME: -> (tensor<4xf32> {dynamo.strides = array<i64: 1>}, tensor<4xf32> {dynamo.mutates = 1 : i64}, tensor<4xf32> {dynamo.gradient = 0 : i64
func.func @main(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>},
                %mean: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>}, tensor<4xf32> {dynamo.mutates = 1 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.exp %x : tensor<4xf32>
  %1 = dynamo.detach %0 : tensor<4xf32>
  %2 = dynamo.add %mean, %1 : tensor<4xf32>
  return %0, %2 : tensor<4xf32>, tensor<4xf32>
}

// -----

// An entry that is not differentiated is unchanged, even if its arguments require gradients.

// CHECK-LABEL: func.func @main(
// CHECK-NOT: dynamo.tangent
// CHECK: return %{{[^,]*}} : tensor<4xf32>
func.func @main(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>}) attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Torch's formulas omit undefined tangents, and everything that depends on them alone: as zeros they would be divided by the difference of
// two singular values, which may be zero. The tangent of the values passes through the rest.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[T:[^:]*]]: tensor<4xf32> {{[{][^}]*}}dynamo.tangent = 0
// CHECK: %[[S:.*]]:2 = dynamo.aten "aten.parts.default"
// CHECK: %[[Z:.*]] = dynamo.full 0.000000e+00
// CHECK-NEXT: %[[G:.*]] = dynamo.aten "aten.add.Tensor"(%[[Z]], %[[T]])
// CHECK-NEXT: return %[[S]]#1, %[[G]]
func.func private @parts_vjp(%x: tensor<4xf32>, %v: tensor<4xf32>, %s: tensor<4xf32>,
                             %t: tensor<4xf32> {dynamo.tangent = 0 : i64}, %u: tensor<4xf32> {dynamo.tangent = 1 : i64})
    -> (tensor<4xf32> {dynamo.gradient = 0 : i64}) {
  %0 = dynamo.aten "aten.neg.default"(%t) args [#dynamo.operand<0>]
    {operand_strides = [array<i64: 1>], result_strides = [array<i64: 1>]} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = dynamo.aten "aten.mul.Tensor"(%v, %0) args [#dynamo.operand<0>, #dynamo.operand<1>]
    {operand_strides = [array<i64: 1>, array<i64: 1>], result_strides = [array<i64: 1>]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = dynamo.aten "aten.div.Tensor"(%1, %s) args [#dynamo.operand<0>, #dynamo.operand<1>]
    {operand_strides = [array<i64: 1>, array<i64: 1>], result_strides = [array<i64: 1>]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = dynamo.aten "aten.add.Tensor"(%2, %u) args [#dynamo.operand<0>, #dynamo.operand<1>, 1]
    {operand_strides = [array<i64: 1>, array<i64: 1>], result_strides = [array<i64: 1>]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0:2 = dynamo.aten "aten.parts.default"(%x) args [#dynamo.operand<0>]
    {grad_enabled, vjp = @parts_vjp, operand_strides = [array<i64: 1>], result_strides = [array<i64: 1>, array<i64: 1>]}
    : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0#1 : tensor<4xf32>
}
