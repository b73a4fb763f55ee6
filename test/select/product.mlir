// RUN: dynamlir-opt %s --dynamo-attach-target=vector-bits=512 --dynamo-decompose --dynamo-select | FileCheck %s
// RUN: dynamlir-opt %s --dynamo-attach-target=vector-bits=0 --dynamo-decompose --dynamo-select | FileCheck %s --check-prefix=NONE --implicit-check-not=dynamo.matmul
// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=neoverse-v1 --dynamo-decompose --dynamo-select | FileCheck %s --check-prefix=NONE --implicit-check-not=dynamo.matmul
// RUN: dynamlir-opt %s --dynamo-attach-target="vector-bits=512 library-vector-bits=256" --dynamo-decompose --dynamo-select | FileCheck %s --check-prefix=HALF

// Products become primitives if generated code is expected to be faster than the library, or as fast with operations fused
// into it. Without wide vectors all are left to the library.

// A layer on few rows, x @ w.T + b: k is contiguous in both operands.
// CHECK-LABEL: func.func @layer
// CHECK: %[[T:.*]] = dynamo.permute %arg1 dims [1, 0]
// CHECK: %[[P:.*]] = dynamo.matmul %arg2, %[[T]] batch 0 : tensor<128x768xf32>, tensor<768x3072xf32> -> tensor<128x3072xf32>
// CHECK: %[[B:.*]] = dynamo.broadcast %arg0 dims [1]
// CHECK: dynamo.add %[[P]], %[[B]]
// NONE-LABEL: func.func @layer
// NONE: dynamo.aten "aten.addmm.default"
func.func @layer(%b: tensor<3072xf32>, %w: tensor<3072x768xf32>, %x: tensor<128x768xf32>) -> tensor<128x3072xf32> {
  %t = dynamo.aten "aten.t.default"(%w) args [#dynamo.operand<0>] : (tensor<3072x768xf32>) -> tensor<768x3072xf32>
  %r = dynamo.aten "aten.addmm.default"(%b, %x, %t) args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, 1 : i64, 1 : i64]
    : (tensor<3072xf32>, tensor<128x768xf32>, tensor<768x3072xf32>) -> tensor<128x3072xf32>
  return %r : tensor<128x3072xf32>
}

