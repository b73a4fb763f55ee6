// RUN: dynamlir-opt %s --split-input-file --dynamo-attach-target=vector-bits=512 --dynamo-fuse --dynamo-plan | FileCheck %s

// Kernels of attention and of windows read with vectors of distances, which have 32 bits. Elements that are farther apart in
// memory are copied first; at a distance smaller by one element they are read in place.

// CHECK-LABEL: func.func @far_mask
// CHECK:         dynamo.launch @kernels::@copy(
// CHECK:         dynamo.launch @kernels::@{{.*}}attention
func.func @far_mask(%q: tensor<1x1x32x64xf32>, %k: tensor<1x1x9x64xf32>, %v: tensor<1x1x9x64xf32>,
    %m: tensor<1x1x32x9xf32> {dynamo.strides = array<i64: 0, 0, 0, 268435456>, dynamo.offset = 0 : i64})
    -> tensor<1x1x32x64xf32> attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.attention %q, %k, %v mask %m scale 1.0 : tensor<1x1x32x64xf32>, tensor<1x1x9x64xf32>, tensor<1x1x9x64xf32>, tensor<1x1x32x9xf32> -> tensor<1x1x32x64xf32>
  return %0 : tensor<1x1x32x64xf32>
}

// -----

// CHECK-LABEL: func.func @near_mask
// CHECK-NOT:     @copy
// CHECK:         dynamo.launch @kernels::@{{.*}}attention
func.func @near_mask(%q: tensor<1x1x32x64xf32>, %k: tensor<1x1x9x64xf32>, %v: tensor<1x1x9x64xf32>,
    %m: tensor<1x1x32x9xf32> {dynamo.strides = array<i64: 0, 0, 0, 268435455>, dynamo.offset = 0 : i64})
    -> tensor<1x1x32x64xf32> attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.attention %q, %k, %v mask %m scale 1.0 : tensor<1x1x32x64xf32>, tensor<1x1x9x64xf32>, tensor<1x1x9x64xf32>, tensor<1x1x32x9xf32> -> tensor<1x1x32x64xf32>
  return %0 : tensor<1x1x32x64xf32>
}

// -----

// CHECK-LABEL: func.func @far_images
// CHECK:         dynamo.launch @kernels::@copy(
// CHECK:         dynamo.launch @kernels::@{{.*}}max_pool
func.func @far_images(%x: tensor<3x8x16x16xf32> {dynamo.strides = array<i64: 1073741824, 256, 16, 1>, dynamo.offset = 0 : i64})
    -> tensor<3x8x8x8xf32> attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
  %0 = dynamo.max_pool %x window [2, 2] strides [2, 2] padding [0, 0] dilation [1, 1] : tensor<3x8x16x16xf32> -> tensor<3x8x8x8xf32>
  return %0 : tensor<3x8x8x8xf32>
}
