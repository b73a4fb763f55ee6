// RUN: dynamlir-opt %s --split-input-file --verify-diagnostics --dynamo-attach-target=vector-bits=512 --dynamo-plan | FileCheck %s

// `dynamo.choice` on a product gives the form of its code; the rest of the schedule is chosen as usual. For four rows the
// cost model would choose dots.

// CHECK-LABEL: func.func @main
// CHECK: func.func @expected
// CHECK-SAME: form = "dots"
// CHECK: func.func @panels
// CHECK-SAME: form = "panels", {{.*}}lanes = "rhs", {{.*}}vectors = 1
// A product whose columns are contiguous does not have dots: the model's choice.
// CHECK: func.func @unsuitable
// CHECK-SAME: form = "stream"
// A convolution in panels of one vector; panels of seven do not exist.
// CHECK: func.func @windows
// CHECK-SAME: dynamo.matmul = {{{.*}}vectors = 1
// CHECK: func.func @none_such
// CHECK-SAME: dynamo.matmul = {{{.*}}vectors = {{[23]}}
func.func @main(%x: tensor<4x256xf32> {dynamo.strides = array<i64: 256, 1>, dynamo.offset = 0},
                %w: tensor<512x256xf32> {dynamo.strides = array<i64: 256, 1>, dynamo.offset = 0},
                %v: tensor<256x512xf32> {dynamo.strides = array<i64: 512, 1>, dynamo.offset = 0},
                %i: tensor<1x16x14x14xf32> {dynamo.strides = array<i64: 3136, 196, 14, 1>, dynamo.offset = 0},
                %k: tensor<32x16x1x1xf32> {dynamo.strides = array<i64: 16, 1, 1, 1>, dynamo.offset = 0})
    -> (tensor<4x512xf32> {dynamo.strides = array<i64: 512, 1>}, tensor<4x512xf32> {dynamo.strides = array<i64: 512, 1>},
        tensor<4x512xf32> {dynamo.strides = array<i64: 512, 1>}, tensor<32x14x14xf32> {dynamo.strides = array<i64: 196, 14, 1>},
        tensor<32x14x14xf32> {dynamo.strides = array<i64: 196, 14, 1>})
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>, #dynamo.output<result 2>,
                                                #dynamo.output<result 3>, #dynamo.output<result 4>]} {
  %t = dynamo.permute %w dims [1, 0] : tensor<512x256xf32> -> tensor<256x512xf32>
  %0 = dynamo.launch @kernels::@expected(%x, %t) : (tensor<4x256xf32>, tensor<256x512xf32>) -> tensor<4x512xf32>
  %1 = dynamo.launch @kernels::@panels(%x, %t) : (tensor<4x256xf32>, tensor<256x512xf32>) -> tensor<4x512xf32>
  %2 = dynamo.launch @kernels::@unsuitable(%x, %v) : (tensor<4x256xf32>, tensor<256x512xf32>) -> tensor<4x512xf32>
  %3 = dynamo.launch @kernels::@windows(%i, %k) : (tensor<1x16x14x14xf32>, tensor<32x16x1x1xf32>) -> tensor<32x14x14xf32>
  %4 = dynamo.launch @kernels::@none_such(%i, %k) : (tensor<1x16x14x14xf32>, tensor<32x16x1x1xf32>) -> tensor<32x14x14xf32>
  return %0, %1, %2, %3, %4 : tensor<4x512xf32>, tensor<4x512xf32>, tensor<4x512xf32>, tensor<32x14x14xf32>, tensor<32x14x14xf32>
}
module @kernels {
  func.func @expected(%x: tensor<4x256xf32>, %w: tensor<256x512xf32>) -> tensor<4x512xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 512>, dynamo.reduced_dims = array<i64>} {
    %p = dynamo.matmul %x, %w batch 0 : tensor<4x256xf32>, tensor<256x512xf32> -> tensor<4x512xf32>
    return %p : tensor<4x512xf32>
  }
  func.func @panels(%x: tensor<4x256xf32>, %w: tensor<256x512xf32>) -> tensor<4x512xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 512>, dynamo.reduced_dims = array<i64>} {
    %p = dynamo.matmul %x, %w batch 0 {dynamo.choice = "panels-rhs-1"} : tensor<4x256xf32>, tensor<256x512xf32> -> tensor<4x512xf32>
    return %p : tensor<4x512xf32>
  }
  func.func @unsuitable(%x: tensor<4x256xf32>, %w: tensor<256x512xf32>) -> tensor<4x512xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 512>, dynamo.reduced_dims = array<i64>} {
    %p = dynamo.matmul %x, %w batch 0 {dynamo.choice = "dots-rhs-4"} : tensor<4x256xf32>, tensor<256x512xf32> -> tensor<4x512xf32>
    return %p : tensor<4x512xf32>
  }
  func.func @windows(%x: tensor<1x16x14x14xf32>, %w: tensor<32x16x1x1xf32>) -> tensor<32x14x14xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 32, 14, 14>, dynamo.reduced_dims = array<i64>} {
    %p = dynamo.convolution %x, %w strides [1, 1] padding [0, 0] dilation [1, 1] groups 1 {dynamo.choice = "windows-1-1"}
      : tensor<1x16x14x14xf32>, tensor<32x16x1x1xf32> -> tensor<32x14x14xf32>
    return %p : tensor<32x14x14xf32>
  }
  func.func @none_such(%x: tensor<1x16x14x14xf32>, %w: tensor<32x16x1x1xf32>) -> tensor<32x14x14xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 32, 14, 14>, dynamo.reduced_dims = array<i64>} {
    %p = dynamo.convolution %x, %w strides [1, 1] padding [0, 0] dilation [1, 1] groups 1 {dynamo.choice = "windows-7-1"}
      : tensor<1x16x14x14xf32>, tensor<32x16x1x1xf32> -> tensor<32x14x14xf32>
    return %p : tensor<32x14x14xf32>
  }
}

// -----

func.func @main(%x: tensor<4x8xf32> {dynamo.strides = array<i64: 8, 1>, dynamo.offset = 0},
                %w: tensor<8x8xf32> {dynamo.strides = array<i64: 8, 1>, dynamo.offset = 0})
    -> (tensor<4x8xf32> {dynamo.strides = array<i64: 8, 1>}) attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.launch @kernels::@k(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
module @kernels {
  func.func @k(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32>
      attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8>, dynamo.reduced_dims = array<i64>} {
    // expected-error @+1 {{'dynamo.choice': 'spiral' is not a strategy for a product}}
    %p = dynamo.matmul %x, %w batch 0 {dynamo.choice = "spiral"} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    return %p : tensor<4x8xf32>
  }
}
