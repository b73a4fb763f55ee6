// RUN: dynamlir-opt %s --split-input-file --verify-diagnostics --dynamo-partition

// A saved value has strides. For every s0, those of %z do not fit into 64 bits.
func.func @huge(%x: tensor<?xf32, #dynamo.sizes<s0>> {dynamo.requires_grad, dynamo.strides = array<i64: 1>, dynamo.offset = 0 : i64},
                %dy: tensor<?xf32, #dynamo.sizes<s0>> {dynamo.tangent = 0 : i64})
    -> (tensor<?xf32, #dynamo.sizes<s0>> {dynamo.strides = array<i64: 1>}, tensor<?xf32, #dynamo.sizes<s0>> {dynamo.gradient = 0 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>,
                dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  // expected-error @+1 {{64 bits do not hold the strides of tensor<2x?x8xf32}}
  %z = dynamo.full 0.0 : f32 -> tensor<2x?x8xf32, #dynamo.sizes<2, s0*4611686018427387904, 8>>
  %y = dynamo.exp %x : tensor<?xf32, #dynamo.sizes<s0>>
  %dx = dynamo.mul %dy, %y : tensor<?xf32, #dynamo.sizes<s0>>
  return %y, %dx : tensor<?xf32, #dynamo.sizes<s0>>, tensor<?xf32, #dynamo.sizes<s0>>
}
