// RUN: dynamlir-opt %s --split-input-file --verify-diagnostics --dynamo-autodiff

// Nothing would be worse than a wrong gradient: unknown derivatives are refused, and the graph runs in plain eager.

func.func @unknown(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  // expected-error @+1 {{no derivative of mine.swirl.default is known}}
  %0 = dynamo.aten "mine.swirl.default"(%x) args [#dynamo.operand<0>]
    {grad_enabled, operand_strides = [array<i64: 1>], result_strides = [array<i64: 1>]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// The operator is known, but not in this form: sparse gradients are left to eager.
func.func @declined(%w: tensor<4x2xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 2, 1>},
                    %i: tensor<3xi64> {dynamo.offset = 0 : i64, dynamo.strides = array<i64: 1>})
    -> (tensor<3x2xf32> {dynamo.strides = array<i64: 2, 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  // expected-error @+1 {{no derivative of aten.embedding.default is known}}
  %0 = dynamo.aten "aten.embedding.default"(%w, %i) args [#dynamo.operand<0>, #dynamo.operand<1>, -1, false, true]
    {grad_enabled, operand_strides = [array<i64: 2, 1>, array<i64: 1>], result_strides = [array<i64: 2, 1>]}
    : (tensor<4x2xf32>, tensor<3xi64>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// -----

// A primitive without a rule.
func.func @primitive(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  // expected-error @+1 {{no derivative of dynamo.scan is known}}
  %0 = dynamo.scan prod %x dim 0 : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @leaf_written(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>}, tensor<4xf32> {dynamo.mutates = 0 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  // expected-error @+1 {{argument 0 is written, and wants a gradient}}
  %0 = dynamo.exp %x : tensor<4xf32>
  return %0, %0 : tensor<4xf32>, tensor<4xf32>
}

// -----

// The buffer would have a history afterwards.
func.func @buffer_written(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>},
                          %b: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>}, tensor<4xf32> {dynamo.mutates = 1 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  // expected-error @+1 {{argument 1 is written with a value that has a gradient}}
  %0 = dynamo.exp %x : tensor<4xf32>
  return %0, %0 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Eager reports a gradient where the pass finds none: one of them is wrong.
func.func @lost(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  // expected-error @+1 {{output 0 requires a gradient in eager, and nothing that it is made of does}}
  %0 = dynamo.detach %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func private @wrong(%x: tensor<4xf32>, %y: tensor<4xf32>, %t: tensor<4xf32> {dynamo.tangent = 0 : i64})
    -> (tensor<4xf64> {dynamo.gradient = 0 : i64}) {
  %0 = dynamo.convert %t : tensor<4xf32> -> tensor<4xf64>
  return %0 : tensor<4xf64>
}
func.func @vjp_of_another_type(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  // expected-error @+1 {{@wrong is not the derivative of mine.swirl.default: result 0 is tensor<4xf64>, the operand tensor<4xf32>}}
  %0 = dynamo.aten "mine.swirl.default"(%x) args [#dynamo.operand<0>]
    {grad_enabled, vjp = @wrong, operand_strides = [array<i64: 1>], result_strides = [array<i64: 1>]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @vjp_of_nothing(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>} {
  // expected-error @+1 {{@nobody is not the derivative of mine.swirl.default: there is no such function}}
  %0 = dynamo.aten "mine.swirl.default"(%x) args [#dynamo.operand<0>]
    {grad_enabled, vjp = @nobody, operand_strides = [array<i64: 1>], result_strides = [array<i64: 1>]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// With dynamic sizes the degrees of freedom vary: a single row has none, and its variance has no gradient.
func.func @freedom(%x: tensor<?xf32, #dynamo.sizes<s0>> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<f32> {dynamo.strides = array<i64>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>,
                dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0, min = 1>]} {
  // expected-error @+1 {{no derivative of aten.var.correction is known}}
  %0 = dynamo.aten "aten.var.correction"(%x) args [#dynamo.operand<0>, [0], unit, false]
    {grad_enabled, operand_strides = [array<i64: 1>], result_strides = [array<i64>]} : (tensor<?xf32, #dynamo.sizes<s0>>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// Regardless of s0, the first stride is 2^62 * 8 * s0: the positions of such a value's elements cannot be computed.
// expected-error @+1 {{64 bits do not hold the strides of tensor<2x?x8xf32}}
func.func @huge(%x: tensor<2x?x8xf32, #dynamo.sizes<2, s0*4611686018427387904, 8>>,
                %y: tensor<?xf32, #dynamo.sizes<s0>> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<?xf32, #dynamo.sizes<s0>> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>,
                dynamo.symbols = [#dynamo.symbol<s0, argument = 1, dim = 0>]} {
  %0 = dynamo.exp %y : tensor<?xf32, #dynamo.sizes<s0>>
  return %0 : tensor<?xf32, #dynamo.sizes<s0>>
}

// -----

func.func @huge_within(%y: tensor<?xf32, #dynamo.sizes<s0>> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<?xf32, #dynamo.sizes<s0>> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>,
                dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  // expected-error @+1 {{64 bits do not hold the strides of tensor<2x?x8xf32}}
  %0 = dynamo.full 0.0 : f32 -> tensor<2x?x8xf32, #dynamo.sizes<2, s0*4611686018427387904, 8>>
  %1 = dynamo.exp %y : tensor<?xf32, #dynamo.sizes<s0>>
  return %1 : tensor<?xf32, #dynamo.sizes<s0>>
}

// -----

// Eager's formula omits gradients that are not present. Zeros could replace them only if the formula did not divide.

func.func private @values_vjp(%x: tensor<4xf32>, %a: tensor<4xf32>, %b: tensor<4xf32>,
                              %ta: tensor<4xf32> {dynamo.tangent = 0 : i64}, %tb: tensor<4xf32> {dynamo.tangent = 1 : i64})
    -> (tensor<4xf32> {dynamo.gradient = 0 : i64}) {
  %0 = dynamo.aten "aten.div.Tensor"(%tb, %a) args [#dynamo.operand<0>, #dynamo.operand<1>]
    {operand_strides = [array<i64: 1>, array<i64: 1>], result_strides = [array<i64: 1>]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = dynamo.add %ta, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32> {dynamo.offset = 0 : i64, dynamo.requires_grad, dynamo.strides = array<i64: 1>})
    -> (tensor<4xf32> {dynamo.strides = array<i64: 1>}, tensor<4xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>], dynamo.differentiable = array<i64: 0, 1>} {
  // expected-error @+1 {{some results of aten.values.default may have a gradient where others have none}}
  %0:2 = dynamo.aten "aten.values.default"(%x) args [#dynamo.operand<0>]
    {grad_enabled, vjp = @values_vjp, operand_strides = [array<i64: 1>], result_strides = [array<i64: 1>, array<i64: 1>]}
    : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}
