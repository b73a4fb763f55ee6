// RUN: dynamlir-opt %s --split-input-file --verify-diagnostics

// Violates each rule of the primitives' verifiers once.

// Pointwise: one type, on which the op is defined.
func.func @f(%x: tensor<4xi32>) {
  // expected-error @+1 {{operand #0 must be ranked tensor of 64-bit float or 32-bit float or bfloat16 type or 16-bit float values}}
  dynamo.exp %x : tensor<4xi32>
  return
}

// -----

func.func @f(%x: tensor<4xi1>) {
  // expected-error @+1 {{operand #0 must be ranked tensor of}}
  dynamo.neg %x : tensor<4xi1>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{operand #0 must be ranked tensor of}}
  dynamo.and %x, %x : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{operand #0 must be ranked tensor of}}
  dynamo.not %x : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xi32>) {
  // expected-error @+1 {{operand #0 must be ranked tensor of}}
  dynamo.pow %x, %x : tensor<4xi32>
  return
}

// -----

func.func @f(%x: tensor<*xf32>) {
  // expected-error @+1 {{expected builtin.tensor, but found 'tensor<*xf32>'}}
  dynamo.exp %x : tensor<*xf32>
  return
}

// -----

func.func @f(%x: tensor<4xi16>, %y: tensor<4xui16>) {
  // expected-error @+1 {{operand #0 must be ranked tensor of}}
  dynamo.neg %y : tensor<4xui16>
  return
}

// -----

// There is neither broadcasting nor promotion.
func.func @f(%x: tensor<4xf32>, %y: tensor<1xf32>) {
  // expected-error @+1 {{op all non-scalar operands/results must have the same shape and base type}}
  "dynamo.add"(%x, %y) : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @+1 {{op requires the same type for all operands and results}}
  "dynamo.add"(%x, %y) : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf64>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @+1 {{op requires the same type for all operands and results}}
  "dynamo.sqrt"(%x) : (tensor<4xf32>) -> tensor<4xf64>
  return
}

// -----

// compare, select, convert
func.func @f(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @+1 {{op requires all operands to have the same type}}
  "dynamo.compare"(%x, %y) <{predicate = #dynamo<predicate lt>}> : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xi1>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{op result #0 must be ranked tensor of 1-bit signless integer values}}
  dynamo.compare lt %x, %x : tensor<4xf32> -> tensor<4xi8>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{op all non-scalar operands/results must have the same shape and base type}}
  dynamo.compare lt %x, %x : tensor<4xf32> -> tensor<5xi1>
  return
}

// -----

func.func @f(%c: tensor<4xi8>, %x: tensor<4xf32>) {
  // expected-error @+1 {{operand #0 must be ranked tensor of 1-bit signless integer values}}
  dynamo.select %c, %x, %x : tensor<4xi8>, tensor<4xf32>
  return
}

// -----

func.func @f(%c: tensor<1xi1>, %x: tensor<4xf32>) {
  // expected-error @+1 {{op all non-scalar operands/results must have the same shape and base type}}
  dynamo.select %c, %x, %x : tensor<1xi1>, tensor<4xf32>
  return
}

// -----

func.func @f(%c: tensor<4xi1>, %x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @+1 {{failed to verify that all of {on_true, on_false, result} have same type}}
  "dynamo.select"(%c, %x, %y) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf64>) -> tensor<4xf64>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{op all non-scalar operands/results must have the same shape and base type}}
  dynamo.convert %x : tensor<4xf32> -> tensor<2x2xf64>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{op result #0 must be ranked tensor of}}
  dynamo.convert %x : tensor<4xf32> -> tensor<4xindex>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected element types of equal width, got 32 and 64 bits}}
  dynamo.bitcast %x : tensor<4xf32> -> tensor<4xi64>
  return
}

// -----

