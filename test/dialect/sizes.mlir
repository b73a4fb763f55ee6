// RUN: dynamlir-opt %s | FileCheck %s
// RUN: dynamlir-opt %s | dynamlir-opt | FileCheck %s
// RUN: dynamlir-opt %s --mlir-print-op-generic | dynamlir-opt | FileCheck %s
// RUN: dynamlir-opt %s --emit-bytecode | dynamlir-opt | FileCheck %s

// Instead of a number, a size may be an expression over symbols. The parser brings it into canonical form.

// A function declares its symbols: the facts about each, and the argument size that it is. Defaults are not printed.
// CHECK-LABEL: func.func @symbols
// CHECK-SAME: dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 1, max = 1024, divisor = 8, hint = 16>,
// CHECK-SAME: #dynamo.symbol<s1, argument = 1, dim = 0, min = 0>, #dynamo.symbol<s2, argument = 2>]
func.func @symbols(%x: tensor<4x?xf32, #dynamo.sizes<4, s0>>, %m: !dynamo.tensor<[s1]xf32, [1]>, %n: index) attributes {
    dynamo.entry, dynamo.symbols = [
      #dynamo.symbol<s0, argument = 0, dim = 1, min = 2, hint = 16, max = 1024, divisor = 8>,
      #dynamo.symbol<s1, argument = 1, dim = 0, min = 0>, #dynamo.symbol<s2, argument = 2>]} {
  return
}

// Each operator and its canonical form. Equal polynomials are one attribute; an expression without symbols is a number.
// CHECK-LABEL: func.func private @expressions
func.func private @expressions() attributes {dynamo.symbols = [#dynamo.symbol<s0>, #dynamo.symbol<s1>], test = {
  // CHECK-SAME: a_symbol = #dynamo.expr<s0>
  a_symbol = #dynamo.expr<(s0)>,
  // CHECK-SAME: binomial = #dynamo.expr<s0*s0 - 1>
  binomial = #dynamo.expr<(s0 + 1)*(s0 - 1)>,
  // CHECK-SAME: ceiling = #dynamo.expr<-((-s0) floordiv 8)>
  ceiling = #dynamo.expr<s0 ceildiv 8>,
  // CHECK-SAME: extrema = #dynamo.expr<max(min(s0, s1), 4)>
  extrema = #dynamo.expr<max(4, min(s1, s0))>,
  // CHECK-SAME: folded = 4 : i64
  folded = #dynamo.expr<s0 - s0 + 4>,
  // CHECK-SAME: linear = #dynamo.expr<s0*3 + s1 - 1>
  linear = #dynamo.expr<s1 + s0*2 - 1 + s0>,
  // CHECK-SAME: number = -7 : i64
  number = #dynamo.expr<-7>,
  // CHECK-SAME: quotient = #dynamo.expr<s0 floordiv 8>
  quotient = #dynamo.expr<s0 floordiv 8>,
  // CHECK-SAME: remainder = #dynamo.expr<s0 mod 8>
  remainder = #dynamo.expr<s0 mod 8>,
  // CHECK-SAME: whole = #dynamo.expr<s0>
  whole = #dynamo.expr<(s0*8) floordiv 8>}}

// The sizes of a tensor are its encoding. Equal types have equal sizes, so this call has the declared types.
// CHECK-LABEL: func.func @types
// CHECK-SAME: (%{{.*}}: tensor<?x128xf32, #dynamo.sizes<s0*3, 128>>) -> tensor<?x128xf32, #dynamo.sizes<s0*3, 128>>
func.func @types(%x: tensor<?x128xf32, #dynamo.sizes<s0*2 + s0, 128>>) -> tensor<?x128xf32, #dynamo.sizes<3*s0, 128>> attributes {
    dynamo.symbols = [#dynamo.symbol<s0>]} {
  return %x : tensor<?x128xf32, #dynamo.sizes<s0 + s0 + s0, 128>>
}

// A mutable tensor has its sizes in brackets if one is an expression; strides and offset are in their usual places.
// CHECK-LABEL: func.func private @windows
// CHECK-SAME: (!dynamo.tensor<[s0, 128]xf32, [128, 1]>, !dynamo.tensor<[2, s0]xf32, [s0*2, 2], s0>,
// CHECK-SAME: !dynamo.tensor<4xf32, [s0]>, !dynamo.tensor<f32, [], s0*4>, !dynamo.tensor<4x2xf32, [2, 1], 3>,
// CHECK-SAME: !dynamo.tensor<?x2xf32, [?, 1]>)
func.func private @windows(!dynamo.tensor<[s0, 128]xf32, [128, 1]>, !dynamo.tensor<[2, s0]xf32, [s0 + s0, 2], s0>,
  !dynamo.tensor<4xf32, [s0]>, !dynamo.tensor<f32, [], 4*s0>, !dynamo.tensor<[4, s0 - s0 + 2]xf32, [2, 1], s0 + 3 - s0>,
  !dynamo.tensor<?x2xf32, [?, 1]>) attributes {dynamo.symbols = [#dynamo.symbol<s0>]}

// Views that are returned.
// CHECK-LABEL: func.func private @outputs
// CHECK-SAME: [#dynamo.output<arg_view 0, [s0, 2], [2, 1], s0*2>, #dynamo.output<arg_view 0, [4], [s0], 0>]
func.func private @outputs(tensor<?x4xf32, #dynamo.sizes<s0, 4>>) attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>],
  dynamo.outputs = [#dynamo.output<arg_view 0, [s0, 2], [2, 1], s0 + s0>, #dynamo.output<arg_view 0, [4], [s0], 0>]}

// The layouts in eager of arguments and of a call's operands and results, and sizes among the arguments of a call.
// CHECK-LABEL: func.func @layouts
// CHECK-SAME: {dynamo.offset = #dynamo.expr<s0*2>, dynamo.strides = #dynamo.sizes<1, s0>}
func.func @layouts(%x: tensor<?x2xf32, #dynamo.sizes<s0, 2>> {dynamo.strides = #dynamo.sizes<1, s0>, dynamo.offset = #dynamo.expr<s0*2>})
    attributes {dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  // CHECK: args [#dynamo.operand<0>, [2, #dynamo.expr<s0>]]
  // CHECK-SAME: operand_strides = [#dynamo.sizes<1, s0>], result_strides = [#dynamo.sizes<s0, 1>]
  dynamo.aten "aten.view.default"(%x) args [#dynamo.operand<0>, [2, #dynamo.expr<s0>]]
    {operand_strides = [#dynamo.sizes<1, s0>], result_strides = [#dynamo.sizes<s0, 1>]}
    : (tensor<?x2xf32, #dynamo.sizes<s0, 2>>) -> tensor<2x?xf32, #dynamo.sizes<2, s0>>
  return
}

// Attributes of primitives that hold sizes. If all are numbers, they are plain arrays.
// CHECK-LABEL: func.func @attributes
func.func @attributes(%x: tensor<?x4xf32, #dynamo.sizes<s0, 4>>, %i: tensor<?xi64, #dynamo.sizes<s1>>, %d: tensor<4xf32>) attributes {
    dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>, #dynamo.symbol<s1, argument = 1, dim = 0>]} {
  // CHECK: dynamo.slice %arg0 starts [s0 - 1, 0] steps [1, 1]
  %last = dynamo.slice %x starts [s0 - 1, 0] steps [1, 1] : tensor<?x4xf32, #dynamo.sizes<s0, 4>> -> tensor<1x4xf32>
  // CHECK: dynamo.slice %arg2 starts [1] steps [2]
  dynamo.slice %d starts [s0 - s0 + 1] steps [2] : tensor<4xf32> -> tensor<2xf32>
  // CHECK: dynamo.pad %arg0 low [s1, 0] high [0, 1] value
  dynamo.pad %x low [s1, 0] high [0, 1] value 0.0 : f32 : tensor<?x4xf32, #dynamo.sizes<s0, 4>> -> tensor<?x5xf32, #dynamo.sizes<s0 + s1, 5>>
  // CHECK: %[[T:.*]] = dynamo.as_strided %arg0 strides [1, 4] offset 0
  %t = dynamo.as_strided %x strides [1, 4] offset 0 : tensor<?x4xf32, #dynamo.sizes<s0, 4>> -> tensor<4x?xf32, #dynamo.sizes<4, s0>>
  // CHECK: dynamo.as_strided %[[T]] strides [s0, 1] offset s0*2
  dynamo.as_strided %t strides [s0, 1] offset 2*s0 : tensor<4x?xf32, #dynamo.sizes<4, s0>> -> tensor<2x?xf32, #dynamo.sizes<2, s0>>
  // CHECK: dynamo.as_strided_scatter %arg0, %{{.*}} strides [4, 1] offset s0*4 - 4
  dynamo.as_strided_scatter %x, %last strides [4, 1] offset s0*4 - 4 : tensor<?x4xf32, #dynamo.sizes<s0, 4>>, tensor<1x4xf32> -> tensor<?x4xf32, #dynamo.sizes<s0, 4>>
  // CHECK: dynamo.check_range %arg1 in{{ ?}}[-s0, s0) "index out of range"
  dynamo.check_range %i in [-s0, s0) "index out of range" : (tensor<?xi64, #dynamo.sizes<s1>>) -> tensor<?xi64, #dynamo.sizes<s1>>
  return
}

// Verifiers compare values by form, and by the facts about the symbols. The size here is a multiple of 8.
// CHECK-LABEL: func.func @equal
func.func @equal(%x: tensor<?x4xf32, #dynamo.sizes<s0, 4>>, %y: tensor<?x4xf32, #dynamo.sizes<s1, 4>>) attributes {
    dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0, min = 8, divisor = 8>, #dynamo.symbol<s1, argument = 1, dim = 0>]} {
  // CHECK: dynamo.reshape
  %0 = dynamo.reshape %x : tensor<?x4xf32, #dynamo.sizes<s0, 4>> -> tensor<2x?xf32, #dynamo.sizes<2, 2*s0>>
  // CHECK: dynamo.reshape %{{.*}} -> tensor<?x32xf32, #dynamo.sizes<s0 floordiv 8, 32>>
  %1 = dynamo.reshape %x : tensor<?x4xf32, #dynamo.sizes<s0, 4>> -> tensor<?x32xf32, #dynamo.sizes<s0 floordiv 8, 32>>
  // CHECK: dynamo.broadcast
  %2 = dynamo.broadcast %x dims [1, 2] : tensor<?x4xf32, #dynamo.sizes<s0, 4>> -> tensor<?x?x4xf32, #dynamo.sizes<s1, s0, 4>>
  // CHECK: dynamo.permute
  %3 = dynamo.permute %x dims [1, 0] : tensor<?x4xf32, #dynamo.sizes<s0, 4>> -> tensor<4x?xf32, #dynamo.sizes<4, s0>>
  // CHECK: dynamo.matmul
  %4 = dynamo.matmul %y, %3 batch 0 : tensor<?x4xf32, #dynamo.sizes<s1, 4>>, tensor<4x?xf32, #dynamo.sizes<4, s0>> -> tensor<?x?xf32, #dynamo.sizes<s1, s0>>
  // CHECK: dynamo.reduce
  %5 = dynamo.reduce sum %4 dims [0] : tensor<?x?xf32, #dynamo.sizes<s1, s0>> -> tensor<?xf32, #dynamo.sizes<s0>>
  // CHECK: dynamo.concatenate {{.*}} -> tensor<?x4xf32, #dynamo.sizes<s0 + s1, 4>>
  %6 = dynamo.concatenate %x, %y dim 0 : (tensor<?x4xf32, #dynamo.sizes<s0, 4>>, tensor<?x4xf32, #dynamo.sizes<s1, 4>>) -> tensor<?x4xf32, #dynamo.sizes<s0 + s1, 4>>
  // CHECK: dynamo.compare
  %7 = dynamo.compare lt %6, %6 : tensor<?x4xf32, #dynamo.sizes<s0 + s1, 4>> -> tensor<?x4xi1, #dynamo.sizes<s0 + s1, 4>>
  return
}

// In memory, types contain a `?`. Attributes of arguments, views and results of the library give the expression for it.
// CHECK-LABEL: func.func @memory
// CHECK-SAME: memref<?x4xf32, strided<[?, 1], offset: ?>> {dynamo.offset = #dynamo.expr<s0*4>, dynamo.sizes = #dynamo.sizes<s0, 4>, dynamo.strides = #dynamo.sizes<s0*4, 1>}
func.func @memory(%x: memref<?x4xf32, strided<[?, 1], offset: ?>>
    {dynamo.sizes = #dynamo.sizes<s0, 4>, dynamo.strides = #dynamo.sizes<4*s0, 1>, dynamo.offset = #dynamo.expr<s0*4>})
    attributes {dynamo.symbols = [#dynamo.symbol<s0>]} {
  // CHECK: dynamo.view %arg0[s0*8] sizes [4, s0 - 1] strides [1, s0*4]
  // CHECK-SAME: memref<?x4xf32, strided<[?, 1], offset: ?>> -> memref<4x?xf32, strided<[1, ?], offset: ?>>
  %0 = dynamo.view %x[s0*8] sizes [4, s0 - 1] strides [1, s0*4]
    : memref<?x4xf32, strided<[?, 1], offset: ?>> -> memref<4x?xf32, strided<[1, ?], offset: ?>>
  // CHECK: dynamo.view %{{.*}}[0] sizes [2] strides [1] : memref<4x?xf32, strided<[1, ?], offset: ?>> -> memref<2xi32>
  %1 = dynamo.view %0[0] sizes [2] strides [1] : memref<4x?xf32, strided<[1, ?], offset: ?>> -> memref<2xi32>
  // CHECK: dynamo.extern {{.*}} {sizes = [array<i64: 2>, #dynamo.sizes<s0>], strides = [array<i64: 1>, array<i64: 1>]} : (memref<2xi32>) -> (memref<2xi32>, memref<?xi64>)
  %2:2 = dynamo.extern dispatcher "aten.frexp.Tensor"(%1) args [#dynamo.operand<0>] {sizes = [array<i64: 2>, #dynamo.sizes<s0>],
    strides = [array<i64: 1>, array<i64: 1>]} : (memref<2xi32>) -> (memref<2xi32>, memref<?xi64>)
  return
}

// Verifiers and folders use the assumptions about the symbols, as they use the declarations.
// CHECK-LABEL: func.func @assumed
// CHECK-SAME: dynamo.assumed = "(s0*s1) mod 8 == 0; s0 <= s1"
func.func @assumed(%x: memref<?x?xf32> {dynamo.sizes = #dynamo.sizes<s0, s1>}) attributes {dynamo.assumed = "(s0*s1) mod 8 == 0; s0 <= s1",
    dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>, #dynamo.symbol<s1, argument = 0, dim = 1>]} {
  // CHECK: dynamo.view
  // CHECK-SAME: memref<?x?xf32> -> memref<?xf32, strided<[1], offset: ?>>
  %0 = dynamo.view %x[s1 - s0] sizes [s0] strides [1] : memref<?x?xf32> -> memref<?xf32, strided<[1], offset: ?>>
  return
}
