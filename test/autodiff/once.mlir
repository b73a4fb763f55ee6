// RUN: dynamlir-opt %s --split-input-file --dynamo-autodiff --dynamo-partition | FileCheck %s

// The gradient of a sign is zero, regardless of the operand; eager's node saves the operand all the same, and the first backward pass frees
// it (dynamo.once).

// CHECK-LABEL: func.func @sign_vjp
// CHECK-SAME: dynamo.once{{.*}}dynamo.tangent = 0 : i64}) -> (tensor<4xf32> {dynamo.gradient = 0 : i64
func.func @sign(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %y = dynamo.aten "aten.sgn.default"(%x) args [#dynamo.operand<0>]
    {grad_enabled, operand_strides = [array<i64: 1>], result_strides = [array<i64: 1>]} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// For a sum eager saves sizes, which are numbers.

// CHECK-LABEL: func.func @sum_vjp
// CHECK-NOT: dynamo.once
func.func @sum(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<f32> {dynamo.strides = array<i64>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %y = dynamo.aten "aten.sum.default"(%x) args [#dynamo.operand<0>, unit]
    {grad_enabled, operand_strides = [array<i64: 1>], result_strides = [array<i64>]} : (tensor<4xf32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

// For addmm it saves the matrices if one of them requires a gradient. Torch frees what is saved here.

// CHECK-LABEL: func.func @bias_vjp
// CHECK-NOT: dynamo.once
// CHECK-LABEL: func.func @matrix_vjp
// CHECK-NOT: dynamo.once
func.func @bias(%b: tensor<2x2xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 2, 1>},
                %m: tensor<2x2xf32> {dynamo.offset = 0 : i64, dynamo.strides = array<i64: 2, 1>})
    -> (tensor<2x2xf32> {dynamo.strides = array<i64: 2, 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %y = dynamo.aten "aten.addmm.default"(%b, %m, %m) args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, 1, 1]
    {grad_enabled, operand_strides = [array<i64: 2, 1>, array<i64: 2, 1>, array<i64: 2, 1>], result_strides = [array<i64: 2, 1>]}
    : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

func.func @matrix(%m: tensor<2x2xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 2, 1>},
                  %b: tensor<2x2xf32> {dynamo.offset = 0 : i64, dynamo.strides = array<i64: 2, 1>})
    -> (tensor<2x2xf32> {dynamo.strides = array<i64: 2, 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %y = dynamo.aten "aten.addmm.default"(%b, %m, %b) args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, 1, 1]
    {grad_enabled, operand_strides = [array<i64: 2, 1>, array<i64: 2, 1>, array<i64: 2, 1>], result_strides = [array<i64: 2, 1>]}
    : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// A recorded formula states itself whether eager saves a tensor. No gradient reaches the exponential, but autograd visits it all the same:
// it saves its result.

// CHECK-LABEL: func.func @reached_vjp
// CHECK-SAME: dynamo.once
func.func @reached(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>},
                   %w: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %e = dynamo.aten "aten.exp.default"(%x) args [#dynamo.operand<0>]
    {grad_enabled, operand_strides = [array<i64: 1>], result_strides = [array<i64: 1>]} : (tensor<4xf32>) -> tensor<4xf32>
  %y = dynamo.aten "user.first.default"(%w, %e) args [#dynamo.operand<0>, #dynamo.operand<1>]
    {grad_enabled, vjp = @first_vjp, operand_strides = [array<i64: 1>, array<i64: 1>], result_strides = [array<i64: 1>]}
    : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

func.func private @first_vjp(%w: tensor<4xf32>, %e: tensor<4xf32>, %y: tensor<4xf32>, %t: tensor<4xf32> {dynamo.tangent = 0 : i64})
    -> (tensor<4xf32> {dynamo.gradient = 0 : i64}) {
  return %t : tensor<4xf32>
}

// CHECK-LABEL: func.func @said_vjp
// CHECK-SAME: dynamo.once
func.func @said(%w: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %y = dynamo.aten "user.keeping.default"(%w) args [#dynamo.operand<0>]
    {grad_enabled, vjp = @keeping_vjp, operand_strides = [array<i64: 1>], result_strides = [array<i64: 1>]} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

func.func private @keeping_vjp(%w: tensor<4xf32>, %y: tensor<4xf32>, %t: tensor<4xf32> {dynamo.tangent = 0 : i64})
    -> (tensor<4xf32> {dynamo.gradient = 0 : i64}) attributes {dynamo.once} {
  return %t : tensor<4xf32>
}
