// RUN: dynamlir-opt %s --split-input-file --verify-diagnostics

// Invalid forms of the ATen op, the tensor type and the attributes.

// The schema names operator and overload.
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected a schema 'namespace.op.overload', got 'aten.sin'}}
  dynamo.aten "aten.sin"(%x) args [#dynamo.operand<0>] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected a schema 'namespace.op.overload', got 'aten::sin.default'}}
  dynamo.aten "aten::sin.default"(%x) args [#dynamo.operand<0>] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected a schema 'namespace.op.overload', got 'aten.sin.'}}
  dynamo.aten "aten.sin."(%x) args [#dynamo.operand<0>] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected a schema 'namespace.op.overload', got 'aten.sin.out.more'}}
  dynamo.aten "aten.sin.out.more"(%x) args [#dynamo.operand<0>] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// args must name operands that exist, and every operand, in lists too.
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{args name operand 1 of 1}}
  dynamo.aten "aten.add.Tensor"(%x) args [#dynamo.operand<0>, #dynamo.operand<1>] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{args name operand 2 of 1}}
  dynamo.aten "aten.cat.default"(%x) args [[#dynamo.operand<0>, #dynamo.operand<2>], 0] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{args name operand -1 of 1}}
  dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<-1>] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{operand 0 is named by no argument}}
  dynamo.aten "aten.sin.default"(%x) args [] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// One entry per result, or per operand.
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected 1 entries in 'aliases', got 2}}
  dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: -1, -1>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected 1 entries in 'operand_strides', got 0}}
  dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] {operand_strides = []} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected 1 entries in 'result_strides', got 2}}
  dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] {result_strides = [array<i64: 1>, array<i64: 1>]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'mutates' names operand 1 of 1}}
  dynamo.aten "aten.sin_.default"(%x) args [#dynamo.operand<0>] {mutates = array<i64: 1>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aliases' names operand 1 of 1}}
  dynamo.aten "aten.sin_.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 1>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aliases' names operand -2 of 1}}
  dynamo.aten "aten.sin_.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: -2>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// Operands are tensors with a rank.
func.func @f(%x: tensor<*xf32>) {
  // expected-error @+1 {{operand #0 must be variadic of}}
  dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] : (tensor<*xf32>) -> tensor<4xf32>
  return
}

// -----

// The type: one stride per size, nothing negative, one of torch's element types.
// expected-error @+1 {{expected one stride per dimension: 2 sizes, 1 strides}}
func.func private @f(!dynamo.tensor<2x3xf32, [1]>)

// -----

// expected-error @+1 {{expected strides that are not negative, got -3}}
func.func private @f(!dynamo.tensor<2x3xf32, [-3, 1]>)

// -----

// expected-error @+1 {{expected a storage offset that is not negative, got -1}}
func.func private @f(!dynamo.tensor<2xf32, [1], -1>)

// -----

// expected-error @+1 {{expected a torch element type, got 'index'}}
func.func private @f(!dynamo.tensor<2xindex, [1]>)

// -----

// Outputs.
// expected-error @+1 {{expected an output kind, got 'thing'}}
func.func private @f() attributes {test = #dynamo.output<thing 0>}

// -----

// expected-error @+1 {{expected a number that is not negative, got -1}}
func.func private @f() attributes {test = #dynamo.output<result -1>}

// -----

// expected-error @+1 {{expected one stride per dimension: 2 sizes, 1 strides}}
func.func private @f() attributes {test = #dynamo.output<arg_view 0, [2, 3], [1], 0>}

// -----

// expected-error @+1 {{expected sizes, strides and offset that are not negative}}
func.func private @f() attributes {test = #dynamo.output<arg_view 0, [2], [-1], 0>}

// -----

// expected-error @+1 {{expected sizes, strides and offset that are not negative}}
func.func private @f() attributes {test = #dynamo.output<result_view 0, [2], [1], -4>}

// -----

// Strides: one number per dimension, not negative.
func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{'operand_strides' has array<i64: 4> for 'tensor<4x4xf32>'}}
  %0 = dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] {operand_strides = [array<i64: 4>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'result_strides' has array<i64: -1> for 'tensor<4xf32>'}}
  %0 = dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] {result_strides = [array<i64: -1>]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'operand_strides' has 1 : i64 for 'tensor<4xf32>'}}
  %0 = dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] {operand_strides = [1]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// The code of a call yields what the call returns.
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{its code must end in dynamo.yield of the results' types}}
  %r = dynamo.aten "aten.relu.default"(%x) args [#dynamo.operand<0>] code {
    %p = dynamo.convert %x : tensor<4xf32> -> tensor<4xf64>
    dynamo.yield %p : tensor<4xf64>
  } : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{its code uses values from around: expected no block arguments}}
  %r = dynamo.aten "aten.relu.default"(%x) args [#dynamo.operand<0>] code {
  ^bb0(%y: tensor<4xf32>):
    dynamo.yield %y : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{expected the code of one body, got 2}}
  %r = dynamo.aten "aten.relu.default"(%x) args [#dynamo.operand<0>] code {
    dynamo.yield %x : tensor<4xf32>
  }, {
    dynamo.yield %x : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// expected-error @+1 {{expected a kind of base, got 'thing'}}
func.func private @f() attributes {test = #dynamo.base<thing 0>}

// -----

// expected-error @+1 {{expected a number that is not negative, got -1}}
func.func private @f() attributes {test = #dynamo.base<arg -1>}

// -----

// A detached value has the same type.
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  "dynamo.detach"(%x) : (tensor<4xf32>) -> tensor<2xf32>
  return
}

// -----

// A write does not change a tensor's type.
func.func @f(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  "dynamo.history"(%x, %y) : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  "dynamo.overwrite"(%x, %y) : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: !dynamo.tensor<4xf32, [1]>) {
  // expected-error @+1 {{operand #0 must be ranked tensor}}
  "dynamo.detach"(%x) : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  return
}
