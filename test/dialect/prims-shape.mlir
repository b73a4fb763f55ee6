// RUN: dynamlir-opt %s | FileCheck %s
// RUN: dynamlir-opt %s | dynamlir-opt | FileCheck %s
// RUN: dynamlir-opt %s --mlir-print-op-generic | dynamlir-opt | FileCheck %s
// RUN: dynamlir-opt %s --emit-bytecode | dynamlir-opt | FileCheck %s

// Creation and change of shape.

// CHECK-LABEL: func.func @creation
func.func @creation(%k: tensor<2xi64>) {
  // CHECK: dynamo.full 1.000000e+00 : f32 -> tensor<2xf32>
  dynamo.full 1.0 : f32 -> tensor<2xf32>
  // CHECK: dynamo.full 0xFF800000 : f32 -> tensor<f32>
  dynamo.full 0xFF800000 : f32 -> tensor<f32>
  // CHECK: dynamo.full true -> tensor<2xi1>
  dynamo.full true -> tensor<2xi1>
  // CHECK: dynamo.full -3 : i64 -> tensor<0xi64>
  dynamo.full -3 : i64 -> tensor<0xi64>
  // CHECK: dynamo.full 255 : ui8 -> tensor<2xui8>
  dynamo.full 255 : ui8 -> tensor<2xui8>
  // CHECK: dynamo.iota 1 : tensor<2x3xi64>
  dynamo.iota 1 : tensor<2x3xi64>
  // CHECK: dynamo.random %arg0, %arg0 half 0 : tensor<2xi64>
  dynamo.random %k, %k half 0 : tensor<2xi64>
  // CHECK: dynamo.random %arg0, %arg0 half 1 : tensor<2xi64>
  dynamo.random %k, %k half 1 : tensor<2xi64>
  return
}

// CHECK-LABEL: func.func @broadcast
func.func @broadcast(%s: tensor<f32>, %x: tensor<1x3xf32>, %d: tensor<?xf32>) {
  // CHECK: dynamo.broadcast %arg0 dims [] : tensor<f32> -> tensor<4x2xf32>
  dynamo.broadcast %s dims [] : tensor<f32> -> tensor<4x2xf32>
  // CHECK: dynamo.broadcast %arg1 dims [0, 2] : tensor<1x3xf32> -> tensor<4x2x3xf32>
  dynamo.broadcast %x dims [0, 2] : tensor<1x3xf32> -> tensor<4x2x3xf32>
  // CHECK: dynamo.broadcast %arg2 dims [1] : tensor<?xf32> -> tensor<2x?xf32>
  dynamo.broadcast %d dims [1] : tensor<?xf32> -> tensor<2x?xf32>
  return
}

// CHECK-LABEL: func.func @reshape_permute
func.func @reshape_permute(%x: tensor<2x3x4xf32>, %s: tensor<f32>, %d: tensor<?x4xf32>) {
  // CHECK: dynamo.reshape %arg0 : tensor<2x3x4xf32> -> tensor<6x4xf32>
  dynamo.reshape %x : tensor<2x3x4xf32> -> tensor<6x4xf32>
  // CHECK: dynamo.reshape %arg1 : tensor<f32> -> tensor<1x1xf32>
  dynamo.reshape %s : tensor<f32> -> tensor<1x1xf32>
  // CHECK: dynamo.reshape %arg2 : tensor<?x4xf32> -> tensor<?xf32>
  dynamo.reshape %d : tensor<?x4xf32> -> tensor<?xf32>
  // CHECK: dynamo.permute %arg0 dims [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  dynamo.permute %x dims [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  // CHECK: dynamo.permute %arg1 dims [] : tensor<f32> -> tensor<f32>
  dynamo.permute %s dims [] : tensor<f32> -> tensor<f32>
  // CHECK: dynamo.permute %arg2 dims [1, 0] : tensor<?x4xf32> -> tensor<4x?xf32>
  dynamo.permute %d dims [1, 0] : tensor<?x4xf32> -> tensor<4x?xf32>
  return
}

// CHECK-LABEL: func.func @slice_reverse
func.func @slice_reverse(%x: tensor<6x4xf32>, %d: tensor<?xf32>) {
  // CHECK: dynamo.slice %arg0 starts [1, 0] steps [2, 1] : tensor<6x4xf32> -> tensor<3x2xf32>
  dynamo.slice %x starts [1, 0] steps [2, 1] : tensor<6x4xf32> -> tensor<3x2xf32>
  // An empty part may start at the end.
  // CHECK: dynamo.slice %arg0 starts [6, 0] steps [1, 1] : tensor<6x4xf32> -> tensor<0x4xf32>
  dynamo.slice %x starts [6, 0] steps [1, 1] : tensor<6x4xf32> -> tensor<0x4xf32>
  // CHECK: dynamo.slice %arg1 starts [1] steps [1] : tensor<?xf32> -> tensor<?xf32>
  dynamo.slice %d starts [1] steps [1] : tensor<?xf32> -> tensor<?xf32>
  // CHECK: dynamo.reverse %arg0 dims [1, 0] : tensor<6x4xf32> -> tensor<6x4xf32>
  dynamo.reverse %x dims [1, 0] : tensor<6x4xf32> -> tensor<6x4xf32>
  return
}

