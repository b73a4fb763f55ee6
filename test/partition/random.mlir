// RUN: dynamlir-opt %s --dynamo-partition | FileCheck %s

// For random numbers, the key is saved. A call draws it, which is never repeated; the mask is recomputed.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: dynamo.random, dynamo.recomputed = 6 : i64, dynamo.saved = 1 : i64
// CHECK: %[[KEYS:.*]] = dynamo.aten "aten.randint.low"
// CHECK: dynamo.random
// CHECK: return %{{.*}}, %[[KEYS]]
// CHECK-LABEL: func.func @main_vjp(
// CHECK-SAME: %[[KEYS:.*]]: tensor<1xi64> {{.*}}, %[[DY:.*]]: tensor<64x32xf32>
// CHECK-NOT: dynamo.random}
// CHECK-NOT: dynamo.aten
// CHECK: %[[KEY:.*]] = dynamo.reshape %[[KEYS]]
// CHECK: %[[SPREAD:.*]] = dynamo.broadcast %[[KEY]]
// CHECK: %[[BITS:.*]] = dynamo.random %[[SPREAD]], %{{.*}} half 0
// CHECK: %[[WORD:.*]] = dynamo.and %[[BITS]]
// CHECK: %[[MASK:.*]] = dynamo.compare lt %[[WORD]]
// CHECK: dynamo.convert %[[MASK]]
// CHECK: dynamo.mul %[[DY]]
func.func @main(%x: tensor<64x32xf32> {dynamo.requires_grad}, %dy: tensor<64x32xf32> {dynamo.tangent = 0 : i64})
    -> (tensor<64x32xf32>, tensor<64x32xf32> {dynamo.gradient = 0 : i64})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.differentiable = array<i64: 0>, dynamo.random} {
  %keys = dynamo.aten "aten.randint.low"() args [-9223372036854775808, 9223372036854775807, [1], i64, unit, #dynamo.device<"cpu">, unit]
    {operand_strides = [], result_strides = [array<i64: 1>]} : () -> tensor<1xi64>
  %key = dynamo.reshape %keys : tensor<1xi64> -> tensor<i64>
  %spread = dynamo.broadcast %key dims [] : tensor<i64> -> tensor<64x32xi64>
  %row = dynamo.iota 0 : tensor<64x32xi64>
  %width = dynamo.full 32 : i64 -> tensor<64x32xi64>
  %start = dynamo.mul %row, %width : tensor<64x32xi64>
  %column = dynamo.iota 1 : tensor<64x32xi64>
  %index = dynamo.add %start, %column : tensor<64x32xi64>
  %bits = dynamo.random %spread, %index half 0 : tensor<64x32xi64>
  %all = dynamo.full 4294967295 : i64 -> tensor<64x32xi64>
  %word = dynamo.and %bits, %all : tensor<64x32xi64>
  %p = dynamo.full 2147483648 : i64 -> tensor<64x32xi64>
  %mask = dynamo.compare lt %word, %p : tensor<64x32xi64> -> tensor<64x32xi1>
  %noise = dynamo.convert %mask : tensor<64x32xi1> -> tensor<64x32xf32>
  %y = dynamo.mul %x, %noise : tensor<64x32xf32>
  %dx = dynamo.mul %dy, %noise : tensor<64x32xf32>
  return %y, %dx : tensor<64x32xf32>, tensor<64x32xf32>
}
