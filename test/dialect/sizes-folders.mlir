// RUN: dynamlir-opt %s --canonicalize --split-input-file | FileCheck %s

// Folders that compare types: equal types have equal sizes if these are numbers or expressions, and only then.

// An op that changes nothing is folded to its operand.
// CHECK-LABEL: func.func @same_sizes
func.func @same_sizes(%x: tensor<?x3xf32, #dynamo.sizes<s0, 3>>) -> tensor<?x3xf32, #dynamo.sizes<s0, 3>> attributes {
    dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  %0 = dynamo.broadcast %x dims [0, 1] : tensor<?x3xf32, #dynamo.sizes<s0, 3>> -> tensor<?x3xf32, #dynamo.sizes<s0, 3>>
  %1 = dynamo.reshape %0 : tensor<?x3xf32, #dynamo.sizes<s0, 3>> -> tensor<?x3xf32, #dynamo.sizes<2*s0 - s0, 3>>
  %2 = dynamo.permute %1 dims [0, 1] : tensor<?x3xf32, #dynamo.sizes<s0, 3>> -> tensor<?x3xf32, #dynamo.sizes<s0, 3>>
  %3 = dynamo.slice %2 starts [0, 0] steps [1, 1] : tensor<?x3xf32, #dynamo.sizes<s0, 3>> -> tensor<?x3xf32, #dynamo.sizes<s0, 3>>
  // CHECK-NEXT: return %arg0
  return %3 : tensor<?x3xf32, #dynamo.sizes<s0, 3>>
}

// -----

// A reshape and its inverse, through a shape with as many elements.
// CHECK-LABEL: func.func @reshapes
func.func @reshapes(%x: tensor<?x6xf32, #dynamo.sizes<s0, 6>>) -> (tensor<?x2xf32, #dynamo.sizes<s0*3, 2>>, tensor<?x6xf32, #dynamo.sizes<s0, 6>>) attributes {
    dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]} {
  %0 = dynamo.reshape %x : tensor<?x6xf32, #dynamo.sizes<s0, 6>> -> tensor<?xf32, #dynamo.sizes<s0*6>>
  // CHECK-NEXT: %[[R:.*]] = dynamo.reshape %arg0 : tensor<?x6xf32, #dynamo.sizes<s0, 6>> -> tensor<?x2xf32, #dynamo.sizes<s0*3, 2>>
  %1 = dynamo.reshape %0 : tensor<?xf32, #dynamo.sizes<s0*6>> -> tensor<?x2xf32, #dynamo.sizes<s0*3, 2>>
  %2 = dynamo.reshape %0 : tensor<?xf32, #dynamo.sizes<s0*6>> -> tensor<?x6xf32, #dynamo.sizes<s0, 6>>
  // CHECK-NEXT: return %[[R]], %arg0
  return %1, %2 : tensor<?x2xf32, #dynamo.sizes<s0*3, 2>>, tensor<?x6xf32, #dynamo.sizes<s0, 6>>
}

// -----

// Two `?` need not be equal: a slice may drop elements, a broadcast may repeat a size of 1, a reshape may go from 2x3 to 3x2.
// CHECK-LABEL: func.func @open
func.func @open(%x: tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>) {
  // CHECK-NEXT: dynamo.slice
  %0 = dynamo.slice %x starts [1, 0] steps [1, 1] : tensor<?x?xf32> -> tensor<?x?xf32>
  // CHECK-NEXT: dynamo.broadcast
  %1 = dynamo.broadcast %x dims [0, 1] : tensor<?x?xf32> -> tensor<?x?xf32>
  // CHECK-NEXT: dynamo.reshape
  %2 = dynamo.reshape %x : tensor<?x?xf32> -> tensor<?x?xf32>
  return %0, %1, %2 : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>
}

// -----

// Ops that keep each element in its place fold without known sizes.
// CHECK-LABEL: func.func @in_place
func.func @in_place(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = dynamo.convert %x : tensor<?x?xf32> -> tensor<?x?xf32>
  %1 = dynamo.bitcast %0 : tensor<?x?xf32> -> tensor<?x?xf32>
  %2 = dynamo.permute %1 dims [0, 1] : tensor<?x?xf32> -> tensor<?x?xf32>
  // CHECK-NEXT: return %arg0
  return %2 : tensor<?x?xf32>
}

// -----

// Sizes that are equal because of facts about the symbol make two types, and a value has only one of them.
// CHECK-LABEL: func.func @two_types
func.func @two_types(%x: tensor<?xf32, #dynamo.sizes<s0>>) -> tensor<?xf32, #dynamo.sizes<(s0 floordiv 8)*8>> attributes {
    dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0, divisor = 8>]} {
  // CHECK-NEXT: dynamo.permute
  %0 = dynamo.permute %x dims [0] : tensor<?xf32, #dynamo.sizes<s0>> -> tensor<?xf32, #dynamo.sizes<(s0 floordiv 8)*8>>
  return %0 : tensor<?xf32, #dynamo.sizes<(s0 floordiv 8)*8>>
}
