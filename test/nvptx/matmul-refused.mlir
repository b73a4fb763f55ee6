// Matrix products that do not become GPU code, and the reasons.

// RUN: dynamlir-opt %s --pass-pipeline='builtin.module(dynamo-schedule-gpu,dynamo-to-gpu)' | FileCheck %s

// Eager computes products of f32 in f32, unless a setting allows less precision.
// CHECK: func.func @single
// CHECK-SAME: dynamo.no_gpu = "a product of f32: the tensor cores would round its operands to tf32"
func.func @single(%a: memref<8x8xf32>, %c: memref<8x8xf32>) attributes {dynamo.kernel} {
  %0 = bufferization.to_tensor %a restrict : memref<8x8xf32> to tensor<8x8xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %p = linalg.matmul ins(%0, %0 : tensor<8x8xf32>, tensor<8x8xf32>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
  bufferization.materialize_in_destination %p in restrict writable %c : (tensor<8x8xf32>, memref<8x8xf32>) -> ()
  return
}

// Sums computed in f16 would differ from eager's.
// CHECK: func.func @narrow
// CHECK-SAME: dynamo.no_gpu = "a product of f16 and f16 in f16"
func.func @narrow(%a: memref<8x8xf16>, %c: memref<8x8xf16>) attributes {dynamo.kernel} {
  %0 = bufferization.to_tensor %a restrict : memref<8x8xf16> to tensor<8x8xf16>
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<8x8xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<8x8xf16>) -> tensor<8x8xf16>
  %p = linalg.matmul ins(%0, %0 : tensor<8x8xf16>, tensor<8x8xf16>) outs(%f : tensor<8x8xf16>) -> tensor<8x8xf16>
  bufferization.materialize_in_destination %p in restrict writable %c : (tensor<8x8xf16>, memref<8x8xf16>) -> ()
  return
}

// CHECK: func.func @accumulated
// CHECK-SAME: dynamo.no_gpu = "a product that is added to something"
func.func @accumulated(%a: memref<8x8xf16>, %c: memref<8x8xf32>) attributes {dynamo.kernel} {
  %0 = bufferization.to_tensor %a restrict : memref<8x8xf16> to tensor<8x8xf16>
  %1 = bufferization.to_tensor %c restrict : memref<8x8xf32> to tensor<8x8xf32>
  %p = linalg.matmul ins(%0, %0 : tensor<8x8xf16>, tensor<8x8xf16>) outs(%1 : tensor<8x8xf32>) -> tensor<8x8xf32>
  bufferization.materialize_in_destination %p in restrict writable %c : (tensor<8x8xf32>, memref<8x8xf32>) -> ()
  return
}

// A product of a transposed operand, expressed by maps instead of strides.
// CHECK: func.func @maps
// CHECK-SAME: dynamo.no_gpu = "a product of matrices that are indexed otherwise"
func.func @maps(%a: memref<8x8xf16>, %c: memref<8x8xf32>) attributes {dynamo.kernel} {
  %0 = bufferization.to_tensor %a restrict : memref<8x8xf16> to tensor<8x8xf16>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %p = linalg.matmul
      indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>]
      ins(%0, %0 : tensor<8x8xf16>, tensor<8x8xf16>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
  bufferization.materialize_in_destination %p in restrict writable %c : (tensor<8x8xf32>, memref<8x8xf32>) -> ()
  return
}
