// RUN: dynamlir-opt %s --dynamo-autodiff --dynamo-gradient | FileCheck %s
// RUN: sed 's/module attributes {dynamo.eager_random}/module/' %s | dynamlir-opt - --dynamo-autodiff --dynamo-gradient | FileCheck %s --check-prefix=KEYS

// Torch's operators draw the same numbers again, from the saved state of the generator. So the function of the gradients contains all of
// them, in order: even the first, whose result no gradient uses.

// CHECK-LABEL: func.func @main(
// CHECK-NOT: dynamo.keys
// CHECK: attributes {{.*}}dynamo.random
// CHECK: dynamo.aten "aten.rand.default"() args {{\[}}[7]
// CHECK: dynamo.aten "aten.rand.default"() args {{\[}}[4]

// If they have keys, only the needed ones are computed.

// KEYS-LABEL: func.func @main(
// KEYS-SAME: dynamo.keys
// KEYS-NOT: dynamo.aten "aten.rand.default"() args {{\[}}[7]
// KEYS: dynamo.aten "aten.rand.default"() args {{\[}}[4]
module attributes {dynamo.eager_random} {
  func.func @main(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
      -> (tensor<7xf32> {dynamo.strides = array<i64: 1>}, tensor<4xf32> {dynamo.strides = array<i64: 1>})
      attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>],
                  dynamo.differentiable = array<i64: 1>, dynamo.random} {
    %apart = dynamo.aten "aten.rand.default"() args [[7], f32, unit, #dynamo.device<"cpu">, unit]
      {operand_strides = [], result_strides = [array<i64: 1>]} : () -> tensor<7xf32>
    %noise = dynamo.aten "aten.rand.default"() args [[4], f32, unit, #dynamo.device<"cpu">, unit]
      {operand_strides = [], result_strides = [array<i64: 1>]} : () -> tensor<4xf32>
    %h = dynamo.sin %x : tensor<4xf32>
    %y = dynamo.mul %h, %noise : tensor<4xf32>
    return %apart, %y : tensor<7xf32>, tensor<4xf32>
  }
}