// random: 64 bits of a block of 128, from integers.
func.func @f(%k: tensor<2xi64>) {
  // expected-error @+1 {{expected the first half (0) or the second (1), got 2}}
  dynamo.random %k, %k half 2 : tensor<2xi64>
  return
}

// -----

func.func @f(%k: tensor<2xi32>) {
  // expected-error @+1 {{operand #0 must be ranked tensor of 64-bit signless integer values, but got 'tensor<2xi32>'}}
  dynamo.random %k, %k half 0 : tensor<2xi32>
  return
}

// -----

// full, iota
func.func @f() {
  // expected-error @+1 {{expected a value of the result's element type 'f32', got 'f64'}}
  dynamo.full 1.0 : f64 -> tensor<2xf32>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{expected a value of the result's element type 'i1', got 'i64'}}
  dynamo.full 1 : i64 -> tensor<2xi1>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{dimension 2 is out of range for rank 2}}
  dynamo.iota 2 : tensor<2x3xi64>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{dimension 0 is out of range for rank 0}}
  dynamo.iota 0 : tensor<i64>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{op result #0 must be ranked tensor of 64-bit signless integer values}}
  dynamo.iota 0 : tensor<2xi32>
  return
}

// -----

// broadcast
func.func @f(%x: tensor<3xf32>) {
  // expected-error @+1 {{expected operand and result of one element type, got 'tensor<3xf32>' and 'tensor<2x3xf64>'}}
  dynamo.broadcast %x dims [1] : tensor<3xf32> -> tensor<2x3xf64>
  return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // expected-error @+1 {{expected one entry of 'dims' per dimension (1), got 2}}
  dynamo.broadcast %x dims [0, 1] : tensor<3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // expected-error @+1 {{dimension 2 is out of range for rank 2}}
  dynamo.broadcast %x dims [2] : tensor<3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // expected-error @+1 {{dimension -1 is out of range for rank 2}}
  dynamo.broadcast %x dims [-1] : tensor<3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<3x3xf32>) {
  // expected-error @+1 {{expected strictly increasing dims}}
  dynamo.broadcast %x dims [1, 0] : tensor<3x3xf32> -> tensor<3x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error @+1 {{operand dimension 0 of size 2 does not broadcast to size 3}}
  dynamo.broadcast %x dims [1] : tensor<2xf32> -> tensor<2x3xf32>
  return
}

// -----

// reshape
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{expected as many elements, got 6 and 5}}
  dynamo.reshape %x : tensor<2x3xf32> -> tensor<5xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{expected operand and result of one element type}}
  dynamo.reshape %x : tensor<2x3xf32> -> tensor<6xi32>
  return
}

// -----

// permute
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{expected one entry of 'dims' per dimension (2), got 1}}
  dynamo.permute %x dims [0] : tensor<2x3xf32> -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{dimension 1 is listed twice}}
  dynamo.permute %x dims [1, 1] : tensor<2x3xf32> -> tensor<3x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{dimension 2 is out of range for rank 2}}
  dynamo.permute %x dims [2, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{expected a result of shape [3, 2], got 'tensor<2x3xf32>'}}
  dynamo.permute %x dims [1, 0] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x?xf32>) {
  // expected-error @+1 {{expected a result of shape [?, 2], got 'tensor<3x2xf32>'}}
  dynamo.permute %x dims [1, 0] : tensor<2x?xf32> -> tensor<3x2xf32>
  return
}

// -----

// slice
func.func @f(%x: tensor<6xf32>) {
  // expected-error @+1 {{expected one entry of 'starts' per dimension (1), got 2}}
  dynamo.slice %x starts [0, 0] steps [1] : tensor<6xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<6xf32>) {
  // expected-error @+1 {{expected one entry of 'steps' per dimension (1), got 0}}
  dynamo.slice %x starts [0] steps [] : tensor<6xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<6xf32>) {
  // expected-error @+1 {{expected a result of rank 1, got 'tensor<3x1xf32>'}}
  dynamo.slice %x starts [0] steps [1] : tensor<6xf32> -> tensor<3x1xf32>
  return
}

