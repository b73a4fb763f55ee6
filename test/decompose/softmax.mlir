// RUN: dynamlir-opt %s --dynamo-decompose | FileCheck %s

// Relative to the largest element, so that nothing overflows.

// CHECK-LABEL: func.func @softmax
// CHECK-SAME: (%[[X16:.*]]: tensor<2x8xf16>)
// CHECK: %[[X:.*]] = dynamo.convert %[[X16]] : tensor<2x8xf16> -> tensor<2x8xf32>
// CHECK: dynamo.reduce max %[[X]] dims [1]
// CHECK: %[[SHIFTED:.*]] = dynamo.sub %[[X]]
// CHECK: %[[EXP:.*]] = dynamo.exp %[[SHIFTED]]
// CHECK: dynamo.reduce sum %[[EXP]] dims [1]
// CHECK: %[[SUM:.*]] = dynamo.broadcast
// CHECK: %[[OUT:.*]] = dynamo.div %[[EXP]], %[[SUM]]
// CHECK: dynamo.convert %[[OUT]] : tensor<2x8xf32> -> tensor<2x8xf16>
func.func @softmax(%x: tensor<2x8xf16>) -> tensor<2x8xf16> {
  %0 = dynamo.aten "aten._softmax.default"(%x) args [#dynamo.operand<0>, -1 : i64, false] : (tensor<2x8xf16>) -> tensor<2x8xf16>
  return %0 : tensor<2x8xf16>
}

// CHECK-LABEL: func.func @log_softmax
// CHECK: %[[SHIFTED:.*]] = dynamo.sub
// CHECK: %[[EXP:.*]] = dynamo.exp %[[SHIFTED]]
// CHECK: dynamo.reduce sum %[[EXP]] dims [0]
// CHECK: %[[LOG:.*]] = dynamo.log
// CHECK: %[[LOGS:.*]] = dynamo.broadcast %[[LOG]]
// CHECK: dynamo.sub %[[SHIFTED]], %[[LOGS]]
func.func @log_softmax(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = dynamo.aten "aten._log_softmax.default"(%x) args [#dynamo.operand<0>, 0 : i64, false] : (tensor<2x8xf32>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// A completely masked row has -inf as its largest element, and gives zeros.

// CHECK-LABEL: func.func @safe_softmax
// CHECK: %[[MAX:.*]] = dynamo.reduce max
// CHECK: %[[MASKED:.*]] = dynamo.compare eq
// CHECK: %[[ROWS:.*]] = dynamo.broadcast %[[MASKED]]
// CHECK: dynamo.select %[[ROWS]]
func.func @safe_softmax(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = dynamo.aten "aten._safe_softmax.default"(%x) args [#dynamo.operand<0>, 1 : i64, unit] : (tensor<2x8xf32>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// An empty row does not have a largest element.

// CHECK-LABEL: func.func @nothing
// CHECK-NOT: dynamo.reduce
// CHECK: dynamo.full 0.000000e+00 : f32 -> tensor<2x0xf32>
func.func @nothing(%x: tensor<2x0xf32>) -> tensor<2x0xf32> {
  %0 = dynamo.aten "aten._softmax.default"(%x) args [#dynamo.operand<0>, 1 : i64, false] : (tensor<2x0xf32>) -> tensor<2x0xf32>
  return %0 : tensor<2x0xf32>
}

// A 0-d tensor is a row of one element.

// CHECK-LABEL: func.func @scalar
// CHECK: dynamo.reshape %{{.*}} : tensor<f32> -> tensor<1xf32>
// CHECK: dynamo.reduce max %{{.*}} dims [0]
// CHECK: dynamo.reshape %{{.*}} : tensor<1xf32> -> tensor<f32>
// CHECK-NEXT: return
func.func @scalar(%x: tensor<f32>) -> tensor<f32> {
  %0 = dynamo.aten "aten._softmax.default"(%x) args [#dynamo.operand<0>, -1 : i64, false] : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
