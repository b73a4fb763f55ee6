// RUN: dynamlir-opt %s | FileCheck %s
// RUN: dynamlir-opt %s | dynamlir-opt | FileCheck %s
// RUN: dynamlir-opt %s --mlir-print-op-generic | dynamlir-opt | FileCheck %s
// RUN: dynamlir-opt %s --emit-bytecode | dynamlir-opt | FileCheck %s

// The op for any ATen operator, at each level at which it occurs.

// On tensors that share storage: the aliases, the mutated operands, and the functional variant of the call.
// CHECK-LABEL: func.func @mutable
// CHECK-SAME: (%arg0: !dynamo.tensor<2x3xf32, [3, 1]> {dynamo.name = "x"})
func.func @mutable(%x: !dynamo.tensor<2x3xf32, [3, 1]> {dynamo.name = "x"})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<arg 0>]} {
  // CHECK: %[[T:.*]] = dynamo.aten "aten.t.default"(%arg0) args [#dynamo.operand<0>] {aliases = array<i64: 0>}
  // CHECK-SAME: : (!dynamo.tensor<2x3xf32, [3, 1]>) -> !dynamo.tensor<3x2xf32, [1, 3]>
  %t = dynamo.aten "aten.t.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>}
    : (!dynamo.tensor<2x3xf32, [3, 1]>) -> !dynamo.tensor<3x2xf32, [1, 3]>
  // CHECK: dynamo.aten "aten.relu_.default"(%[[T]]) args [#dynamo.operand<0>]
  // CHECK-SAME: {aliases = array<i64: 0>, functional = "aten.relu.default", grad_enabled, mutates = array<i64: 0>}
  dynamo.aten "aten.relu_.default"(%t) args [#dynamo.operand<0>]
    {aliases = array<i64: 0>, mutates = array<i64: 0>, functional = "aten.relu.default", grad_enabled}
    : (!dynamo.tensor<3x2xf32, [1, 3]>) -> !dynamo.tensor<3x2xf32, [1, 3]>
  return
}

// On values, with the layouts in eager.
// CHECK-LABEL: func.func @functional
func.func @functional(%x: tensor<2x3xf32>, %y: tensor<3x4xf32>) -> tensor<2x4xf32> {
  // CHECK: dynamo.aten "aten.mm.default"(%arg0, %arg1) args [#dynamo.operand<0>, #dynamo.operand<1>]
  // CHECK-SAME: {operand_strides = [array<i64: 3, 1>, array<i64: 1, 3>], result_strides = [array<i64: 4, 1>]}
  // CHECK-SAME: : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %0 = dynamo.aten "aten.mm.default"(%x, %y) args [#dynamo.operand<0>, #dynamo.operand<1>]
    {operand_strides = [array<i64: 3, 1>, array<i64: 1, 3>], result_strides = [array<i64: 4, 1>]}
    : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// Every kind of argument: operands, lists, None, numbers, strings, bools, dtypes, devices, formats and layouts.
// CHECK-LABEL: func.func @arguments
func.func @arguments(%x: tensor<2xf32>, %y: tensor<2xf32>) {
  // CHECK: dynamo.aten "aten.cat.default"(%arg0, %arg1) args {{\[}}[#dynamo.operand<0>, #dynamo.operand<1>], -1]
  dynamo.aten "aten.cat.default"(%x, %y) args [[#dynamo.operand<0>, #dynamo.operand<1>], -1]
    : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  // CHECK: dynamo.aten "aten.empty.memory_format"() args
  // CHECK-SAME: {{\[}}[2, 3], f32, #dynamo.layout<"strided">, #dynamo.device<"cpu">, false, #dynamo.memory_format<"contiguous_format">]
  // CHECK-SAME: : () -> tensor<2x3xf32>
  dynamo.aten "aten.empty.memory_format"() args [[2, 3], f32, #dynamo.layout<"strided">, #dynamo.device<"cpu">, false,
    #dynamo.memory_format<"contiguous_format">] : () -> tensor<2x3xf32>
  // CHECK: dynamo.aten "aten.div.Tensor_mode"(%arg0, %arg1) args [#dynamo.operand<0>, #dynamo.operand<1>, "floor"]
  dynamo.aten "aten.div.Tensor_mode"(%x, %y) args [#dynamo.operand<0>, #dynamo.operand<1>, "floor"]
    : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  // CHECK: dynamo.aten "aten.clamp.default"(%arg0) args [#dynamo.operand<0>, unit, 6.000000e+00]
  dynamo.aten "aten.clamp.default"(%x) args [#dynamo.operand<0>, unit, 6.0 : f64] : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// Several results, none, and torch's own decomposition of the call.
// CHECK-LABEL: func.func @results
func.func @results(%x: tensor<4x2xf32>) {
  // CHECK: %{{.*}}:2 = dynamo.aten "aten.max.dim"(%arg0) args [#dynamo.operand<0>, 1, false]
  // CHECK-SAME: : (tensor<4x2xf32>) -> (tensor<4xf32>, tensor<4xi64>)
  %0:2 = dynamo.aten "aten.max.dim"(%x) args [#dynamo.operand<0>, 1, false]
    : (tensor<4x2xf32>) -> (tensor<4xf32>, tensor<4xi64>)
  // CHECK: dynamo.aten "aten._assert_async.default"(%arg0) args [#dynamo.operand<0>] : (tensor<4x2xf32>) -> ()
  dynamo.aten "aten._assert_async.default"(%x) args [#dynamo.operand<0>] : (tensor<4x2xf32>) -> ()
  // CHECK: dynamo.aten "aten.sin.default"(%arg0) args [#dynamo.operand<0>] {decomposition = @sin}
  dynamo.aten "aten.sin.default"(%x) args [#dynamo.operand<0>] {decomposition = @sin} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  // Complex values are allowed: they belong to extern calls.
  // CHECK: dynamo.aten "aten.view_as_complex.default"(%arg0) args [#dynamo.operand<0>] : (tensor<4x2xf32>) -> tensor<4xcomplex<f32>>
  dynamo.aten "aten.view_as_complex.default"(%x) args [#dynamo.operand<0>] : (tensor<4x2xf32>) -> tensor<4xcomplex<f32>>
  return
}
func.func private @sin(tensor<4x2xf32>) -> tensor<4x2xf32>

// A call with code, which uses values around it; dynamo-select chooses the call or the code.
// CHECK-LABEL: func.func @with_code
// CHECK: %[[R:.*]] = dynamo.aten "aten.mm.default"(%arg0, %arg1) args [#dynamo.operand<0>, #dynamo.operand<1>] code {
// CHECK-NEXT: %[[P:.*]] = dynamo.matmul %arg0, %arg1 batch 0 : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
// CHECK-NEXT: dynamo.yield %[[P]] : tensor<8x4xf32>
// CHECK-NEXT: } {dynamo.followed} : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
// CHECK-NEXT: return %[[R]]
func.func @with_code(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>) -> tensor<8x4xf32> {
  %r = dynamo.aten "aten.mm.default"(%x, %w) args [#dynamo.operand<0>, #dynamo.operand<1>] code {
    %p = dynamo.matmul %x, %w batch 0 : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
    dynamo.yield %p : tensor<8x4xf32>
  } {dynamo.followed} : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// Gradients that do not follow the values.
// CHECK-LABEL: func.func @gradients
func.func @gradients(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<2xcomplex<f32>>) {
  // CHECK: dynamo.detach %arg0 : tensor<4xf32>
  dynamo.detach %x : tensor<4xf32>
  // CHECK: dynamo.detach %arg2 : tensor<2xcomplex<f32>>
  dynamo.detach %z : tensor<2xcomplex<f32>>
  // CHECK: dynamo.history %arg0 of %arg1 : tensor<4xf32>
  dynamo.history %x of %y : tensor<4xf32>
  // CHECK: dynamo.overwrite %arg0 of %arg1 : tensor<4xf32>
  dynamo.overwrite %x of %y : tensor<4xf32>
  return
}

// Operations of a checkpoint region, which backward recomputes.
// CHECK-LABEL: func.func @checkpoint
// CHECK: dynamo.exp %arg0 {dynamo.recompute = 0 : i64} : tensor<4xf32>
func.func @checkpoint(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dynamo.exp %x {dynamo.recompute = 0 : i64} : tensor<4xf32>
  return %0 : tensor<4xf32>
}