// -----

func.func @f(%x: tensor<6xf32>) {
  // expected-error @+1 {{expected steps of at least 1, got 0}}
  dynamo.slice %x starts [0] steps [0] : tensor<6xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<6xf32>) {
  // expected-error @+1 {{expected starts that are not negative, got -1}}
  dynamo.slice %x starts [-1] steps [1] : tensor<6xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<6xf32>) {
  // expected-error @+1 {{slice leaves dimension 0 of size 6}}
  dynamo.slice %x starts [2] steps [2] : tensor<6xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<6xf32>) {
  // expected-error @+1 {{slice leaves dimension 0 of size 6}}
  dynamo.slice %x starts [1] steps [9223372036854775807] : tensor<6xf32> -> tensor<3xf32>
  return
}

// -----

// reverse
func.func @f(%x: tensor<6xf32>) {
  // expected-error @+1 {{dimension 1 is out of range for rank 1}}
  dynamo.reverse %x dims [1] : tensor<6xf32> -> tensor<6xf32>
  return
}

// -----

func.func @f(%x: tensor<6xf32>) {
  // expected-error @+1 {{dimension 0 is listed twice}}
  dynamo.reverse %x dims [0, 0] : tensor<6xf32> -> tensor<6xf32>
  return
}

// -----

func.func @f(%x: tensor<6xf32>) {
  // expected-error @+1 {{expected a result of shape [6], got 'tensor<5xf32>'}}
  dynamo.reverse %x dims [0] : tensor<6xf32> -> tensor<5xf32>
  return
}

// -----

// concatenate
func.func @f() {
  // expected-error @+1 {{expected at least one operand}}
  dynamo.concatenate dim 0 : () -> tensor<0xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{dimension 2 is out of range for rank 2}}
  dynamo.concatenate %x dim 2 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %y: tensor<2xf32>) {
  // expected-error @+1 {{expected operands of rank 2, got 'tensor<2xf32>'}}
  dynamo.concatenate %x, %y dim 0 : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) {
  // expected-error @+1 {{operands differ in dimension 1}}
  dynamo.concatenate %x, %y dim 0 : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{expected a result of shape [4, 3], got 'tensor<5x3xf32>'}}
  dynamo.concatenate %x, %x dim 0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<5x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2xf32>, %y: tensor<2xf64>) {
  // expected-error @+1 {{expected operand and result of one element type}}
  dynamo.concatenate %x, %y dim 0 : (tensor<2xf32>, tensor<2xf64>) -> tensor<4xf32>
  return
}

// -----

// pad
func.func @f(%x: tensor<3xf32>) {
  // expected-error @+1 {{expected one entry of 'low' per dimension (1), got 0}}
  dynamo.pad %x low [] high [1] value 0.0 : f32 : tensor<3xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // expected-error @+1 {{expected one entry of 'high' per dimension (1), got 2}}
  dynamo.pad %x low [0] high [1, 1] value 0.0 : f32 : tensor<3xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // expected-error @+1 {{expected a value of the element type 'f32'}}
  dynamo.pad %x low [0] high [1] value 0 : i64 : tensor<3xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // expected-error @+1 {{expected padding that is not negative}}
  dynamo.pad %x low [0] high [-1] value 0.0 : f32 : tensor<3xf32> -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // expected-error @+1 {{expected a result of shape [5], got 'tensor<4xf32>'}}
  dynamo.pad %x low [1] high [1] value 0.0 : f32 : tensor<3xf32> -> tensor<4xf32>
  return
}

// -----

