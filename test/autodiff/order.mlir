// RUN: dynamlir-opt %s --dynamo-autodiff --dynamo-verify-functional | FileCheck %s
// RUN: sed 's/order = 2/order = 3/' %s | dynamlir-opt - --dynamo-autodiff --dynamo-verify-functional | FileCheck %s --check-prefix=THIRD
// RUN: dynamlir-opt %s --dynamo-autodiff --dynamo-decompose --dynamo-partition | FileCheck %s --check-prefix=CUT

// `dynamo.order = 2`: compiles the gradients of a function, and the gradients of these, as `create_graph=True` requires. The pass does the
// work of `--dynamo-autodiff --dynamo-gradient --dynamo-autodiff`, and one more round with order 3.

// y = sin x, with tangent t. Result: x' = t cos x. With its tangent u: x'' = -u t sin x, and t' = u cos x.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:[^:]*]]: tensor<4xf64> {{[{][^}]*}}dynamo.primal = 0 : i64{{[^}]*[}]}}, %[[T:[^:]*]]: tensor<4xf64> {{[{][^}]*}}dynamo.primal = 1 : i64{{[^}]*[}]}},
// CHECK-SAME: %[[U:[^:]*]]: tensor<4xf64> {{[{][^}]*}}dynamo.tangent = 0 : i64})
// CHECK-SAME: -> (tensor<4xf64> {dynamo.sources = array<i64: 0, 1>, {{[^}]*}}}, tensor<4xf64> {dynamo.gradient = 0 : i64, {{[^}]*}}}, tensor<4xf64> {dynamo.gradient = 1 : i64, {{[^}]*}}})
// CHECK-NOT: dynamo.order
// CHECK: %[[C:.*]] = dynamo.cos %[[X]]
// CHECK: %[[G:.*]] = dynamo.mul %[[T]], %[[C]]
// CHECK: %[[UC:.*]] = dynamo.mul %[[U]], %[[C]]
// CHECK: %[[UT:.*]] = dynamo.mul %[[U]], %[[T]]
// CHECK: %[[S:.*]] = dynamo.sin %[[X]]
// CHECK: %[[P:.*]] = dynamo.mul %[[UT]], %[[S]]
// CHECK: %[[N:.*]] = dynamo.neg %[[P]]
// CHECK: return %[[G]], %[[N]], %[[UC]]

// The third order takes both tangents as arguments, numbers 1 and 2, and has three gradients: of x, t and u.
// THIRD: dynamo.primal = 0
// THIRD-SAME: dynamo.primal = 1
// THIRD-SAME: dynamo.primal = 2
// THIRD-SAME: dynamo.gradient = 0
// THIRD-SAME: dynamo.gradient = 1
// THIRD-SAME: dynamo.gradient = 2

// It is partitioned like any other joint function; here the gradients are its forward.
// CUT-LABEL: func.func @main(
// CUT-SAME: dynamo.vjp = @main_vjp
// CUT-LABEL: func.func @main_vjp(
func.func @main(%x: tensor<4xf64> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf64> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.order = 2, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.sin %x : tensor<4xf64>
  return %0 : tensor<4xf64>
}
