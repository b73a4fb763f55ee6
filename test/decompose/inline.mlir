// RUN: dynamlir-opt %s --split-input-file --dynamo-decompose --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s

// An op without a lowering is replaced by its decomposition, whose ops are lowered, too, at the op's own location. The function is erased
// afterwards.

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[S:.*]] = dynamo.sin %{{.*}} : tensor<4xf32> loc("model.py":3:0)
// CHECK-NEXT: %[[E:.*]] = dynamo.aten "aten.inner.default"(%[[S]]) {{.*}} loc("model.py":3:0)
// CHECK-NEXT: return %[[E]]
// CHECK-NOT: func.func
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dynamo.aten "aten.outer.default"(%x) args [#dynamo.operand<0>] {decomposition = @outer} : (tensor<4xf32>) -> tensor<4xf32> loc("model.py":3:0)
  return %0 : tensor<4xf32>
}
func.func private @outer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] : (tensor<4xf32>) -> tensor<4xf32> loc("torch.py":1:0)
  %1 = dynamo.aten "aten.inner.default"(%0) args [#dynamo.operand<0>] : (tensor<4xf32>) -> tensor<4xf32> loc("torch.py":2:0)
  return %1 : tensor<4xf32>
}

// -----

// Our own lowering takes precedence over the decomposition; an op that is kept on purpose is not inlined.

// CHECK-LABEL: func.func @ours_first
// CHECK-NEXT: dynamo.exp
// CHECK-NEXT: dynamo.aten "aten.mm.default"
// CHECK-NOT: decomposition
// CHECK-NOT: func.func
func.func @ours_first(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = dynamo.aten "aten.exp.default"(%x) args [#dynamo.operand<0>] {decomposition = @theirs} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = dynamo.aten "aten.mm.default"(%0, %0) args [#dynamo.operand<0>, #dynamo.operand<1>] {decomposition = @product}
    : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
func.func private @theirs(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  return %x : tensor<4x4xf32>
}
func.func private @product(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  return %x : tensor<4x4xf32>
}

// -----

// A recursive decomposition ends in an extern call.

// CHECK-LABEL: func.func @circle
// CHECK-NEXT: dynamo.aten "aten.b.default"(%{{.*}}) args [#dynamo.operand<0>] :
// CHECK-NEXT: return
func.func @circle(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dynamo.aten "aten.a.default"(%x) args [#dynamo.operand<0>] {decomposition = @a} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @a(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dynamo.aten "aten.b.default"(%x) args [#dynamo.operand<0>] {decomposition = @a} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A function whose signature does not match the op is not inlined.

// CHECK-LABEL: func.func @misfit
// CHECK-NEXT: dynamo.aten "aten.a.default"
func.func @misfit(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dynamo.aten "aten.a.default"(%x) args [#dynamo.operand<0>] {decomposition = @other} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @other(%x: tensor<5xf32>) -> tensor<5xf32> {
  return %x : tensor<5xf32>
}
