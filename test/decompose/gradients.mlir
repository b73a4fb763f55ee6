// RUN: dynamlir-opt %s --dynamo-decompose --dynamo-verify-prims | FileCheck %s

// Gradients have been computed: ops that only direct gradients are replaced by their value, and the derivatives named by operators are
// erased.

// CHECK-NOT: @f_vjp
// CHECK-NOT: @{{gone_vjp|gone_decomposition}}
// CHECK-LABEL: func.func @main
// CHECK-NOT: vjp
// CHECK: %[[F:.*]] = dynamo.aten "mine.f.default"(%arg0) args [#dynamo.operand<0>]
// CHECK-NOT: vjp
// CHECK: %[[S:.*]] = dynamo.mul %arg0, %[[F]]
// CHECK: return %[[S]]
func.func private @f_vjp(%x: tensor<4xf32>, %y: tensor<4xf32>, %t: tensor<4xf32> {dynamo.tangent = 0 : i64})
    -> (tensor<4xf32> {dynamo.gradient = 0 : i64}) {
  %0 = dynamo.mul %x, %t : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dynamo.aten "mine.f.default"(%x) args [#dynamo.operand<0>]
    {grad_enabled, vjp = @f_vjp, operand_strides = [array<i64: 1>], result_strides = [array<i64: 1>]} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = dynamo.detach %0 : tensor<4xf32>
  %h = dynamo.history %x of %1 : tensor<4xf32>
  %2 = dynamo.overwrite %h of %1 : tensor<4xf32>
  %3 = dynamo.mul %2, %1 : tensor<4xf32>
  return %3 : tensor<4xf32>
}
// Functions named by operators that were erased before are erased, too: for second gradients the results themselves are not computed.
func.func private @gone_vjp(%x: tensor<4xf32>, %y: tensor<4xf32>, %t: tensor<4xf32> {dynamo.tangent = 0 : i64})
    -> (tensor<4xf32> {dynamo.gradient = 0 : i64}) {
  %0 = dynamo.full 1.0 : f32 -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @gone_decomposition(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dynamo.full 1.0 : f32 -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
