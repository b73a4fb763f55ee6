// RUN: dynamlir-opt %s --dynamo-to-linalg | FileCheck %s
//
// Every pair of element types that needs its own conversion. The checks for a conversion are above it.

module @kernels {

// Narrow integers are converted through wide ones; a bool is true if the value is not 0, which includes NaN.
// CHECK-LABEL: func.func @from_f32
// CHECK: ^bb0(%[[X:[^:]*]]: f32,
func.func @from_f32(%x: memref<4xf32>, %out_bf16: memref<4xbf16>, %out_f16: memref<4xf16>, %out_f64: memref<4xf64>, %out_i32: memref<4xi32>, %out_i64: memref<4xi64>, %out_i8: memref<4xi8>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %m = bufferization.to_tensor %x restrict : memref<4xf32> to tensor<4xf32>
  // CHECK: arith.extf %[[X]] : f32 to f64
  %0 = dynamo.convert %m : tensor<4xf32> -> tensor<4xf64>
  // CHECK: arith.truncf %[[X]] : f32 to bf16
  %1 = dynamo.convert %m : tensor<4xf32> -> tensor<4xbf16>
  // CHECK: arith.truncf %[[X]] : f32 to f16
  %2 = dynamo.convert %m : tensor<4xf32> -> tensor<4xf16>
  // CHECK: arith.fptosi %[[X]] : f32 to i64
  %3 = dynamo.convert %m : tensor<4xf32> -> tensor<4xi64>
  // CHECK: arith.fptosi %[[X]] : f32 to i32
  %4 = dynamo.convert %m : tensor<4xf32> -> tensor<4xi32>
  // CHECK: %[[W:.*]] = arith.fptosi %[[X]] : f32 to i32
  // CHECK-NEXT: arith.trunci %[[W]] : i32 to i8
  %5 = dynamo.convert %m : tensor<4xf32> -> tensor<4xi8>
  // CHECK: %[[V:.*]] = arith.fptosi %[[X]] : f32 to i64
  // CHECK-NEXT: arith.trunci %[[V]] : i64 to i8
  %6 = dynamo.convert %m : tensor<4xf32> -> tensor<4xui8>
  %m6 = dynamo.bitcast %6 : tensor<4xui8> -> tensor<4xi8>
  // CHECK: %[[Z:.*]] = arith.constant 0.000000e+00 : f32
  // CHECK-NEXT: arith.cmpf une, %[[X]], %[[Z]] : f32
  %7 = dynamo.convert %m : tensor<4xf32> -> tensor<4xi1>
  %m7 = dynamo.convert %7 : tensor<4xi1> -> tensor<4xi8>
  bufferization.materialize_in_destination %0 in restrict writable %out_f64 : (tensor<4xf64>, memref<4xf64>) -> ()
  bufferization.materialize_in_destination %1 in restrict writable %out_bf16 : (tensor<4xbf16>, memref<4xbf16>) -> ()
  bufferization.materialize_in_destination %2 in restrict writable %out_f16 : (tensor<4xf16>, memref<4xf16>) -> ()
  bufferization.materialize_in_destination %3 in restrict writable %out_i64 : (tensor<4xi64>, memref<4xi64>) -> ()
  bufferization.materialize_in_destination %4 in restrict writable %out_i32 : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %5 in restrict writable %out_i8 : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m6 in restrict writable %out_i8 : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m7 in restrict writable %out_i8 : (tensor<4xi8>, memref<4xi8>) -> ()
  return
}

// 16-bit floats are converted through f32.
// CHECK-LABEL: func.func @from_f64
// CHECK: ^bb0(%[[X:[^:]*]]: f64,
func.func @from_f64(%x: memref<4xf64>, %out_bf16: memref<4xbf16>, %out_f32: memref<4xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %m = bufferization.to_tensor %x restrict : memref<4xf64> to tensor<4xf64>
  // CHECK: %[[S:.*]] = arith.truncf %[[X]] : f64 to f32
  // CHECK-NEXT: arith.truncf %[[S]] : f32 to bf16
  %0 = dynamo.convert %m : tensor<4xf64> -> tensor<4xbf16>
  // CHECK: arith.truncf %[[X]] : f64 to f32
  %1 = dynamo.convert %m : tensor<4xf64> -> tensor<4xf32>
  bufferization.materialize_in_destination %0 in restrict writable %out_bf16 : (tensor<4xbf16>, memref<4xbf16>) -> ()
  bufferization.materialize_in_destination %1 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// And in the same way to 16-bit floats.
// CHECK-LABEL: func.func @from_f16
// CHECK: ^bb0(%[[X:[^:]*]]: f16,
func.func @from_f16(%x: memref<4xf16>, %out_bf16: memref<4xbf16>, %out_f64: memref<4xf64>, %out_i32: memref<4xi32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %m = bufferization.to_tensor %x restrict : memref<4xf16> to tensor<4xf16>
  // CHECK: %[[S:.*]] = arith.extf %[[X]] : f16 to f32
  // CHECK-NEXT: arith.extf %[[S]] : f32 to f64
  %0 = dynamo.convert %m : tensor<4xf16> -> tensor<4xf64>
  // CHECK: %[[T:.*]] = arith.extf %[[X]] : f16 to f32
  // CHECK-NEXT: arith.truncf %[[T]] : f32 to bf16
  %1 = dynamo.convert %m : tensor<4xf16> -> tensor<4xbf16>
  // CHECK: %[[U:.*]] = arith.extf %[[X]] : f16 to f32
  // CHECK-NEXT: arith.fptosi %[[U]] : f32 to i32
  %2 = dynamo.convert %m : tensor<4xf16> -> tensor<4xi32>
  bufferization.materialize_in_destination %0 in restrict writable %out_f64 : (tensor<4xf64>, memref<4xf64>) -> ()
  bufferization.materialize_in_destination %1 in restrict writable %out_bf16 : (tensor<4xbf16>, memref<4xbf16>) -> ()
  bufferization.materialize_in_destination %2 in restrict writable %out_i32 : (tensor<4xi32>, memref<4xi32>) -> ()
  return
}

// Rounding to bf16 is explicit: canonicalization would fuse it with the conversion before it.
// CHECK-LABEL: func.func @from_i64
// CHECK: ^bb0(%[[X:[^:]*]]: i64,
func.func @from_i64(%x: memref<4xi64>, %out_bf16: memref<4xbf16>, %out_f16: memref<4xf16>, %out_f32: memref<4xf32>, %out_i8: memref<4xi8>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %m = bufferization.to_tensor %x restrict : memref<4xi64> to tensor<4xi64>
  // CHECK: arith.sitofp %[[X]] : i64 to f32
  %0 = dynamo.convert %m : tensor<4xi64> -> tensor<4xf32>
  // CHECK: %[[S:.*]] = arith.sitofp %[[X]] : i64 to f32
  // CHECK-NEXT: arith.truncf %[[S]] : f32 to f16
  %1 = dynamo.convert %m : tensor<4xi64> -> tensor<4xf16>
  // CHECK: %[[T:.*]] = arith.sitofp %[[X]] : i64 to f32
  // CHECK-NEXT: %[[BITS:.*]] = arith.bitcast %[[T]] : f32 to i32
  // CHECK: arith.trunci %{{.*}} : i32 to i16
  // CHECK-NEXT: arith.bitcast %{{.*}} : i16 to bf16
  %2 = dynamo.convert %m : tensor<4xi64> -> tensor<4xbf16>
  // CHECK: arith.trunci %[[X]] : i64 to i8
  %3 = dynamo.convert %m : tensor<4xi64> -> tensor<4xi8>
  // CHECK: arith.trunci %[[X]] : i64 to i8
  %4 = dynamo.convert %m : tensor<4xi64> -> tensor<4xui8>
  %m4 = dynamo.bitcast %4 : tensor<4xui8> -> tensor<4xi8>
  // CHECK: arith.cmpi ne, %[[X]], %{{.*}} : i64
  %5 = dynamo.convert %m : tensor<4xi64> -> tensor<4xi1>
  %m5 = dynamo.convert %5 : tensor<4xi1> -> tensor<4xi8>
  bufferization.materialize_in_destination %0 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %1 in restrict writable %out_f16 : (tensor<4xf16>, memref<4xf16>) -> ()
  bufferization.materialize_in_destination %2 in restrict writable %out_bf16 : (tensor<4xbf16>, memref<4xbf16>) -> ()
  bufferization.materialize_in_destination %3 in restrict writable %out_i8 : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m4 in restrict writable %out_i8 : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m5 in restrict writable %out_i8 : (tensor<4xi8>, memref<4xi8>) -> ()
  return
}

// Signed: the sign is extended.
// CHECK-LABEL: func.func @from_i8
// CHECK: ^bb0(%[[X:[^:]*]]: i8,
func.func @from_i8(%x: memref<4xi8>, %out_f32: memref<4xf32>, %out_i32: memref<4xi32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %m = bufferization.to_tensor %x restrict : memref<4xi8> to tensor<4xi8>
  // CHECK: arith.extsi %[[X]] : i8 to i32
  %0 = dynamo.convert %m : tensor<4xi8> -> tensor<4xi32>
  // CHECK: arith.sitofp %[[X]] : i8 to f32
  %1 = dynamo.convert %m : tensor<4xi8> -> tensor<4xf32>
  bufferization.materialize_in_destination %0 in restrict writable %out_i32 : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %1 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// Unsigned: zeros are. A conversion to i8 does nothing.
// CHECK-LABEL: func.func @from_ui8
// CHECK: ^bb0(%[[X:[^:]*]]: i8,
func.func @from_ui8(%x: memref<4xi8>, %out_f32: memref<4xf32>, %out_i32: memref<4xi32>, %out_i8: memref<4xi8>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %m = bufferization.to_tensor %x restrict : memref<4xi8> to tensor<4xi8>
  %u = dynamo.bitcast %m : tensor<4xi8> -> tensor<4xui8>
  // CHECK: arith.extui %[[X]] : i8 to i32
  %0 = dynamo.convert %u : tensor<4xui8> -> tensor<4xi32>
  // CHECK: arith.uitofp %[[X]] : i8 to f32
  %1 = dynamo.convert %u : tensor<4xui8> -> tensor<4xf32>
  %2 = dynamo.convert %u : tensor<4xui8> -> tensor<4xi8>
  bufferization.materialize_in_destination %0 in restrict writable %out_i32 : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %1 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %2 in restrict writable %out_i8 : (tensor<4xi8>, memref<4xi8>) -> ()
  return
}

// Bool is 0 or 1.
// CHECK-LABEL: func.func @from_i1
// CHECK: ^bb0(%[[X:[^:]*]]: i8,
func.func @from_i1(%x: memref<4xi8>, %out_f32: memref<4xf32>, %out_i64: memref<4xi64>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %m = bufferization.to_tensor %x restrict : memref<4xi8> to tensor<4xi8>
  // CHECK: %[[B:.*]] = arith.cmpi ne, %[[X]], %{{.*}} : i8
  %u = dynamo.convert %m : tensor<4xi8> -> tensor<4xi1>
  // CHECK: arith.extui %[[B]] : i1 to i64
  %0 = dynamo.convert %u : tensor<4xi1> -> tensor<4xi64>
  // CHECK: arith.uitofp %[[B]] : i1 to f32
  %1 = dynamo.convert %u : tensor<4xi1> -> tensor<4xf32>
  bufferization.materialize_in_destination %0 in restrict writable %out_i64 : (tensor<4xi64>, memref<4xi64>) -> ()
  bufferization.materialize_in_destination %1 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}
}
