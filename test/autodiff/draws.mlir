// RUN: dynamlir-opt %s --dynamo-autodiff --dynamo-decompose --dynamo-partition | FileCheck %s
// RUN: sed 's/order = 1/order = 2/' %s | dynamlir-opt - --dynamo-autodiff | FileCheck %s --check-prefix=TWICE
// RUN: sed 's/order = 1/order = 2/' %s | dynamlir-opt - --dynamo-autodiff --dynamo-decompose | FileCheck %s --check-prefix=GIVEN

// Gradients use the random numbers that were drawn, regardless of how often they are differentiated. So the draws of an entry have numbers,
// `dynamo.draw`, which are the positions of their keys in one tensor; and this tensor is always saved for backward.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: dynamo.kept_keys = [[AT:[0-9]+]] : i64
// CHECK: %[[KEYS:.*]] = dynamo.aten "aten.randint.low"() {{.*}}dynamo.keys{{.*}} -> tensor<2xi64>
// CHECK-DAG: dynamo.slice %[[KEYS]] starts [0]
// CHECK-DAG: dynamo.slice %[[KEYS]] starts [1]
// CHECK-LABEL: func.func @main_vjp(
// CHECK-NOT: aten.randint

// The function of the gradients takes that tensor as its last argument, after x and the tangent.

// TWICE-LABEL: func.func @main(
// TWICE-SAME: dynamo.primal = 0 : i64
// TWICE-SAME: dynamo.primal = 1 : i64
// TWICE-SAME: tensor<2xi64> {dynamo.keys, dynamo.strides = array<i64: 1>}
// TWICE-SAME: dynamo.tangent = 0 : i64
// TWICE-DAG: dynamo.aten "aten.rand_like.default"({{.*}} {dynamo.draw = 0 : i64}
// TWICE-DAG: dynamo.aten "aten.rand_like.default"({{.*}} {dynamo.draw = 1 : i64}

// Then it draws nothing.

// GIVEN: %[[KEYS:[^:]*]]: tensor<2xi64> {dynamo.keys
// GIVEN-NOT: dynamo.aten
// GIVEN: dynamo.slice %[[KEYS]]
func.func @main(%x: tensor<4xf64> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf64> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.order = 1 : i64, dynamo.random, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  %0 = dynamo.aten "aten.rand_like.default"(%x) args [#dynamo.operand<0>, unit, unit, unit, unit, unit] : (tensor<4xf64>) -> tensor<4xf64>
  %1 = dynamo.aten "aten.rand_like.default"(%x) args [#dynamo.operand<0>, unit, unit, unit, unit, unit] : (tensor<4xf64>) -> tensor<4xf64>
  %2 = dynamo.mul %x, %1 : tensor<4xf64>
  %3 = dynamo.add %2, %0 : tensor<4xf64>
  %4 = dynamo.mul %3, %x : tensor<4xf64>
  return %4 : tensor<4xf64>
}
