// Kernels that do not become GPU code. They remain as they are, with the reason.

// RUN: dynamlir-opt %s --pass-pipeline='builtin.module(dynamo-schedule-gpu,dynamo-to-gpu)' | FileCheck %s

#plane = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#point = affine_map<(d0) -> (d0)>
#all = affine_map<(d0) -> ()>
#twice = affine_map<(d0) -> (d0 * 2)>

// A scan: the result at a point depends on the points before it.
// CHECK: func.func @scan
// CHECK-SAME: dynamo.no_gpu = "phase 0 is a scan: its points depend on the ones before"
func.func @scan(%a: memref<8x16xf64>, %c: memref<8x16xf64>) attributes {dynamo.kernel} {
  %0 = bufferization.to_tensor %a restrict : memref<8x16xf64> to tensor<8x16xf64>
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<8x16xf64>
  %g = tensor.empty() : tensor<8xf64>
  %f = linalg.fill ins(%zero : f64) outs(%g : tensor<8xf64>) -> tensor<8xf64>
  %r:2 = linalg.generic {indexing_maps = [#plane, #plane, #row], iterator_types = ["parallel", "reduction"]}
      ins(%0 : tensor<8x16xf64>) outs(%e, %f : tensor<8x16xf64>, tensor<8xf64>) attrs = {dynamo.phase = 0 : i64, dynamo.scan = 1 : i64} {
  ^bb0(%x: f64, %o: f64, %p: f64):
    %s = arith.addf %p, %x : f64
    linalg.yield %s, %s : f64, f64
  } -> (tensor<8x16xf64>, tensor<8xf64>)
  bufferization.materialize_in_destination %r#0 in restrict writable %c : (tensor<8x16xf64>, memref<8x16xf64>) -> ()
  return
}

// A reduction whose partial results cannot be combined: the order of subtractions matters.
// CHECK: func.func @difference
// CHECK-SAME: dynamo.no_gpu = "reduction 0 of phase 0 is none that pieces can be combined of"
func.func @difference(%a: memref<16xf32>, %c: memref<f32>) attributes {dynamo.kernel} {
  %0 = bufferization.to_tensor %a restrict : memref<16xf32> to tensor<16xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %r = linalg.generic {indexing_maps = [#point, #all], iterator_types = ["reduction"]}
      ins(%0 : tensor<16xf32>) outs(%f : tensor<f32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%x: f32, %o: f32):
    %s = arith.subf %o, %x : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  bufferization.materialize_in_destination %r in restrict writable %c : (tensor<f32>, memref<f32>) -> ()
  return
}

// A sum that starts from 1: each thread would start from it.
// CHECK: func.func @one_more
// CHECK-SAME: dynamo.no_gpu = "reduction 0 of phase 0 is none that pieces can be combined of"
func.func @one_more(%a: memref<16xf32>, %c: memref<f32>) attributes {dynamo.kernel} {
  %0 = bufferization.to_tensor %a restrict : memref<16xf32> to tensor<16xf32>
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%one : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %r = linalg.generic {indexing_maps = [#point, #all], iterator_types = ["reduction"]}
      ins(%0 : tensor<16xf32>) outs(%f : tensor<f32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%x: f32, %o: f32):
    %s = arith.addf %o, %x : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  bufferization.materialize_in_destination %r in restrict writable %c : (tensor<f32>, memref<f32>) -> ()
  return
}

// Every second element.
// CHECK: func.func @strided_map
// CHECK-SAME: dynamo.no_gpu = "phase 0 is not affine and static"
func.func @strided_map(%a: memref<16xf32>, %c: memref<8xf32>) attributes {dynamo.kernel} {
  %0 = bufferization.to_tensor %a restrict : memref<16xf32> to tensor<16xf32>
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#twice, #point], iterator_types = ["parallel"]}
      ins(%0 : tensor<16xf32>) outs(%e : tensor<8xf32>) attrs = {dynamo.phase = 0 : i64} {
  ^bb0(%x: f32, %o: f32):
    linalg.yield %x : f32
  } -> tensor<8xf32>
  bufferization.materialize_in_destination %r in restrict writable %c : (tensor<8xf32>, memref<8xf32>) -> ()
  return
}

// Loops of a scatter: writes by index, in order.
// CHECK: func.func @loops
// CHECK-SAME: dynamo.no_gpu = "it has a scf.for"
func.func @loops(%a: memref<16xf32>, %c: memref<16xf32>) attributes {dynamo.kernel} {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %n = arith.constant 16 : index
  scf.for %i = %0 to %n step %1 {
    %x = memref.load %a[%i] : memref<16xf32>
    memref.store %x, %c[%i] : memref<16xf32>
  }
  return
}