// as_strided: the window must be inside the operand, also if the sum does not fit into 64 bits.
func.func @f(%x: tensor<3x3xf32>) {
  // expected-error @+1 {{expected one entry of 'strides' per dimension (1), got 2}}
  dynamo.as_strided %x strides [1, 1] offset 0 : tensor<3x3xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<3x3xf32>) {
  // expected-error @+1 {{expected an offset that is not negative}}
  dynamo.as_strided %x strides [1] offset -1 : tensor<3x3xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<3x3xf32>) {
  // expected-error @+1 {{expected strides that are not negative}}
  dynamo.as_strided %x strides [-1] offset 2 : tensor<3x3xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<3x3xf32>) {
  // expected-error @+1 {{window reaches element 9 of 9}}
  dynamo.as_strided %x strides [4] offset 1 : tensor<3x3xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<3x3xf32>) {
  // expected-error @+1 {{window reaches beyond any buffer}}
  dynamo.as_strided %x strides [4611686018427387904] offset 0 : tensor<3x3xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<3x3xf32>) {
  // expected-error @+1 {{expected operand and result of one element type}}
  dynamo.as_strided %x strides [1] offset 0 : tensor<3x3xf32> -> tensor<3xi32>
  return
}

// -----

// as_strided_scatter
func.func @f(%x: tensor<3x3xf32>, %v: tensor<3xf32>) {
  // expected-error @+1 {{expected the result to have the base's type}}
  dynamo.as_strided_scatter %x, %v strides [4] offset 0 : tensor<3x3xf32>, tensor<3xf32> -> tensor<9xf32>
  return
}

// -----

func.func @f(%x: tensor<3x3xf32>, %v: tensor<3xf32>) {
  // expected-error @+1 {{window reaches element 9 of 9}}
  dynamo.as_strided_scatter %x, %v strides [4] offset 1 : tensor<3x3xf32>, tensor<3xf32> -> tensor<3x3xf32>
  return
}

// -----

func.func @f(%x: tensor<3x3xf32>, %v: tensor<3xf64>) {
  // expected-error @+1 {{expected operand and result of one element type}}
  dynamo.as_strided_scatter %x, %v strides [4] offset 0 : tensor<3x3xf32>, tensor<3xf64> -> tensor<3x3xf32>
  return
}

// -----

// gather
func.func @f(%x: tensor<3x3xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{expected one entry of 'indices' per dimension (2), got 1}}
  dynamo.gather %x[%i] : tensor<3x3xf32>, tensor<2xi64> -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{expected indices of the result's shape, got 'tensor<2xi64>'}}
  dynamo.gather %x[%i] : tensor<3xf32>, tensor<2xi64> -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{expected operand and result of one element type}}
  dynamo.gather %x[%i] : tensor<3xf32>, tensor<2xi64> -> tensor<2xf64>
  return
}

// -----

func.func @f(%x: tensor<3xf32>, %i: tensor<2xi32>) {
  // expected-error @+1 {{operand #1 must be variadic of ranked tensor of 64-bit signless integer values}}
  dynamo.gather %x[%i] : tensor<3xf32>, tensor<2xi32> -> tensor<2xf32>
  return
}

// -----

