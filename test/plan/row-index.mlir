// RUN: dynamlir-opt %s --dynamo-fuse --dynamo-plan | FileCheck %s

// Memory runs along the second dimension of the domain, which therefore becomes the outermost of the row's loops. An index
// along it is adapted: it counts dimensions of the row, not of the domain.

// CHECK: func.func @{{.*}}exp{{.*}}dynamo.domain = array<i64: 4, 3, 2>{{.*}}dynamo.reduced_dims = array<i64: 0>
// CHECK: dynamo.reduce sum %{{.*}} dims [0] : tensor<4x3x2xf32> -> tensor<3x2xf32>
// CHECK: dynamo.iota 0 : tensor<3x2xi64>
module {
  func.func @main(%x: tensor<4x3xf32> {dynamo.strides = array<i64: 3, 1>, dynamo.offset = 0 : i64}) -> (tensor<2x3xf32> {dynamo.strides = array<i64: 3, 1>})
      attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
    %t = dynamo.permute %x dims [1, 0] : tensor<4x3xf32> -> tensor<3x4xf32>
    %b = dynamo.broadcast %t dims [1, 2] : tensor<3x4xf32> -> tensor<2x3x4xf32>
    %first = dynamo.iota 0 : tensor<2x3x4xi64>
    %f = dynamo.convert %first : tensor<2x3x4xi64> -> tensor<2x3x4xf32>
    %a = dynamo.add %b, %f : tensor<2x3x4xf32>
    %e = dynamo.exp %a : tensor<2x3x4xf32>
    %s = dynamo.reduce sum %e dims [2] : tensor<2x3x4xf32> -> tensor<2x3xf32>
    %i = dynamo.iota 1 : tensor<2x3xi64>
    %j = dynamo.convert %i : tensor<2x3xi64> -> tensor<2x3xf32>
    %r = dynamo.add %s, %j : tensor<2x3xf32>
    return %r : tensor<2x3xf32>
  }
}