// CHECK-LABEL: func.func @concatenate_pad
func.func @concatenate_pad(%x: tensor<2x3xf32>, %y: tensor<2x0xf32>, %d: tensor<2x?xf32>) {
  // CHECK: dynamo.concatenate %arg0, %arg1, %arg0 dim 1 : (tensor<2x3xf32>, tensor<2x0xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
  dynamo.concatenate %x, %y, %x dim 1 : (tensor<2x3xf32>, tensor<2x0xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
  // CHECK: dynamo.concatenate %arg2, %arg0 dim 1 : (tensor<2x?xf32>, tensor<2x3xf32>) -> tensor<2x?xf32>
  dynamo.concatenate %d, %x dim 1 : (tensor<2x?xf32>, tensor<2x3xf32>) -> tensor<2x?xf32>
  // CHECK: dynamo.pad %arg0 low [1, 0] high [0, 2] value 0.000000e+00 : f32 : tensor<2x3xf32> -> tensor<3x5xf32>
  dynamo.pad %x low [1, 0] high [0, 2] value 0.0 : f32 : tensor<2x3xf32> -> tensor<3x5xf32>
  // CHECK: dynamo.pad %arg2 low [0, 1] high [0, 0] value 0.000000e+00 : f32 : tensor<2x?xf32> -> tensor<2x?xf32>
  dynamo.pad %d low [0, 1] high [0, 0] value 0.0 : f32 : tensor<2x?xf32> -> tensor<2x?xf32>
  return
}

// Windows: the diagonal of a matrix, overlapping rows, one element many times, and an empty window.
// CHECK-LABEL: func.func @as_strided
func.func @as_strided(%x: tensor<3x3xf32>, %v: tensor<3xf32>) {
  // CHECK: dynamo.as_strided %arg0 strides [4] offset 0 : tensor<3x3xf32> -> tensor<3xf32>
  dynamo.as_strided %x strides [4] offset 0 : tensor<3x3xf32> -> tensor<3xf32>
  // CHECK: dynamo.as_strided %arg0 strides [1, 1] offset 4 : tensor<3x3xf32> -> tensor<3x3xf32>
  dynamo.as_strided %x strides [1, 1] offset 4 : tensor<3x3xf32> -> tensor<3x3xf32>
  // CHECK: dynamo.as_strided %arg0 strides [0] offset 8 : tensor<3x3xf32> -> tensor<100xf32>
  dynamo.as_strided %x strides [0] offset 8 : tensor<3x3xf32> -> tensor<100xf32>
  // CHECK: dynamo.as_strided %arg0 strides [] offset 2 : tensor<3x3xf32> -> tensor<f32>
  dynamo.as_strided %x strides [] offset 2 : tensor<3x3xf32> -> tensor<f32>
  // CHECK: dynamo.as_strided %arg0 strides [1] offset 99 : tensor<3x3xf32> -> tensor<0xf32>
  dynamo.as_strided %x strides [1] offset 99 : tensor<3x3xf32> -> tensor<0xf32>
  // CHECK: dynamo.as_strided_scatter %arg0, %arg1 strides [4] offset 0 : tensor<3x3xf32>, tensor<3xf32> -> tensor<3x3xf32>
  dynamo.as_strided_scatter %x, %v strides [4] offset 0 : tensor<3x3xf32>, tensor<3xf32> -> tensor<3x3xf32>
  return
}

// CHECK-LABEL: func.func @gather
func.func @gather(%table: tensor<10x4xf32>, %i: tensor<3xi64>, %s: tensor<bf16>) {
  // CHECK: dynamo.gather %arg0[%arg1, %arg1] : tensor<10x4xf32>, tensor<3xi64>, tensor<3xi64> -> tensor<3xf32>
  dynamo.gather %table[%i, %i] : tensor<10x4xf32>, tensor<3xi64>, tensor<3xi64> -> tensor<3xf32>
  // CHECK: dynamo.gather %arg2[] : tensor<bf16> -> tensor<7xbf16>
  dynamo.gather %s[] : tensor<bf16> -> tensor<7xbf16>
  return
}

// CHECK-LABEL: func.func @scatter
func.func @scatter(%x: tensor<9x4xf32>, %i: tensor<3x4xi64>, %rows: tensor<3x4xf32>, %m: tensor<ui8>, %n: tensor<5xui8>) {
  // CHECK: dynamo.scatter %arg2 into %arg0[%arg1] dims [-1, 1] by sum : tensor<9x4xf32>, tensor<3x4xi64>, tensor<3x4xf32> -> tensor<9x4xf32>
  dynamo.scatter %rows into %x[%i] dims [-1, 1] by sum : tensor<9x4xf32>, tensor<3x4xi64>, tensor<3x4xf32> -> tensor<9x4xf32>
  // CHECK: dynamo.scatter %arg2 into %arg0[%arg1, %arg1] dims [-1, -1] : tensor<9x4xf32>, tensor<3x4xi64>, tensor<3x4xi64>, tensor<3x4xf32> -> tensor<9x4xf32>
  dynamo.scatter %rows into %x[%i, %i] dims [-1, -1] : tensor<9x4xf32>, tensor<3x4xi64>, tensor<3x4xi64>, tensor<3x4xf32> -> tensor<9x4xf32>
  // All elements go to the single place of a 0-d base.
  // CHECK: dynamo.scatter %arg4 into %arg3[] dims [] by prod : tensor<ui8>, tensor<5xui8> -> tensor<ui8>
  dynamo.scatter %n into %m[] dims [] by prod : tensor<ui8>, tensor<5xui8> -> tensor<ui8>
  return
}
