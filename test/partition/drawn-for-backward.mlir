// RUN: dynamlir-opt %s --dynamo-partition | FileCheck %s

// The forward draws all its random numbers, even those only backward reads, as eager does: every backward must see the same numbers.

// CHECK-LABEL: func.func @main(
// CHECK: %[[DRAWN:.*]] = dynamo.aten "aten.rand.default"
// CHECK: return %{{.*}}, %[[DRAWN]]
// CHECK-LABEL: func.func @main_vjp(
// CHECK-NOT: dynamo.aten
// CHECK: dynamo.mul
func.func @main(%x: tensor<4xf32> {dynamo.requires_grad}, %dy: tensor<4xf32> {dynamo.tangent = 0 : i64})
    -> (tensor<4xf32>, tensor<4xf32> {dynamo.gradient = 0 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>, dynamo.random} {
  %noise = dynamo.aten "aten.rand.default"() args [[4], f32, unit, #dynamo.device<"cpu">, unit]
    {operand_strides = [], result_strides = [array<i64: 1>]} : () -> tensor<4xf32>
  %y = dynamo.sin %x : tensor<4xf32>
  %dx = dynamo.mul %dy, %noise : tensor<4xf32>
  return %y, %dx : tensor<4xf32>, tensor<4xf32>
}
