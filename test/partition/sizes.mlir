// RUN: dynamlir-opt %s --split-input-file --dynamo-partition | FileCheck %s

// Sizes that are expressions. Each symbol is a size of what the backward takes.

// What is saved has the symbol for a size, and the cut weighs as many bytes as are expected.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<same 0>]
// CHECK-SAME: dynamo.saved = 1 : i64
// CHECK-SAME: dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0, hint = 16>]
// CHECK-LABEL: func.func @main_vjp(
// CHECK-SAME: %[[Y:.*]]: tensor<?x4xf32, #dynamo.sizes<s0, 4>> {{.*}}, %[[DY:.*]]: tensor<?x4xf32, #dynamo.sizes<s0, 4>> {dynamo.tangent = 0 : i64})
// CHECK-SAME: dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0, hint = 16>]
// CHECK: dynamo.mul %[[DY]], %[[Y]]
func.func @main(%x: tensor<?x4xf32, #dynamo.sizes<s0, 4>> {dynamo.requires_grad}, %dy: tensor<?x4xf32, #dynamo.sizes<s0, 4>> {dynamo.tangent = 0 : i64})
    -> (tensor<?x4xf32, #dynamo.sizes<s0, 4>>, tensor<?x4xf32, #dynamo.sizes<s0, 4>> {dynamo.gradient = 0 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>,
                dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0, hint = 16>]} {
  %y = dynamo.exp %x : tensor<?x4xf32, #dynamo.sizes<s0, 4>>
  %dx = dynamo.mul %dy, %y : tensor<?x4xf32, #dynamo.sizes<s0, 4>>
  return %y, %dx : tensor<?x4xf32, #dynamo.sizes<s0, 4>>, tensor<?x4xf32, #dynamo.sizes<s0, 4>>
}

// -----

// The one tangent has it: without that there is nothing to compute. What is assumed of symbols is assumed there, too.

// CHECK-LABEL: func.func @main_vjp(
// CHECK-SAME: %{{[^:]*}}: tensor<?xf32, #dynamo.sizes<s0>> {dynamo.tangent = 0 : i64})
// CHECK-SAME: dynamo.assumed = "s0 != 9"
// CHECK-SAME: dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]
func.func @main(%x: tensor<?xf32, #dynamo.sizes<s0>> {dynamo.requires_grad}, %dy: tensor<?xf32, #dynamo.sizes<s0>> {dynamo.tangent = 0 : i64})
    -> (tensor<?xf32, #dynamo.sizes<s0>>, tensor<?xf32, #dynamo.sizes<s0>> {dynamo.gradient = 0 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>,
                dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>], dynamo.assumed = "s0 != 9"} {
  %y = dynamo.neg %x : tensor<?xf32, #dynamo.sizes<s0>>
  %dx = dynamo.neg %dy : tensor<?xf32, #dynamo.sizes<s0>>
  return %y, %dx : tensor<?xf32, #dynamo.sizes<s0>>, tensor<?xf32, #dynamo.sizes<s0>>
}

// -----

// The gradient of a sum is made of the tangent, which is one number. So the forward saves a tensor without elements that has the size,
// behind what else it saves.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: -> (tensor<f32>, tensor<?x0xi8, #dynamo.sizes<s0, 0>> {dynamo.strides = array<i64: 1, 1>})
// CHECK-SAME: dynamo.kept_sizes
// CHECK-SAME: dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>]
// CHECK-SAME: dynamo.saved = 1 : i64
// CHECK: %[[SIZES:.*]] = dynamo.full 0 : i8 -> tensor<?x0xi8, #dynamo.sizes<s0, 0>>
// CHECK: return %{{.*}}, %[[SIZES]]
// CHECK-LABEL: func.func @main_vjp(
// CHECK-SAME: %{{[^:]*}}: tensor<?x0xi8, #dynamo.sizes<s0, 0>> {dynamo.offset = 0 : i64, dynamo.strides = array<i64: 1, 1>},
// CHECK-SAME: %[[DY:.*]]: tensor<f32> {dynamo.tangent = 0 : i64})
// CHECK-SAME: dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]
// CHECK: dynamo.broadcast %[[DY]] dims [] : tensor<f32> -> tensor<?xf32, #dynamo.sizes<s0>>
func.func @main(%x: tensor<?xf32, #dynamo.sizes<s0>> {dynamo.requires_grad}, %dy: tensor<f32> {dynamo.tangent = 0 : i64})
    -> (tensor<f32>, tensor<?xf32, #dynamo.sizes<s0>> {dynamo.gradient = 0 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>,
                dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  %y = dynamo.reduce sum %x dims [0] : tensor<?xf32, #dynamo.sizes<s0>> -> tensor<f32>
  %dx = dynamo.broadcast %dy dims [] : tensor<f32> -> tensor<?xf32, #dynamo.sizes<s0>>
  return %y, %dx : tensor<f32>, tensor<?xf32, #dynamo.sizes<s0>>
}

// -----

// Of several tangents one may be missing, so none of them is asked for the size.

// CHECK-LABEL: func.func @main_vjp(
// CHECK-SAME: %{{[^:]*}}: tensor<?x0xi8, #dynamo.sizes<s0, 0>>
// CHECK-SAME: dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]
func.func @main(%x: tensor<?xf32, #dynamo.sizes<s0>> {dynamo.requires_grad}, %dy: tensor<?xf32, #dynamo.sizes<s0>> {dynamo.tangent = 0 : i64},
                %dz: tensor<?xf32, #dynamo.sizes<s0>> {dynamo.tangent = 1 : i64})
    -> (tensor<?xf32, #dynamo.sizes<s0>>, tensor<?xf32, #dynamo.sizes<s0>>, tensor<?xf32, #dynamo.sizes<s0>> {dynamo.gradient = 0 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>],
                dynamo.differentiable = array<i64: 0, 1>, dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  %y = dynamo.neg %x : tensor<?xf32, #dynamo.sizes<s0>>
  %z = dynamo.add %x, %x : tensor<?xf32, #dynamo.sizes<s0>>
  %a = dynamo.neg %dy : tensor<?xf32, #dynamo.sizes<s0>>
  %b = dynamo.add %dz, %dz : tensor<?xf32, #dynamo.sizes<s0>>
  %dx = dynamo.add %a, %b : tensor<?xf32, #dynamo.sizes<s0>>
  return %y, %z, %dx : tensor<?xf32, #dynamo.sizes<s0>>, tensor<?xf32, #dynamo.sizes<s0>>, tensor<?xf32, #dynamo.sizes<s0>>
}
