// RUN: dynamlir-opt %s --split-input-file --dynamo-partition | FileCheck %s

// A value that backward needs and the forward returns is saved by reference: the output is the object of output 0.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32> {dynamo.requires_grad}) -> tensor<4xf32>
// CHECK-SAME: dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<same 0>]
// CHECK-SAME: dynamo.saved = 1 : i64, dynamo.vjp = @main_vjp
// CHECK: %[[Y:.*]] = dynamo.exp %[[X]]
// CHECK: return %[[Y]]
// CHECK-LABEL: func.func @main_vjp(
// CHECK-SAME: %[[Y:.*]]: tensor<4xf32> {{.*}}, %[[DY:.*]]: tensor<4xf32> {dynamo.tangent = 0 : i64}) -> (tensor<4xf32> {dynamo.gradient = 0 : i64})
// CHECK-SAME: dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]
// CHECK: %[[DX:.*]] = dynamo.mul %[[DY]], %[[Y]]
// CHECK: return %[[DX]]
func.func @main(%x: tensor<4xf32> {dynamo.requires_grad}, %dy: tensor<4xf32> {dynamo.tangent = 0 : i64})
    -> (tensor<4xf32>, tensor<4xf32> {dynamo.gradient = 0 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %y = dynamo.exp %x : tensor<4xf32>
  %dx = dynamo.mul %dy, %y : tensor<4xf32>
  return %y, %dx : tensor<4xf32>, tensor<4xf32>
}

// -----

// An argument is saved by reference as well, and values that are cheap to compute from it are recomputed: only %x is saved.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<arg 0>]
// CHECK-LABEL: func.func @main_vjp(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.strides = array<i64: 1>}, %[[DY:.*]]: tensor<4xf32>
// CHECK: %[[C:.*]] = dynamo.cos %[[X]]
// CHECK: dynamo.mul %[[DY]], %[[C]]
func.func @main(%x: tensor<4xf32> {dynamo.requires_grad}, %dy: tensor<4xf32> {dynamo.tangent = 0 : i64})
    -> (tensor<4xf32>, tensor<4xf32> {dynamo.gradient = 0 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %y = dynamo.sin %x : tensor<4xf32>
  %c = dynamo.cos %x : tensor<4xf32>
  %dx = dynamo.mul %dy, %c : tensor<4xf32>
  return %y, %dx : tensor<4xf32>, tensor<4xf32>
}

// -----

// A product is never recomputed. The mask of a relu on it has a quarter of the product's size, and is what is saved. The
// results that are written to arguments come after the saved values.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: -> (tensor<8x8xf32>, tensor<8x8xi1> {dynamo.strides = array<i64: 8, 1>}, tensor<8xf32> {dynamo.mutates = 2 : i64})
// CHECK-SAME: dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<arg 0>, #dynamo.output<result 1>]
// CHECK-SAME: dynamo.versions = array<i64: 3, 0>
// CHECK-LABEL: func.func @main_vjp(
// CHECK-SAME: %{{.*}}: tensor<8x8xf32> {{.*}}, %{{.*}}: tensor<8x8xi1> {{.*}}, %{{.*}}: tensor<8x8xf32> {dynamo.tangent = 0 : i64})
// CHECK: dynamo.select
// CHECK: dynamo.matmul
func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32> {dynamo.requires_grad}, %n: tensor<8xf32>, %dy: tensor<8x8xf32> {dynamo.tangent = 0 : i64})
    -> (tensor<8x8xf32>, tensor<8xf32> {dynamo.mutates = 2 : i64}, tensor<8x8xf32> {dynamo.gradient = 1 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.versions = array<i64: 3, 0>, dynamo.differentiable = array<i64: 0>} {
  %zero = dynamo.full 0.0 : f32 -> tensor<8x8xf32>
  %h = dynamo.matmul %x, %w batch 0 : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %m = dynamo.compare gt %h, %zero : tensor<8x8xf32> -> tensor<8x8xi1>
  %r = dynamo.max %h, %zero : tensor<8x8xf32>
  %y = dynamo.exp %r : tensor<8x8xf32>
  %new = dynamo.add %n, %n : tensor<8xf32>
  %dh = dynamo.select %m, %dy, %zero : tensor<8x8xi1>, tensor<8x8xf32>
  %xt = dynamo.permute %x dims [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
  %dw = dynamo.matmul %xt, %dh batch 0 : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %y, %new, %dw : tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf32>
}

// -----

// Without tangents there is nothing to cut.

// CHECK-LABEL: func.func @main(
// CHECK-NOT: dynamo.saved
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.entry} {
  %y = dynamo.exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// An argument whose memory the forward writes through another argument is not saved by reference: a copy of it is.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>]
func.func @main(%x: tensor<4xf32> {dynamo.requires_grad}, %a: tensor<4xf32> {dynamo.storage = 0}, %b: tensor<4xf32> {dynamo.storage = 0},
                %dy: tensor<4xf32> {dynamo.tangent = 0})
    -> (tensor<4xf32>, tensor<4xf32> {dynamo.mutates = 2}, tensor<4xf32> {dynamo.gradient = 0})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %y = dynamo.mul %x, %a : tensor<4xf32>
  %new = dynamo.add %b, %b : tensor<4xf32>
  %dx = dynamo.mul %dy, %a : tensor<4xf32>
  return %y, %new, %dx : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A part of a derivative that may raise an error stays in backward, where eager raises it.

// CHECK-LABEL: func.func @main(
// CHECK-NOT: aten.linalg_inv
// CHECK-LABEL: func.func @main_vjp(
// CHECK: aten.linalg_inv
func.func @main(%x: tensor<2x2xf32> {dynamo.requires_grad}, %dy: tensor<2x2xf32> {dynamo.tangent = 0})
    -> (tensor<2x2xf32>, tensor<2x2xf32> {dynamo.gradient = 0})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %y = dynamo.exp %x : tensor<2x2xf32>
  %i, %info = dynamo.aten "aten.linalg_inv_ex.default"(%y) args [#dynamo.operand<0>, true] : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<i32>)
  %s = dynamo.neg %i : tensor<2x2xf32>
  %dx = dynamo.mul %dy, %s : tensor<2x2xf32>
  return %y, %dx : tensor<2x2xf32>, tensor<2x2xf32>
}
