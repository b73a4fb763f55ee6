// RUN: dynamlir-opt %s --split-input-file --dynamo-decompose --dynamo-verify-prims | FileCheck %s

// Random numbers are functions of keys. One call of torch's generator draws the keys for all operators of the function. Each operator
// numbers its elements in row-major order.

// CHECK-LABEL: func.func @two_operators
// CHECK: %[[KEYS:.*]] = dynamo.aten "aten.randint.low"() args [-9223372036854775808, 9223372036854775807, [2], i64, unit, #dynamo.device<"cpu">, unit]
// CHECK-SAME: result_strides = [array<i64: 1>]} : () -> tensor<2xi64>
// CHECK: %[[PART:.*]] = dynamo.slice %[[KEYS]] starts [0] steps [1]
// CHECK: %[[FIRST:.*]] = dynamo.reshape %[[PART]] : tensor<1xi64> -> tensor<i64>
// CHECK: %[[PART:.*]] = dynamo.slice %[[KEYS]] starts [1] steps [1]
// CHECK: %[[SECOND:.*]] = dynamo.reshape %[[PART]] : tensor<1xi64> -> tensor<i64>
// CHECK-NOT: dynamo.aten
// CHECK: %[[KEY:.*]] = dynamo.broadcast %[[FIRST]] dims [] : tensor<i64> -> tensor<3x4xi64>
// CHECK: %[[ROW:.*]] = dynamo.iota 0
// CHECK: %[[FOUR:.*]] = dynamo.full 4
// CHECK: %[[START:.*]] = dynamo.mul %[[ROW]], %[[FOUR]]
// CHECK: %[[COLUMN:.*]] = dynamo.iota 1
// CHECK: %[[INDEX:.*]] = dynamo.add %[[START]], %[[COLUMN]]
// CHECK: %[[BITS:.*]] = dynamo.random %[[KEY]], %[[INDEX]] half 0 : tensor<3x4xi64>
// 24 of the bits, as a fraction.
// CHECK: %[[UPPER:.*]] = dynamo.shr %[[BITS]], %{{.*}}
// CHECK: %[[MASK:.*]] = dynamo.full 16777215
// CHECK: %[[WORD:.*]] = dynamo.and %[[UPPER]], %[[MASK]]
// CHECK: dynamo.full 5.96046448E-8 : f32
// CHECK: %[[KEY:.*]] = dynamo.broadcast %[[SECOND]]
// CHECK: dynamo.random %[[KEY]], %{{.*}} half 0
func.func @two_operators(%x: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
  %0 = dynamo.aten "aten.rand_like.default"(%x) args [#dynamo.operand<0>, unit, unit, unit, unit, unit] : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = dynamo.aten "aten.rand.default"() args [[3, 4], unit, unit, unit, unit] : () -> tensor<3x4xf32>
  return %0, %1 : tensor<3x4xf32>, tensor<3x4xf32>
}

// -----

// A probability is a threshold for 32 bits.

// CHECK-LABEL: func.func @dropout
// CHECK: %[[BITS:.*]] = dynamo.random
// CHECK: %[[WORD:.*]] = dynamo.and %[[BITS]], %{{.*}}
// CHECK: %[[KEPT:.*]] = dynamo.full 3221225472
// CHECK: %[[MASK:.*]] = dynamo.compare lt %[[WORD]], %[[KEPT]]
// CHECK: return %{{.*}}, %[[MASK]]
func.func @dropout(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>) {
  %0:2 = dynamo.aten "aten.native_dropout.default"(%x) args [#dynamo.operand<0>, 0.25 : f64, true] : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xi1>
}

// -----

// Probabilities in a tensor are checked, so that eager can raise. Such a check does not exist on a GPU, so there the call is kept with its
// code, and draws its key separately.

// CHECK-LABEL: func.func @probabilities
// CHECK: dynamo.check_range %{{.*}} in[0, 1) "aten.bernoulli.default: a probability is not between 0 and 1"
// CHECK: dynamo.random
func.func @probabilities(%p: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dynamo.aten "aten.bernoulli.default"(%p) args [#dynamo.operand<0>, unit] : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Doubles use all bits of one half; the angle of a normally distributed number uses the other half.

// CHECK-LABEL: func.func @doubles
// CHECK: dynamo.random %{{.*}} half 0
// CHECK: dynamo.bitcast %{{.*}} : tensor<4xi64> -> tensor<4xf64>
// CHECK: dynamo.random %{{.*}} half 1
// CHECK: dynamo.log
// CHECK: dynamo.cos
func.func @doubles() -> tensor<4xf64> {
  %0 = dynamo.aten "aten.randn.default"() args [[4], f64, unit, unit, unit] : () -> tensor<4xf64>
  return %0 : tensor<4xf64>
}

// -----

// Operators that draw nothing need no key: dropout in inference, empty tensors, and operators that are left to torch.

// CHECK-LABEL: func.func @nothing
// CHECK-NOT: aten.randint.low
// CHECK: dynamo.aten "aten.multinomial.default"
// CHECK-NOT: aten.randint.low
// CHECK: return
func.func @nothing(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<0xf32>, tensor<2xi64>) {
  %0 = dynamo.aten "aten.dropout.default"(%x) args [#dynamo.operand<0>, 0.5 : f64, false] : (tensor<4xf32>) -> tensor<4xf32>
  %1 = dynamo.aten "aten.rand.default"() args [[0], unit, unit, unit, unit] : () -> tensor<0xf32>
  %2 = dynamo.aten "aten.multinomial.default"(%x) args [#dynamo.operand<0>, 2, false, unit] {result_strides = [array<i64: 1>]} : (tensor<4xf32>) -> tensor<2xi64>
  return %0, %1, %2 : tensor<4xf32>, tensor<0xf32>, tensor<2xi64>
}

// -----

// Arguments that eager rejects, and ranges that do not fit 31 bits, are left to eager's operators.

// CHECK-LABEL: func.func @declined
// CHECK: dynamo.aten "aten.bernoulli.p"
// CHECK: dynamo.aten "aten.native_dropout.default"
// CHECK: dynamo.aten "aten.normal.float_float"
// CHECK: dynamo.aten "aten.randint.default"
// CHECK: dynamo.aten "aten.randint.low"() args [0, 4294967296, [4]
// CHECK: dynamo.aten "aten.rand.default"() args {{.*}} -> tensor<4xi64>
// CHECK-NOT: dynamo.random
func.func @declined(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi8>, tensor<4xi64>, tensor<4xi64>) {
  %0 = dynamo.aten "aten.bernoulli.p"(%x) args [#dynamo.operand<0>, 1.5 : f64, unit] : (tensor<4xf32>) -> tensor<4xf32>
  %1:2 = dynamo.aten "aten.native_dropout.default"(%x) args [#dynamo.operand<0>, -1.0 : f64, true] : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  %2 = dynamo.aten "aten.normal.float_float"() args [0.0 : f64, -1.0 : f64, [4], unit, unit, unit, unit, unit] : () -> tensor<4xf32>
  %3 = dynamo.aten "aten.randint.default"() args [1000, [4], i8, unit, unit, unit] : () -> tensor<4xi8>
  %4 = dynamo.aten "aten.randint.low"() args [0, 4294967296, [4], i64, unit, unit, unit] : () -> tensor<4xi64>
  %5 = dynamo.aten "aten.rand.default"() args [[4], i64, unit, unit, unit] : () -> tensor<4xi64>
  return %0, %1#0, %2, %3, %4, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi8>, tensor<4xi64>, tensor<4xi64>
}

// -----

// Eager's numbers are requested, so its operators draw them.

// CHECK: module attributes {dynamo.eager_random}
// CHECK-LABEL: func.func @eager
// CHECK: dynamo.aten "aten.rand_like.default"
// CHECK: dynamo.aten "aten.native_dropout.default"
// CHECK-NOT: dynamo.random
module attributes {dynamo.eager_random} {
  func.func @eager(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = dynamo.aten "aten.rand_like.default"(%x) args [#dynamo.operand<0>, unit, unit, unit, unit, unit] : (tensor<4xf32>) -> tensor<4xf32>
    %1:2 = dynamo.aten "aten.native_dropout.default"(%x) args [#dynamo.operand<0>, 0.25 : f64, true] : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
    return %0, %1#0 : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// Keys are in the CPU's memory, even if the tensors are on a device.

// CHECK-LABEL: func.func @device
// CHECK: dynamo.aten "aten.rand_like.default"
module attributes {dynamo.device = "cuda:0"} {
  func.func @device(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = dynamo.aten "aten.rand_like.default"(%x) args [#dynamo.operand<0>, unit, unit, unit, unit, unit] : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// With dynamic sizes, the index of an element is computed from them: the numbers are the same as for these sizes as constants.

// CHECK-LABEL: func.func @sizes
// CHECK: %[[ROW:.*]] = dynamo.iota 0 : tensor<?x?xi64, #dynamo.sizes<s0, s1>>
// CHECK: %[[STRIDE:.*]] = dynamo.full #dynamo.expr<s1> -> tensor<?x?xi64, #dynamo.sizes<s0, s1>>
// CHECK: %[[START:.*]] = dynamo.mul %[[ROW]], %[[STRIDE]]
// CHECK: %[[COLUMN:.*]] = dynamo.iota 1 : tensor<?x?xi64, #dynamo.sizes<s0, s1>>
// CHECK: %[[INDEX:.*]] = dynamo.add %[[START]], %[[COLUMN]]
// CHECK: dynamo.random %{{.*}}, %[[INDEX]] half 0
func.func @sizes(%x: tensor<?x?xf32, #dynamo.sizes<s0, s1>>) -> tensor<?x?xf32, #dynamo.sizes<s0, s1>> attributes {
    dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>, #dynamo.symbol<s1, argument = 0, dim = 1>]} {
  %0 = dynamo.aten "aten.rand_like.default"(%x) args [#dynamo.operand<0>, unit, unit, unit, unit, unit]
    : (tensor<?x?xf32, #dynamo.sizes<s0, s1>>) -> tensor<?x?xf32, #dynamo.sizes<s0, s1>>
  return %0 : tensor<?x?xf32, #dynamo.sizes<s0, s1>>
}
