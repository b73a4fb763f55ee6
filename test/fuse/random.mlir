// RUN: dynamlir-opt %s --dynamo-decompose --dynamo-fuse | FileCheck %s

// Random numbers are drawn in the kernel that uses them. Keys are read from memory, so that layers that differ only in their keys share
// one kernel.

// CHECK-LABEL: func.func @main
// CHECK: %[[KEYS:.*]] = dynamo.aten "aten.randint.low"
// CHECK-COUNT-2: dynamo.launch @kernels::@[[KERNEL:.*]](%
// CHECK-NOT: dynamo.launch
// CHECK: func.func @[[KERNEL]](
// CHECK-COUNT-1: dynamo.random
// CHECK-NOT: dynamo.random
// CHECK-NOT: func.func
func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], dynamo.random} {
  %0 = dynamo.aten "aten.relu.default"(%x) args [#dynamo.operand<0>] : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %1 = dynamo.aten "aten.dropout.default"(%0) args [#dynamo.operand<0>, 0.5 : f64, true] : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %2:2 = dynamo.aten "aten.sort.default"(%1) args [#dynamo.operand<0>, 1, false] {operand_strides = [array<i64: 32, 1>], result_strides = [array<i64: 32, 1>, array<i64: 32, 1>]} : (tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<64x32xi64>)
  %3 = dynamo.aten "aten.relu.default"(%2#0) args [#dynamo.operand<0>] : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %4 = dynamo.aten "aten.dropout.default"(%3) args [#dynamo.operand<0>, 0.5 : f64, true] : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %4 : tensor<64x32xf32>
}
