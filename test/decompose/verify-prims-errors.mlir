// RUN: dynamlir-opt %s --split-input-file --verify-diagnostics --dynamo-verify-prims

// Violates each clause of stage 02's contract once.

// expected-error @+1 {{not primitive: a value is a !dynamo.tensor}}
func.func @mutable(%x: !dynamo.tensor<3xf32, [1]>) {
  return
}

// -----

func.func @decomposition(%x: tensor<3xf32>) {
  // expected-error @+1 {{not primitive: an extern op has 'decomposition'}}
  dynamo.aten "aten.a.default"(%x) args [#dynamo.operand<0>] {decomposition = @f} : (tensor<3xf32>) -> ()
  return
}
func.func private @f(%x: tensor<3xf32>) {
  return
}

// -----

func.func @later_stage() {
  // expected-error @+1 {{not primitive: 'dynamo.commit' is not a primitive}}
  dynamo.commit
  return
}

// -----

func.func @other_dialect() -> f32 {
  // expected-error @+1 {{not primitive: 'arith.constant' is not a primitive}}
  %0 = arith.constant 1.0 : f32
  return %0 : f32
}

// -----

func.func @half(%x: tensor<3xf16>) -> tensor<3xf16> {
  // expected-error @+1 {{not primitive: arithmetic on 16-bit floats}}
  %0 = dynamo.add %x, %x : tensor<3xf16>
  return %0 : tensor<3xf16>
}

// -----

func.func @divisor(%x: tensor<3xi64>, %y: tensor<3xi64>) -> tensor<3xi64> {
  // expected-error @+1 {{not primitive: an integer divisor that is not a constant other than 0}}
  %0 = dynamo.div %x, %y : tensor<3xi64>
  return %0 : tensor<3xi64>
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{not primitive: 'dynamo.detach' is not a primitive}}
  dynamo.detach %x : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{not primitive: 'dynamo.history' is not a primitive}}
  dynamo.history %x of %x : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{not primitive: 'dynamo.overwrite' is not a primitive}}
  dynamo.overwrite %x of %x : tensor<4xf32>
  return
}