// scatter
func.func @f(%x: tensor<4xf32>, %i: tensor<2xi64>, %s: tensor<2xf32>) {
  // expected-error @+1 {{expected the result to have the base's type}}
  dynamo.scatter %s into %x[%i] dims [-1] : tensor<4xf32>, tensor<2xi64>, tensor<2xf32> -> tensor<5xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %i: tensor<2xi64>, %s: tensor<2xf64>) {
  // expected-error @+1 {{expected operand and result of one element type}}
  dynamo.scatter %s into %x[%i] dims [-1] : tensor<4xf32>, tensor<2xi64>, tensor<2xf64> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4x4xf32>, %i: tensor<2xi64>, %s: tensor<2xf32>) {
  // expected-error @+1 {{expected one entry of 'dims' per dimension (2), got 1}}
  dynamo.scatter %s into %x[%i] dims [-1] : tensor<4x4xf32>, tensor<2xi64>, tensor<2xf32> -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %i: tensor<2xi64>, %s: tensor<2xf32>) {
  // expected-error @+1 {{expected as many indices as dims are -1, got 1}}
  dynamo.scatter %s into %x[%i] dims [0] : tensor<4xf32>, tensor<2xi64>, tensor<2xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %i: tensor<3xi64>, %s: tensor<2xf32>) {
  // expected-error @+1 {{expected indices of the source's shape, got 'tensor<3xi64>'}}
  dynamo.scatter %s into %x[%i] dims [-1] : tensor<4xf32>, tensor<3xi64>, tensor<2xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %s: tensor<2xf32>) {
  // expected-error @+1 {{dimension 1 is out of range for rank 1}}
  dynamo.scatter %s into %x[] dims [1] : tensor<4xf32>, tensor<2xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %s: tensor<5xf32>) {
  // expected-error @+1 {{dimension 0 of the source does not fit into 4 places}}
  dynamo.scatter %s into %x[] dims [0] : tensor<4xf32>, tensor<5xf32> -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xi1>, %s: tensor<4xi1>) {
  // expected-error @+1 {{'sum' has no meaning for 'i1' in memory}}
  dynamo.scatter %s into %x[] dims [0] by sum : tensor<4xi1>, tensor<4xi1> -> tensor<4xi1>
  return
}

// -----

func.func @f(%x: tensor<4xui8>, %s: tensor<4xui8>) {
  // expected-error @+1 {{'max' has no meaning for 'ui8' in memory}}
  dynamo.scatter %s into %x[] dims [0] by max : tensor<4xui8>, tensor<4xui8> -> tensor<4xui8>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %s: tensor<4xf32>) {
  // expected-error @+1 {{'xor' needs integers or bool}}
  dynamo.scatter %s into %x[] dims [0] by xor : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

// reduce
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{dimension 2 is out of range for rank 2}}
  dynamo.reduce sum %x dims [2] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{dimension 1 is listed twice}}
  dynamo.reduce sum %x dims [1, 1] : tensor<2x3xf32> -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{expected a result of shape [2], got 'tensor<2x1xf32>'}}
  dynamo.reduce sum %x dims [1] : tensor<2x3xf32> -> tensor<2x1xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{expected operand and result of one element type}}
  dynamo.reduce sum %x dims [1] : tensor<2x3xf32> -> tensor<2xf64>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'xor' needs integers or bool, got 'tensor<2x3xf32>'}}
  dynamo.reduce xor %x dims [1] : tensor<2x3xf32> -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x0xf32>) {
  // expected-error @+1 {{'max' over nothing has no value}}
  dynamo.reduce max %x dims [1] : tensor<2x0xf32> -> tensor<2xf32>
  return
}

// -----

// arg_reduce
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{expected 'max' or 'min'}}
  dynamo.arg_reduce sum %x dim 1 : tensor<2x3xf32> -> tensor<2xi64>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{dimension 2 is out of range for rank 2}}
  dynamo.arg_reduce max %x dim 2 : tensor<2x3xf32> -> tensor<2xi64>
  return
}

// -----

func.func @f(%x: tensor<2x0xf32>) {
  // expected-error @+1 {{there is no index into nothing}}
  dynamo.arg_reduce max %x dim 1 : tensor<2x0xf32> -> tensor<2xi64>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{expected a result of shape [2], got 'tensor<3xi64>'}}
  dynamo.arg_reduce max %x dim 1 : tensor<2x3xf32> -> tensor<3xi64>
  return
}

// -----

// scan
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{dimension 2 is out of range for rank 2}}
  dynamo.scan sum %x dim 2 : tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'and' needs integers or bool, got 'tensor<2x3xf32>'}}
  dynamo.scan and %x dim 1 : tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{op requires the same type for all operands and results}}
  "dynamo.scan"(%x) <{dim = 1 : i64, kind = #dynamo<reduce_kind sum>}> : (tensor<2x3xf32>) -> tensor<2x3xf64>
  return
}

