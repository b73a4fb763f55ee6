// RUN: dynamlir-opt %s --split-input-file --dynamo-partition | FileCheck %s
// RUN: dynamlir-opt %s --split-input-file --dynamo-partition=print-partition=1 | FileCheck %s --check-prefix=TABLE

// Values inside a checkpoint region are not saved, not even a product, but recomputed from the region's inputs. Without the region
// the product would be saved (see partition.mlir).

// TABLE: partition of @main:
// TABLE: 0 bytes saved
// TABLE: again: matmul
// CHECK-LABEL: func.func @main(
// CHECK-SAME: dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<arg 0>, #dynamo.output<arg 1>]
// CHECK-SAME: dynamo.saved = 2 : i64
// CHECK-NOT: dynamo.recompute
// CHECK-LABEL: func.func @main_vjp(
// CHECK: %[[H:.*]] = dynamo.matmul
// CHECK: dynamo.compare gt %[[H]]
// CHECK-NOT: dynamo.recompute
func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32> {dynamo.requires_grad}, %dy: tensor<8x8xf32> {dynamo.tangent = 0 : i64})
    -> (tensor<8x8xf32>, tensor<8x8xf32> {dynamo.gradient = 1 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %zero = dynamo.full 0.0 : f32 -> tensor<8x8xf32>
  %h = dynamo.matmul %x, %w batch 0 {dynamo.recompute = 0} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %y = dynamo.max %h, %zero {dynamo.recompute = 0} : tensor<8x8xf32>
  %m = dynamo.compare gt %h, %zero : tensor<8x8xf32> -> tensor<8x8xi1>
  %dh = dynamo.select %m, %dy, %zero : tensor<8x8xi1>, tensor<8x8xf32>
  %xt = dynamo.permute %x dims [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
  %dw = dynamo.matmul %xt, %dh batch 0 : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %wt = dynamo.permute %w dims [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
  %used = dynamo.add %dw, %wt : tensor<8x8xf32>
  return %y, %used : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// Two regions in a row: the values that the first passes to the second are saved, those inside either are not. Backward recomputes the
// second right before its gradients, and the first after them.

// TABLE: partition of @main:
// TABLE-NOT: exp {{.*}} cheaper
// TABLE: 256 bytes saved
// CHECK-LABEL: func.func @main(
// CHECK: %[[B:.*]] = dynamo.matmul
// CHECK: return %{{.*}}, %[[B]] :
// CHECK-LABEL: func.func @main_vjp(
// CHECK: dynamo.exp
// CHECK: dynamo.mul
// CHECK: dynamo.matmul
// CHECK: dynamo.sin
// CHECK: dynamo.mul
// CHECK: return
func.func @main(%x: tensor<8x8xf32> {dynamo.requires_grad}, %w: tensor<8x8xf32>, %dy: tensor<8x8xf32> {dynamo.tangent = 0 : i64})
    -> (tensor<8x8xf32>, tensor<8x8xf32> {dynamo.gradient = 0 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %a = dynamo.sin %x {dynamo.recompute = 0} : tensor<8x8xf32>
  %aa = dynamo.mul %a, %a {dynamo.recompute = 0} : tensor<8x8xf32>
  %b = dynamo.matmul %aa, %w batch 0 {dynamo.recompute = 0} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c = dynamo.exp %b {dynamo.recompute = 1} : tensor<8x8xf32>
  %y = dynamo.mul %c, %b {dynamo.recompute = 1} : tensor<8x8xf32>
  %db = dynamo.mul %dy, %c : tensor<8x8xf32>
  %wt = dynamo.permute %w dims [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
  %da = dynamo.matmul %db, %wt batch 0 : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %dx = dynamo.mul %da, %a : tensor<8x8xf32>
  return %y, %dx : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// Negative: random numbers are saved, since other numbers would be drawn. So are the results of an operator that is not known here.

// CHECK-LABEL: func.func @main(
// CHECK: %[[N:.*]] = dynamo.aten "aten.bernoulli.p"
// CHECK: %[[U:.*]] = dynamo.aten "mine.own.default"
// CHECK: %[[D:.*]] = dynamo.aten "aten.cumprod.default"
// CHECK: return %{{.*}}, %[[N]], %[[U]] :
// CHECK-LABEL: func.func @main_vjp(
// CHECK-NOT: bernoulli
// CHECK-NOT: mine.own
// CHECK: dynamo.aten "aten.cumprod.default"
func.func @main(%x: tensor<8xf32> {dynamo.requires_grad}, %dy: tensor<8xf32> {dynamo.tangent = 0 : i64})
    -> (tensor<8xf32>, tensor<8xf32> {dynamo.gradient = 0 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>, dynamo.random} {
  %noise = dynamo.aten "aten.bernoulli.p"(%x) args [#dynamo.operand<0>, 0.5, unit] {dynamo.recompute = 0} : (tensor<8xf32>) -> tensor<8xf32>
  %own = dynamo.aten "mine.own.default"(%x) args [#dynamo.operand<0>] {dynamo.recompute = 0} : (tensor<8xf32>) -> tensor<8xf32>
  %known = dynamo.aten "aten.cumprod.default"(%x) args [#dynamo.operand<0>, 0, unit] {dynamo.recompute = 0} : (tensor<8xf32>) -> tensor<8xf32>
  %a = dynamo.mul %noise, %own {dynamo.recompute = 0} : tensor<8xf32>
  %y = dynamo.mul %a, %known {dynamo.recompute = 0} : tensor<8xf32>
  %d1 = dynamo.mul %dy, %noise : tensor<8xf32>
  %d2 = dynamo.mul %d1, %own : tensor<8xf32>
  %d3 = dynamo.mul %d2, %known : tensor<8xf32>
  return %y, %d3 : tensor<8xf32>, tensor<8xf32>
}

// -----

// Negative: values that are returned, or used outside of the region, may be saved.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>, #dynamo.output<same 1>]
// CHECK-LABEL: func.func @main_vjp(
// CHECK-NOT: dynamo.exp
// CHECK: return
func.func @main(%x: tensor<4xf32> {dynamo.requires_grad}, %dy: tensor<4xf32> {dynamo.tangent = 0 : i64})
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32> {dynamo.gradient = 0 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>], dynamo.differentiable = array<i64: 0>} {
  %e = dynamo.exp %x {dynamo.recompute = 0} : tensor<4xf32>
  %y = dynamo.add %e, %e : tensor<4xf32>
  %dx = dynamo.mul %dy, %e : tensor<4xf32>
  return %y, %e, %dx : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
