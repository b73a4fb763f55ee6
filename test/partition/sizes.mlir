// RUN: dynamlir-opt %s --split-input-file --dynamo-partition | FileCheck %s

// Sizes that are expressions. Each symbol is a size of an argument of backward.

// The saved value has the symbol as a size, and the cut uses the expected number of bytes.

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

// The only tangent has it, and without a tangent there is nothing to compute. Assumptions about symbols hold there, too.

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

// The gradient of a sum depends only on the tangent, which is a single number. So the forward saves an empty tensor that has the size,
// after the other saved values.

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

// If there are several tangents, any of them may be missing, so none is used for the size.

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
