// RUN: dynamlir-opt %s --split-input-file --dynamo-decompose --dynamo-verify-prims | FileCheck %s

// The gradients of a convolution become convolutions and products in the body of the call; dynamo-select picks the body or the library.

// The gradient of the images with stride 1: a convolution with the reversed weights, with input and output channels swapped.

// CHECK-LABEL: func.func @images
// CHECK-SAME: (%[[G:[^:]*]]: tensor<1x8x6x6xf32>, %{{[^:]*}}: tensor<1x4x6x6xf32>, %[[W:[^:]*]]: tensor<8x4x3x3xf32>)
// CHECK: dynamo.aten "aten.convolution_backward.default"
// CHECK: %[[P:.*]] = dynamo.permute %{{.*}} dims [0, 2, 1, 3, 4] : tensor<1x8x4x3x3xf32> -> tensor<1x4x8x3x3xf32>
// CHECK: %[[T:.*]] = dynamo.reshape %[[P]] : tensor<1x4x8x3x3xf32> -> tensor<4x8x3x3xf32>
// CHECK: %[[R:.*]] = dynamo.reverse %[[T]] dims [2, 3]
// CHECK: dynamo.convolution %[[G]], %[[R]] strides [1, 1] padding [1, 1] dilation [1, 1] groups 1
func.func @images(%g: tensor<1x8x6x6xf32>, %x: tensor<1x4x6x6xf32>, %w: tensor<8x4x3x3xf32>) -> tensor<1x4x6x6xf32> {
  %0:3 = dynamo.aten "aten.convolution_backward.default"(%g, %x, %w)
    args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, unit, [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, false, false]]
    {grad_enabled} : (tensor<1x8x6x6xf32>, tensor<1x4x6x6xf32>, tensor<8x4x3x3xf32>) -> (tensor<1x4x6x6xf32>, tensor<0xf32>, tensor<0xf32>)
  return %0#0 : tensor<1x4x6x6xf32>
}

// -----

// With stride 2, rows and columns with the same remainder are read by the same taps: four convolutions, with windows of 1 and 2. Nothing is
// multiplied with zeros.

// CHECK-LABEL: func.func @steps
// CHECK: dynamo.convolution %{{.*}} : tensor<1x8x3x3xf32>, tensor<4x8x1x1xf32> -> tensor<1x4x3x3xf32>
// CHECK: dynamo.convolution %{{.*}} : tensor<1x8x3x4xf32>, tensor<4x8x1x2xf32> -> tensor<1x4x3x3xf32>
// CHECK: dynamo.convolution %{{.*}} : tensor<1x8x4x3xf32>, tensor<4x8x2x1xf32> -> tensor<1x4x3x3xf32>
// CHECK: dynamo.convolution %{{.*}} : tensor<1x8x4x4xf32>, tensor<4x8x2x2xf32> -> tensor<1x4x3x3xf32>
// CHECK: %[[ALL:.*]] = dynamo.concatenate
// CHECK: dynamo.permute %{{.*}} dims [2, 3, 4, 0, 5, 1] : tensor<2x2x1x4x3x3xf32> -> tensor<1x4x3x2x3x2xf32>
func.func @steps(%g: tensor<1x8x3x3xf32>, %x: tensor<1x4x6x6xf32>, %w: tensor<8x4x3x3xf32>) -> tensor<1x4x6x6xf32> {
  %0:3 = dynamo.aten "aten.convolution_backward.default"(%g, %x, %w)
    args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, unit, [2, 2], [1, 1], [1, 1], false, [0, 0], 1, [true, false, false]]
    {grad_enabled} : (tensor<1x8x3x3xf32>, tensor<1x4x6x6xf32>, tensor<8x4x3x3xf32>) -> (tensor<1x4x6x6xf32>, tensor<0xf32>, tensor<0xf32>)
  return %0#0 : tensor<1x4x6x6xf32>
}

// -----

// The gradient of one tap of the weights: a product of two lines of memory. Rows of the gradient are padded to the length of the padded
// images' rows, 8, so that the tap (2, 2) reads from 2 * 8 + 2 elements later.