// Large and square: the library, unless its vectors are narrower than the processor's. Torch's library is made for Intel's processors.
// CHECK-LABEL: func.func @square
// CHECK: dynamo.aten "aten.mm.default"
// HALF-LABEL: func.func @square
// HALF: dynamo.matmul
func.func @square(%a: tensor<1024x1024xf32>, %b: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
  %r = dynamo.aten "aten.mm.default"(%a, %b) args [#dynamo.operand<0>, #dynamo.operand<1>]
    : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  return %r : tensor<1024x1024xf32>
}

// Few rows, if the larger operand stays in a cache.
// CHECK-LABEL: func.func @few
// CHECK: dynamo.matmul
// NONE-LABEL: func.func @few
// NONE: dynamo.aten "aten.mm.default"
func.func @few(%a: tensor<4x768xf32>, %b: tensor<768x256xf32>) -> tensor<4x256xf32> {
  %r = dynamo.aten "aten.mm.default"(%a, %b) args [#dynamo.operand<0>, #dynamo.operand<1>]
    : (tensor<4x768xf32>, tensor<768x256xf32>) -> tensor<4x256xf32>
  return %r : tensor<4x256xf32>
}

// A larger one with k not contiguous is read at memory's rate, by the library as well. With operations to fuse it is generated.
// CHECK-LABEL: func.func @memory
// CHECK: dynamo.aten "aten.mm.default"
// CHECK: dynamo.matmul
// HALF-LABEL: func.func @memory
// HALF-NOT: aten.mm
func.func @memory(%a: tensor<4x768xf32>, %b: tensor<768x768xf32>) -> (tensor<4x768xf32>, tensor<4x768xf32>) {
  %r = dynamo.aten "aten.mm.default"(%a, %b) args [#dynamo.operand<0>, #dynamo.operand<1>]
    : (tensor<4x768xf32>, tensor<768x768xf32>) -> tensor<4x768xf32>
  %s = dynamo.aten "aten.mm.default"(%a, %b) args [#dynamo.operand<0>, #dynamo.operand<1>]
    : (tensor<4x768xf32>, tensor<768x768xf32>) -> tensor<4x768xf32>
  %t = dynamo.aten "aten.gelu.default"(%s) args [#dynamo.operand<0>, "none"] : (tensor<4x768xf32>) -> tensor<4x768xf32>
  return %r, %t : tensor<4x768xf32>, tensor<4x768xf32>
}

// The library computes products with a factor, of another type, and with sums so long that adding in f32 would lose too much.
// CHECK-LABEL: func.func @left
// CHECK: dynamo.aten "aten.addmm.default"
// CHECK: dynamo.aten "aten.mm.default"
// CHECK: dynamo.aten "aten.mm.default"
// HALF-LABEL: func.func @left
// HALF-NOT: dynamo.matmul
// HALF-LABEL: func.func @convolution
func.func @left(%b: tensor<8xf32>, %x: tensor<4x16xf32>, %w: tensor<16x8xf32>, %d: tensor<4x16xf64>, %e: tensor<16x8xf64>,
                %l: tensor<4x20000xf32>, %m: tensor<20000x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf64>, tensor<4x8xf32>) {
  %r = dynamo.aten "aten.addmm.default"(%b, %x, %w) args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, 2 : i64, 1 : i64]
    : (tensor<8xf32>, tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %s = dynamo.aten "aten.mm.default"(%d, %e) args [#dynamo.operand<0>, #dynamo.operand<1>]
    : (tensor<4x16xf64>, tensor<16x8xf64>) -> tensor<4x8xf64>
  %t = dynamo.aten "aten.mm.default"(%l, %m) args [#dynamo.operand<0>, #dynamo.operand<1>]
    : (tensor<4x20000xf32>, tensor<20000x8xf32>) -> tensor<4x8xf32>
  return %r, %s, %t : tensor<4x8xf32>, tensor<4x8xf64>, tensor<4x8xf32>
}

// A convolution of images in torch's own order. Its bias is added separately, so that it can be fused with the operations after it.
// CHECK-LABEL: func.func @convolution
// CHECK: %[[S:.*]] = dynamo.convolution %arg0, %arg1 strides [2, 2] padding [1, 1] dilation [1, 1] groups 1
// CHECK: %[[B:.*]] = dynamo.broadcast %arg2 dims [1] : tensor<32xf32> -> tensor<1x32x28x28xf32>
// CHECK: dynamo.add %[[S]], %[[B]]
// NONE-LABEL: func.func @convolution
// NONE: dynamo.aten "aten.convolution.default"
func.func @convolution(%x: tensor<1x16x56x56xf32>, %w: tensor<32x16x3x3xf32>, %b: tensor<32xf32>) -> tensor<1x32x28x28xf32> {
  %r = dynamo.aten "aten.convolution.default"(%x, %w, %b)
    args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, [2, 2], [1, 1], [1, 1], false, [0, 0], 1 : i64]
    : (tensor<1x16x56x56xf32>, tensor<32x16x3x3xf32>, tensor<32xf32>) -> tensor<1x32x28x28xf32>
  return %r : tensor<1x32x28x28xf32>
}

// A window for each channel.
// CHECK-LABEL: func.func @depthwise
// CHECK: dynamo.convolution %arg0, %arg1 strides [1, 1] padding [1, 1] dilation [1, 1] groups 32
func.func @depthwise(%x: tensor<1x32x9x9xf32>, %w: tensor<32x1x3x3xf32>) -> tensor<1x32x9x9xf32> {
  %r = dynamo.aten "aten.convolution.default"(%x, %w)
    args [#dynamo.operand<0>, #dynamo.operand<1>, unit, [1, 1], [1, 1], [1, 1], false, [0, 0], 32 : i64]
    : (tensor<1x32x9x9xf32>, tensor<32x1x3x3xf32>) -> tensor<1x32x9x9xf32>
  return %r : tensor<1x32x9x9xf32>
}

// The library computes convolutions from many to few channels, backward ones, those over one dimension, and with channels last.
// CHECK-LABEL: func.func @left_to_the_library
// CHECK-NOT: dynamo.convolution
// CHECK: return
func.func @left_to_the_library(%x: tensor<1x32x9x9xf32>, %w: tensor<4x32x3x3xf32>, %v: tensor<32x32x3x3xf32>, %l: tensor<1x32x9xf32>,
                               %u: tensor<32x32x3xf32>) {
  %0 = dynamo.aten "aten.convolution.default"(%x, %w)
    args [#dynamo.operand<0>, #dynamo.operand<1>, unit, [1, 1], [1, 1], [1, 1], false, [0, 0], 1 : i64]
    : (tensor<1x32x9x9xf32>, tensor<4x32x3x3xf32>) -> tensor<1x4x9x9xf32>
  %1 = dynamo.aten "aten.convolution.default"(%x, %v)
    args [#dynamo.operand<0>, #dynamo.operand<1>, unit, [1, 1], [1, 1], [1, 1], true, [0, 0], 1 : i64]
    : (tensor<1x32x9x9xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x9x9xf32>
  %2 = dynamo.aten "aten.convolution.default"(%l, %u)
    args [#dynamo.operand<0>, #dynamo.operand<1>, unit, [1], [1], [1], false, [0], 1 : i64]
    : (tensor<1x32x9xf32>, tensor<32x32x3xf32>) -> tensor<1x32x9xf32>
  %3 = dynamo.aten "aten.convolution.default"(%x, %v)
    args [#dynamo.operand<0>, #dynamo.operand<1>, unit, [1, 1], [1, 1], [1, 1], false, [0, 0], 1 : i64]
    {operand_strides = [array<i64: 2592, 1, 288, 32>, array<i64: 288, 9, 3, 1>], result_strides = [array<i64: 2592, 1, 288, 32>]}
    : (tensor<1x32x9x9xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x9x9xf32>
  return
}