// -----

// Products: k has one size, batch dimensions are equal, and the result has the rows and columns.
func.func @f(%x: tensor<2x8xf32>, %w: tensor<7x3xf32>) {
  // expected-error @+1 {{expected equal batch dimensions and equal sizes of k, got 'tensor<2x8xf32>' and 'tensor<7x3xf32>'}}
  dynamo.matmul %x, %w batch 0 : tensor<2x8xf32>, tensor<7x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %w: tensor<3x8x3xf32>) {
  // expected-error @+1 {{expected equal batch dimensions and equal sizes of k}}
  dynamo.matmul %x, %w batch 1 : tensor<2x8xf32>, tensor<3x8x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %w: tensor<2xf32>) {
  // expected-error @+1 {{expected 1 batch dimensions and k in both operands}}
  dynamo.matmul %x, %w batch 1 : tensor<2x8xf32>, tensor<2xf32> -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %w: tensor<8x3xf32>) {
  // expected-error @+1 {{expected a result of shape [2, 3], got 'tensor<3x2xf32>'}}
  dynamo.matmul %x, %w batch 0 : tensor<2x8xf32>, tensor<8x3xf32> -> tensor<3x2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %w: tensor<8x3xf64>) {
  // expected-error @+1 {{expected operand and result of one element type}}
  dynamo.matmul %x, %w batch 0 : tensor<2x8xf32>, tensor<8x3xf64> -> tensor<2x3xf32>
  return
}

// -----

// Convolutions: two spatial dimensions, channels in groups, windows that fit.
func.func @f(%x: tensor<1x3x9xf32>, %w: tensor<8x3x3x3xf32>) {
  // expected-error @+1 {{expected images and windows of two dimensions, with channels}}
  dynamo.convolution %x, %w strides [1, 1] padding [0, 0] dilation [1, 1] groups 1 : tensor<1x3x9xf32>, tensor<8x3x3x3xf32> -> tensor<1x8x7x7xf32>
  return
}

// -----

func.func @f(%x: tensor<1x3x9x9xf32>, %w: tensor<8x3x3x3xf32>) {
  // expected-error @+1 {{expected 3 groups of channels}}
  dynamo.convolution %x, %w strides [1, 1] padding [0, 0] dilation [1, 1] groups 3 : tensor<1x3x9x9xf32>, tensor<8x3x3x3xf32> -> tensor<1x8x7x7xf32>
  return
}

// -----

func.func @f(%x: tensor<1x3x9x9xf32>, %w: tensor<8x3x3x3xf32>) {
  // expected-error @+1 {{expected two sizes, strides, paddings and dilations of windows}}
  dynamo.convolution %x, %w strides [1] padding [0, 0] dilation [1, 1] groups 1 : tensor<1x3x9x9xf32>, tensor<8x3x3x3xf32> -> tensor<1x8x7x7xf32>
  return
}

// -----

func.func @f(%x: tensor<1x3x9x9xf32>, %w: tensor<8x3x3x3xf32>) {
  // expected-error @+1 {{expected windows, strides and dilations of at least 1, padding of at least 0 and images of known size, got windows of 3, 3 in}}
  dynamo.convolution %x, %w strides [0, 1] padding [0, 0] dilation [1, 1] groups 1 : tensor<1x3x9x9xf32>, tensor<8x3x3x3xf32> -> tensor<1x8x7x7xf32>
  return
}

// -----

func.func @f(%x: tensor<1x3x2x9xf32>, %w: tensor<8x3x3x3xf32>) {
  // expected-error @+1 {{expected windows that fit into the padded image}}
  dynamo.convolution %x, %w strides [1, 1] padding [0, 0] dilation [1, 1] groups 1 : tensor<1x3x2x9xf32>, tensor<8x3x3x3xf32> -> tensor<1x8x0x7xf32>
  return
}