// CHECK-LABEL: func.func @weights
// CHECK-SAME: (%[[G:[^:]*]]: tensor<1x8x6x6xf32>, %[[X:[^:]*]]: tensor<1x16x6x6xf32>
// CHECK: dynamo.pad %[[X]] low [0, 0, 1, 1] high [0, 0, 1, 1]
// CHECK: dynamo.pad %[[G]] low [0, 0, 0, 0] high [0, 0, 2, 2]
// CHECK: %[[LINE:.*]] = dynamo.slice %{{.*}} starts [0, 0] steps [1, 1] : tensor<8x64xf32> -> tensor<8x46xf32>
// CHECK: dynamo.slice %{{.*}} starts [0, 18] steps [1, 1] : tensor<16x64xf32> -> tensor<16x46xf32>
// CHECK: dynamo.matmul %[[LINE]], %{{.*}} : tensor<8x46xf32>, tensor<46x16xf32> -> tensor<8x16xf32>
func.func @weights(%g: tensor<1x8x6x6xf32>, %x: tensor<1x16x6x6xf32>, %w: tensor<8x16x3x3xf32>) -> tensor<8x16x3x3xf32> {
  %0:3 = dynamo.aten "aten.convolution_backward.default"(%g, %x, %w)
    args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, unit, [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [false, true, false]]
    {grad_enabled} : (tensor<1x8x6x6xf32>, tensor<1x16x6x6xf32>, tensor<8x16x3x3xf32>) -> (tensor<0xf32>, tensor<8x16x3x3xf32>, tensor<0xf32>)
  return %0#1 : tensor<8x16x3x3xf32>
}

// -----

// More weights than windows: one product with the matrix of all windows, and the weights are not moved.

// CHECK-LABEL: func.func @last_layer
// CHECK: %[[WINDOWS:.*]] = dynamo.reshape %{{.*}} : tensor<4x9x4xf32> -> tensor<36x4xf32>
// CHECK: %[[TURNED:.*]] = dynamo.permute %[[WINDOWS]] dims [1, 0]
// CHECK: dynamo.matmul %{{.*}}, %[[TURNED]] batch 0 : tensor<8x4xf32>, tensor<4x36xf32> -> tensor<8x36xf32>
func.func @last_layer(%g: tensor<1x8x2x2xf32>, %x: tensor<1x4x2x2xf32>, %w: tensor<8x4x3x3xf32>) -> tensor<8x4x3x3xf32> {
  %0:3 = dynamo.aten "aten.convolution_backward.default"(%g, %x, %w)
    args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, unit, [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [false, true, false]]
    {grad_enabled} : (tensor<1x8x2x2xf32>, tensor<1x4x2x2xf32>, tensor<8x4x3x3xf32>) -> (tensor<0xf32>, tensor<8x4x3x3xf32>, tensor<0xf32>)
  return %0#1 : tensor<8x4x3x3xf32>
}

// -----

// One channel per window: a sum for each tap, without an alternative library call.

// CHECK-LABEL: func.func @depthwise
// CHECK-NOT: aten.convolution_backward
// CHECK-COUNT-9: dynamo.reduce sum
func.func @depthwise(%g: tensor<1x4x6x6xf32>, %x: tensor<1x4x6x6xf32>, %w: tensor<4x1x3x3xf32>) -> tensor<4x1x3x3xf32> {
  %0:3 = dynamo.aten "aten.convolution_backward.default"(%g, %x, %w)
    args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, unit, [1, 1], [1, 1], [1, 1], false, [0, 0], 4, [false, true, false]]
    {grad_enabled} : (tensor<1x4x6x6xf32>, tensor<1x4x6x6xf32>, tensor<4x1x3x3xf32>) -> (tensor<0xf32>, tensor<4x1x3x3xf32>, tensor<0xf32>)
  return %0#1 : tensor<4x1x3x3xf32>
}

// -----

// Calls for both gradients at once, or with groups of several channels, are left to the library.

// CHECK-LABEL: func.func @declined
// CHECK-NOT: code {
// CHECK: return
func.func @declined(%g: tensor<1x8x6x6xf32>, %x: tensor<1x4x6x6xf32>, %w: tensor<8x2x3x3xf32>) -> tensor<8x2x3x3xf32> {
  %0:3 = dynamo.aten "aten.convolution_backward.default"(%g, %x, %w)
    args [#dynamo.operand<0>, #dynamo.operand<1>, #dynamo.operand<2>, unit, [1, 1], [1, 1], [1, 1], false, [0, 0], 2, [false, true, false]]
    {grad_enabled} : (tensor<1x8x6x6xf32>, tensor<1x4x6x6xf32>, tensor<8x2x3x3xf32>) -> (tensor<0xf32>, tensor<8x2x3x3xf32>, tensor<0xf32>)
  return %0#1 : tensor<8x2x3x3xf32>
}
