// RUN: dynamlir-opt %s --dynamo-plan | FileCheck %s

// The workspace is as large as the values that live at one time, if a packing exists: 4 lines of 64 bytes here. Large before
// small would take five: %d at the start, %b past %a, which replaces %d, and space for %c only after them.

// CHECK-LABEL: func.func @main
// CHECK: dynamo.workspace : memref<256xi8>
func.func @main(%x: tensor<48xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 0},
                %y: tensor<16xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 0},
                %z: tensor<32xf32> {dynamo.strides = array<i64: 1>, dynamo.offset = 0})
    -> (tensor<48xf32> {dynamo.strides = array<i64: 1>}, tensor<16xf32> {dynamo.strides = array<i64: 1>},
        tensor<32xf32> {dynamo.strides = array<i64: 1>}, tensor<32xf32> {dynamo.strides = array<i64: 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>, #dynamo.output<result 2>,
                                                #dynamo.output<result 3>]} {
  %c = dynamo.launch @kernels::@small(%y) : (tensor<16xf32>) -> tensor<16xf32>
  %d = dynamo.launch @kernels::@large(%x) : (tensor<48xf32>) -> tensor<48xf32>
  %0 = dynamo.launch @kernels::@large(%d) : (tensor<48xf32>) -> tensor<48xf32>
  %b = dynamo.launch @kernels::@middle(%z) : (tensor<32xf32>) -> tensor<32xf32>
  %1 = dynamo.launch @kernels::@small(%c) : (tensor<16xf32>) -> tensor<16xf32>
  %a = dynamo.launch @kernels::@middle(%z) : (tensor<32xf32>) -> tensor<32xf32>
  %2 = dynamo.launch @kernels::@middle(%a) : (tensor<32xf32>) -> tensor<32xf32>
  %3 = dynamo.launch @kernels::@middle(%b) : (tensor<32xf32>) -> tensor<32xf32>
  return %0, %1, %2, %3 : tensor<48xf32>, tensor<16xf32>, tensor<32xf32>, tensor<32xf32>
}
module @kernels {
  func.func @small(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 16>, dynamo.reduced_dims = array<i64>} {
    %0 = dynamo.neg %x : tensor<16xf32>
    return %0 : tensor<16xf32>
  }
  func.func @middle(%x: tensor<32xf32>) -> tensor<32xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 32>, dynamo.reduced_dims = array<i64>} {
    %0 = dynamo.neg %x : tensor<32xf32>
    return %0 : tensor<32xf32>
  }
  func.func @large(%x: tensor<48xf32>) -> tensor<48xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 48>, dynamo.reduced_dims = array<i64>} {
    %0 = dynamo.neg %x : tensor<48xf32>
    return %0 : tensor<48xf32>
  }
}