// -----

func.func @f(%x: tensor<1x3x9x9xf32>, %w: tensor<8x3x3x3xf32>) {
  // expected-error @+1 {{expected a result of shape [1, 8, 5, 5], got 'tensor<1x8x4x5xf32>'}}
  dynamo.convolution %x, %w strides [2, 2] padding [1, 1] dilation [1, 1] groups 1 : tensor<1x3x9x9xf32>, tensor<8x3x3x3xf32> -> tensor<1x8x4x5xf32>
  return
}

// -----

// Attention: the same number of heads, keys as long as queries, a mask element for each score.
func.func @f(%q: tensor<5x8xf32>, %k: tensor<7x8xf32>) {
  // expected-error @+1 {{expected queries, keys and values by batch, head and line}}
  dynamo.attention %q, %k, %k scale 1.0 : tensor<5x8xf32>, tensor<7x8xf32>, tensor<7x8xf32> -> tensor<5x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x5x8xf32>, %k: tensor<2x1x7x8xf32>) {
  // expected-error @+1 {{expected as many heads of each, keys as long as queries and as many as values}}
  dynamo.attention %q, %k, %k scale 1.0 : tensor<2x3x5x8xf32>, tensor<2x1x7x8xf32>, tensor<2x1x7x8xf32> -> tensor<2x3x5x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x7x8xf32>, %m: tensor<5x7xf32>) {
  // expected-error @+1 {{[2, 3, 5, 7], got 'tensor<5x7xf32>'}}
  dynamo.attention %q, %k, %k mask %m scale 1.0 : tensor<2x3x5x8xf32>, tensor<2x3x7x8xf32>, tensor<2x3x7x8xf32>, tensor<5x7xf32> -> tensor<2x3x5x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x7x8xf32>) {
  // expected-error @+1 {{expected a result of shape [2, 3, 5, 8], got 'tensor<2x3x5x7xf32>'}}
  dynamo.attention %q, %k, %k scale 1.0 : tensor<2x3x5x8xf32>, tensor<2x3x7x8xf32>, tensor<2x3x7x8xf32> -> tensor<2x3x5x7xf32>
  return
}

// -----

// Pooling: the same windows.
func.func @f(%x: tensor<3x9x9xf32>) {
  // expected-error @+1 {{expected images of two dimensions, with channels, got 'tensor<3x9x9xf32>'}}
  dynamo.max_pool %x window [3, 3] strides [1, 1] padding [0, 0] dilation [1, 1] : tensor<3x9x9xf32> -> tensor<3x7x7xf32>
  return
}

// -----

func.func @f(%x: tensor<1x3x9x9xf32>) {
  // expected-error @+1 {{expected two sizes, strides, paddings and dilations of windows}}
  dynamo.max_pool %x window [3] strides [1, 1] padding [0, 0] dilation [1, 1] : tensor<1x3x9x9xf32> -> tensor<1x3x7x7xf32>
  return
}

// -----

func.func @f(%x: tensor<1x3x9x9xf32>) {
  // expected-error @+1 {{expected windows, strides and dilations of at least 1, padding of at least 0 and images of known size, got windows of 0, 3 in}}
  dynamo.max_pool %x window [0, 3] strides [1, 1] padding [0, 0] dilation [1, 1] : tensor<1x3x9x9xf32> -> tensor<1x3x9x7xf32>
  return
}

// -----

func.func @f(%x: tensor<1x3x9x9xf32>) {
  // expected-error @+1 {{expected a result of shape [1, 3, 5, 5], got 'tensor<1x3x4x5xf32>'}}
  dynamo.max_pool %x window [3, 3] strides [2, 2] padding [1, 1] dilation [1, 1] : tensor<1x3x9x9xf32> -> tensor<1x3x4x5xf32>
  return
}
