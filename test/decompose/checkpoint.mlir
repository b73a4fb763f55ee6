// RUN: dynamlir-opt %s --dynamo-decompose | FileCheck %s

// Everything that an operation of a torch.utils.checkpoint region is lowered to belongs to the region, and so do the calls that remain.

// CHECK-LABEL: func.func @main(
// CHECK: dynamo.exp {{.*}} {dynamo.recompute = 1 : i64}
// CHECK: dynamo.div {{.*}} {dynamo.recompute = 1 : i64}
// CHECK: dynamo.aten "mine.own.default"({{.*}}dynamo.recompute = 1
// CHECK: dynamo.sin
// CHECK-NOT: dynamo.recompute
// CHECK: return
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.entry} {
  %0 = dynamo.aten "aten.sigmoid.default"(%x) args [#dynamo.operand<0>] {dynamo.recompute = 1} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = dynamo.aten "mine.own.default"(%0) args [#dynamo.operand<0>] {dynamo.recompute = 1} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = dynamo.aten "aten.sin.default"(%1) args [#dynamo.operand<0>] : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
