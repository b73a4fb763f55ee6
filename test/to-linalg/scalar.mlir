// RUN: dynamlir-opt %s --dynamo-to-linalg | FileCheck %s
//
// Each primitive has a lowering for each class of element types. The checks for a primitive are above it.

module @kernels {

// Functions that MLIR does not have as operations are called, and declared once.
// CHECK-DAG: func.func private @hypot(f64, f64) -> f64 attributes {llvm.readnone}
// CHECK-DAG: func.func private @hypotf(f32, f32) -> f32 attributes {llvm.readnone}
// CHECK-DAG: func.func private @lgammaf(f32) -> f32 attributes {llvm.readnone}

// Floats, one operand.
// CHECK-LABEL: func.func @float_unary
// CHECK: ^bb0(%[[A:[^:]*]]: f32
func.func @float_unary(%a: memref<4xf32>, %out_f32: memref<4xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %a_ = bufferization.to_tensor %a restrict : memref<4xf32> to tensor<4xf32>
  // CHECK: arith.negf %[[A]] : f32
  %0 = dynamo.neg %a_ : tensor<4xf32>
  // CHECK: math.absf %[[A]] : f32
  %1 = dynamo.abs %a_ : tensor<4xf32>
  // CHECK: math.exp %[[A]] : f32
  %2 = dynamo.exp %a_ : tensor<4xf32>
  // CHECK: math.exp2 %[[A]] : f32
  %3 = dynamo.exp2 %a_ : tensor<4xf32>
  // CHECK: math.expm1 %[[A]] : f32
  %4 = dynamo.expm1 %a_ : tensor<4xf32>
  // CHECK: math.log %[[A]] : f32
  %5 = dynamo.log %a_ : tensor<4xf32>
  // CHECK: math.log2 %[[A]] : f32
  %6 = dynamo.log2 %a_ : tensor<4xf32>
  // CHECK: math.log10 %[[A]] : f32
  %7 = dynamo.log10 %a_ : tensor<4xf32>
  // CHECK: math.log1p %[[A]] : f32
  %8 = dynamo.log1p %a_ : tensor<4xf32>
  // CHECK: math.sqrt %[[A]] : f32
  %9 = dynamo.sqrt %a_ : tensor<4xf32>
  // CHECK: math.sin %[[A]] : f32
  %10 = dynamo.sin %a_ : tensor<4xf32>
  // CHECK: math.cos %[[A]] : f32
  %11 = dynamo.cos %a_ : tensor<4xf32>
  // CHECK: math.tan %[[A]] : f32
  %12 = dynamo.tan %a_ : tensor<4xf32>
  // CHECK: math.asin %[[A]] : f32
  %13 = dynamo.asin %a_ : tensor<4xf32>
  // CHECK: math.acos %[[A]] : f32
  %14 = dynamo.acos %a_ : tensor<4xf32>
  // CHECK: math.atan %[[A]] : f32
  %15 = dynamo.atan %a_ : tensor<4xf32>
  // CHECK: math.sinh %[[A]] : f32
  %16 = dynamo.sinh %a_ : tensor<4xf32>
  // CHECK: math.cosh %[[A]] : f32
  %17 = dynamo.cosh %a_ : tensor<4xf32>
  // CHECK: math.tanh %[[A]] : f32
  %18 = dynamo.tanh %a_ : tensor<4xf32>
  // CHECK: math.asinh %[[A]] : f32
  %19 = dynamo.asinh %a_ : tensor<4xf32>
  // CHECK: math.acosh %[[A]] : f32
  %20 = dynamo.acosh %a_ : tensor<4xf32>
  // CHECK: math.atanh %[[A]] : f32
  %21 = dynamo.atanh %a_ : tensor<4xf32>
  // CHECK: math.erf %[[A]] : f32
  %22 = dynamo.erf %a_ : tensor<4xf32>
  // CHECK: math.erfc %[[A]] : f32
  %23 = dynamo.erfc %a_ : tensor<4xf32>
  // CHECK: math.floor %[[A]] : f32
  %24 = dynamo.floor %a_ : tensor<4xf32>
  // CHECK: math.ceil %[[A]] : f32
  %25 = dynamo.ceil %a_ : tensor<4xf32>
  // CHECK: math.roundeven %[[A]] : f32
  %26 = dynamo.round %a_ : tensor<4xf32>
  // CHECK: math.trunc %[[A]] : f32
  %27 = dynamo.trunc %a_ : tensor<4xf32>
  // CHECK: %[[ROOT:.*]] = math.sqrt %[[A]] : f32
  // CHECK-NEXT: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
  // CHECK-NEXT: arith.divf %[[ONE]], %[[ROOT]] : f32
  %28 = dynamo.rsqrt %a_ : tensor<4xf32>
  // CHECK: call @lgammaf(%[[A]]) : (f32) -> f32
  %29 = dynamo.lgamma %a_ : tensor<4xf32>
  bufferization.materialize_in_destination %0 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %1 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %2 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %3 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %4 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %5 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %6 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %7 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %8 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %9 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %10 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %11 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %12 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %13 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %14 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %15 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %16 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %17 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %18 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %19 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %20 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %21 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %22 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %23 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %24 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %25 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %26 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %27 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %28 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %29 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// Floats, two operands. No fast-math flags.
// CHECK-LABEL: func.func @float_binary
// CHECK: ^bb0(%[[A:[^:]*]]: f32, %[[B:[^:]*]]: f32
func.func @float_binary(%a: memref<4xf32>, %b: memref<4xf32>, %out_f32: memref<4xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %a_ = bufferization.to_tensor %a restrict : memref<4xf32> to tensor<4xf32>
  %b_ = bufferization.to_tensor %b restrict : memref<4xf32> to tensor<4xf32>
  // CHECK: arith.addf %[[A]], %[[B]] : f32
  %0 = dynamo.add %a_, %b_ : tensor<4xf32>
  // CHECK: arith.subf %[[A]], %[[B]] : f32
  %1 = dynamo.sub %a_, %b_ : tensor<4xf32>
  // CHECK: arith.mulf %[[A]], %[[B]] : f32
  %2 = dynamo.mul %a_, %b_ : tensor<4xf32>
  // CHECK: arith.divf %[[A]], %[[B]] : f32
  %3 = dynamo.div %a_, %b_ : tensor<4xf32>
  // CHECK: arith.remf %[[A]], %[[B]] : f32
  %4 = dynamo.rem %a_, %b_ : tensor<4xf32>
  // CHECK: arith.maximumf %[[A]], %[[B]] : f32
  %5 = dynamo.max %a_, %b_ : tensor<4xf32>
  // CHECK: arith.minimumf %[[A]], %[[B]] : f32
  %6 = dynamo.min %a_, %b_ : tensor<4xf32>
  // CHECK: math.powf %[[A]], %[[B]] : f32
  %7 = dynamo.pow %a_, %b_ : tensor<4xf32>
  // CHECK: math.atan2 %[[A]], %[[B]] : f32
  %8 = dynamo.atan2 %a_, %b_ : tensor<4xf32>
  // CHECK: math.copysign %[[A]], %[[B]] : f32
  %9 = dynamo.copysign %a_, %b_ : tensor<4xf32>
  // CHECK: call @hypotf(%[[A]], %[[B]]) : (f32, f32) -> f32
  %10 = dynamo.hypot %a_, %b_ : tensor<4xf32>
  // The bits, plus or minus one.
  // CHECK: %[[BITS:.*]] = arith.bitcast %[[A]] : f32 to i32
  // CHECK: arith.addi %[[BITS]], %{{.*}} : i32
  // CHECK: arith.cmpf uno, %[[A]], %[[B]] : f32
  %11 = dynamo.nextafter %a_, %b_ : tensor<4xf32>
  bufferization.materialize_in_destination %0 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %1 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %2 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %3 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %4 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %5 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %6 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %7 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %8 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %9 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %10 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %11 in restrict writable %out_f32 : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// The same in double precision.
// CHECK-LABEL: func.func @double
// CHECK: ^bb0(%[[A:[^:]*]]: f64, %[[B:[^:]*]]: f64
func.func @double(%a: memref<4xf64>, %b: memref<4xf64>, %out_f64: memref<4xf64>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %a_ = bufferization.to_tensor %a restrict : memref<4xf64> to tensor<4xf64>
  %b_ = bufferization.to_tensor %b restrict : memref<4xf64> to tensor<4xf64>
  // CHECK: math.exp %[[A]] : f64
  %0 = dynamo.exp %a_ : tensor<4xf64>
  // CHECK: call @hypot(%[[A]], %[[B]]) : (f64, f64) -> f64
  %1 = dynamo.hypot %a_, %b_ : tensor<4xf64>
  bufferization.materialize_in_destination %0 in restrict writable %out_f64 : (tensor<4xf64>, memref<4xf64>) -> ()
  bufferization.materialize_in_destination %1 in restrict writable %out_f64 : (tensor<4xf64>, memref<4xf64>) -> ()
  return
}

// 16-bit floats are computed in f32.
// CHECK-LABEL: func.func @half
// CHECK: ^bb0(%[[A:[^:]*]]: bf16, %[[B:[^:]*]]: bf16
func.func @half(%a: memref<4xbf16>, %b: memref<4xbf16>, %out_bf16: memref<4xbf16>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %a_ = bufferization.to_tensor %a restrict : memref<4xbf16> to tensor<4xbf16>
  %b_ = bufferization.to_tensor %b restrict : memref<4xbf16> to tensor<4xbf16>
  // CHECK: %[[WA:.*]] = arith.extf %[[A]] : bf16 to f32
  // CHECK-NEXT: %[[WB:.*]] = arith.extf %[[B]] : bf16 to f32
  // CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[WA]], %[[WB]] : f32
  // CHECK-NEXT: arith.truncf %[[SUM]] : f32 to bf16
  %0 = dynamo.add %a_, %b_ : tensor<4xbf16>
  bufferization.materialize_in_destination %0 in restrict writable %out_bf16 : (tensor<4xbf16>, memref<4xbf16>) -> ()
  return
}

// Signed integers. A shift by too much, or by a negative count, gives 0 to the left and the sign to the right.
// CHECK-LABEL: func.func @signed
// CHECK: ^bb0(%[[A:[^:]*]]: i32, %[[B:[^:]*]]: i32
func.func @signed(%a: memref<4xi32>, %b: memref<4xi32>, %out_i32: memref<4xi32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %a_ = bufferization.to_tensor %a restrict : memref<4xi32> to tensor<4xi32>
  %b_ = bufferization.to_tensor %b restrict : memref<4xi32> to tensor<4xi32>
  // CHECK: arith.addi %[[A]], %[[B]] : i32
  %0 = dynamo.add %a_, %b_ : tensor<4xi32>
  // CHECK: arith.subi %[[A]], %[[B]] : i32
  %1 = dynamo.sub %a_, %b_ : tensor<4xi32>
  // CHECK: arith.muli %[[A]], %[[B]] : i32
  %2 = dynamo.mul %a_, %b_ : tensor<4xi32>
  // CHECK: arith.divsi %[[A]], %[[B]] : i32
  %3 = dynamo.div %a_, %b_ : tensor<4xi32>
  // CHECK: arith.remsi %[[A]], %[[B]] : i32
  %4 = dynamo.rem %a_, %b_ : tensor<4xi32>
  // CHECK: arith.maxsi %[[A]], %[[B]] : i32
  %5 = dynamo.max %a_, %b_ : tensor<4xi32>
  // CHECK: arith.minsi %[[A]], %[[B]] : i32
  %6 = dynamo.min %a_, %b_ : tensor<4xi32>
  // CHECK: arith.andi %[[A]], %[[B]] : i32
  %7 = dynamo.and %a_, %b_ : tensor<4xi32>
  // CHECK: arith.ori %[[A]], %[[B]] : i32
  %8 = dynamo.or %a_, %b_ : tensor<4xi32>
  // CHECK: arith.xori %[[A]], %[[B]] : i32
  %9 = dynamo.xor %a_, %b_ : tensor<4xi32>
  // CHECK: %[[ZERO:.*]] = arith.constant 0 : i32
  // CHECK-NEXT: arith.subi %[[ZERO]], %[[A]] : i32
  %10 = dynamo.neg %a_ : tensor<4xi32>
  // CHECK: %[[MINUS:.*]] = arith.subi %{{.*}}, %[[A]] : i32
  // CHECK-NEXT: arith.maxsi %[[A]], %[[MINUS]] : i32
  %11 = dynamo.abs %a_ : tensor<4xi32>
  // CHECK: %[[ONES:.*]] = arith.constant -1 : i32
  // CHECK-NEXT: arith.xori %[[A]], %[[ONES]] : i32
  %12 = dynamo.not %a_ : tensor<4xi32>
  // CHECK: %[[WIDTH:.*]] = arith.constant 32 : i32
  // CHECK-NEXT: %[[INSIDE:.*]] = arith.cmpi ult, %[[B]], %[[WIDTH]] : i32
  // CHECK-NEXT: %[[SHIFTED:.*]] = arith.shli %[[A]], %[[B]] : i32
  // CHECK-NEXT: %[[NONE:.*]] = arith.constant 0 : i32
  // CHECK-NEXT: arith.select %[[INSIDE]], %[[SHIFTED]], %[[NONE]] : i32
  %13 = dynamo.shl %a_, %b_ : tensor<4xi32>
  // CHECK: %[[LAST:.*]] = arith.constant 31 : i32
  // CHECK-NEXT: %[[COUNT:.*]] = arith.minui %[[B]], %[[LAST]] : i32
  // CHECK-NEXT: arith.shrsi %[[A]], %[[COUNT]] : i32
  %14 = dynamo.shr %a_, %b_ : tensor<4xi32>
  bufferization.materialize_in_destination %0 in restrict writable %out_i32 : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %1 in restrict writable %out_i32 : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %2 in restrict writable %out_i32 : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %3 in restrict writable %out_i32 : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %4 in restrict writable %out_i32 : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %5 in restrict writable %out_i32 : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %6 in restrict writable %out_i32 : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %7 in restrict writable %out_i32 : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %8 in restrict writable %out_i32 : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %9 in restrict writable %out_i32 : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %10 in restrict writable %out_i32 : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %11 in restrict writable %out_i32 : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %12 in restrict writable %out_i32 : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %13 in restrict writable %out_i32 : (tensor<4xi32>, memref<4xi32>) -> ()
  bufferization.materialize_in_destination %14 in restrict writable %out_i32 : (tensor<4xi32>, memref<4xi32>) -> ()
  return
}

// `ui8` is an i8 with unsigned operations; its absolute value is itself.
// CHECK-LABEL: func.func @unsigned
// CHECK: ^bb0(%[[A:[^:]*]]: i8, %[[B:[^:]*]]: i8
func.func @unsigned(%a: memref<4xi8>, %b: memref<4xi8>, %out: memref<4xi8>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %a_ = bufferization.to_tensor %a restrict : memref<4xi8> to tensor<4xi8>
  %b_ = bufferization.to_tensor %b restrict : memref<4xi8> to tensor<4xi8>
  %u = dynamo.bitcast %a_ : tensor<4xi8> -> tensor<4xui8>
  %v = dynamo.bitcast %b_ : tensor<4xi8> -> tensor<4xui8>
  // CHECK: arith.addi %[[A]], %[[B]] : i8
  %0 = dynamo.add %u, %v : tensor<4xui8>
  // CHECK: arith.subi %[[A]], %[[B]] : i8
  %1 = dynamo.sub %u, %v : tensor<4xui8>
  // CHECK: arith.muli %[[A]], %[[B]] : i8
  %2 = dynamo.mul %u, %v : tensor<4xui8>
  // CHECK: arith.divui %[[A]], %[[B]] : i8
  %3 = dynamo.div %u, %v : tensor<4xui8>
  // CHECK: arith.remui %[[A]], %[[B]] : i8
  %4 = dynamo.rem %u, %v : tensor<4xui8>
  // CHECK: arith.maxui %[[A]], %[[B]] : i8
  %5 = dynamo.max %u, %v : tensor<4xui8>
  // CHECK: arith.minui %[[A]], %[[B]] : i8
  %6 = dynamo.min %u, %v : tensor<4xui8>
  // CHECK: arith.andi %[[A]], %[[B]] : i8
  %7 = dynamo.and %u, %v : tensor<4xui8>
  // CHECK: arith.ori %[[A]], %[[B]] : i8
  %8 = dynamo.or %u, %v : tensor<4xui8>
  // CHECK: arith.xori %[[A]], %[[B]] : i8
  %9 = dynamo.xor %u, %v : tensor<4xui8>
  // CHECK: arith.shrui %[[A]], %{{.*}} : i8
  %10 = dynamo.shr %u, %v : tensor<4xui8>
  // CHECK: %[[FULL:.*]] = arith.constant -56 : i8
  %11 = dynamo.full 200 : ui8 -> tensor<4xui8>
  %12 = dynamo.abs %u : tensor<4xui8>
  // CHECK: linalg.yield {{.*}}%[[FULL]], %[[A]] :
  %m0 = dynamo.bitcast %0 : tensor<4xui8> -> tensor<4xi8>
  %m1 = dynamo.bitcast %1 : tensor<4xui8> -> tensor<4xi8>
  %m2 = dynamo.bitcast %2 : tensor<4xui8> -> tensor<4xi8>
  %m3 = dynamo.bitcast %3 : tensor<4xui8> -> tensor<4xi8>
  %m4 = dynamo.bitcast %4 : tensor<4xui8> -> tensor<4xi8>
  %m5 = dynamo.bitcast %5 : tensor<4xui8> -> tensor<4xi8>
  %m6 = dynamo.bitcast %6 : tensor<4xui8> -> tensor<4xi8>
  %m7 = dynamo.bitcast %7 : tensor<4xui8> -> tensor<4xi8>
  %m8 = dynamo.bitcast %8 : tensor<4xui8> -> tensor<4xi8>
  %m9 = dynamo.bitcast %9 : tensor<4xui8> -> tensor<4xi8>
  %m10 = dynamo.bitcast %10 : tensor<4xui8> -> tensor<4xi8>
  %m11 = dynamo.bitcast %11 : tensor<4xui8> -> tensor<4xi8>
  %m12 = dynamo.bitcast %12 : tensor<4xui8> -> tensor<4xi8>
  bufferization.materialize_in_destination %m0 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m1 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m2 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m3 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m4 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m5 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m6 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m7 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m8 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m9 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m10 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m11 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m12 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  return
}

// A bool in memory is an i8 that is 0 or 1.
// CHECK-LABEL: func.func @bool
// CHECK: ^bb0(%[[MA:[^:]*]]: i8, %[[MB:[^:]*]]: i8
func.func @bool(%a: memref<4xi8>, %b: memref<4xi8>, %out: memref<4xi8>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %a_ = bufferization.to_tensor %a restrict : memref<4xi8> to tensor<4xi8>
  %b_ = bufferization.to_tensor %b restrict : memref<4xi8> to tensor<4xi8>
  // CHECK: %[[A:.*]] = arith.cmpi ne, %[[MA]], %{{.*}} : i8
  %p = dynamo.convert %a_ : tensor<4xi8> -> tensor<4xi1>
  // CHECK: %[[B:.*]] = arith.cmpi ne, %[[MB]], %{{.*}} : i8
  %q = dynamo.convert %b_ : tensor<4xi8> -> tensor<4xi1>
  // CHECK: arith.andi %[[A]], %[[B]] : i1
  %0 = dynamo.and %p, %q : tensor<4xi1>
  // CHECK: arith.ori %[[A]], %[[B]] : i1
  %1 = dynamo.or %p, %q : tensor<4xi1>
  // CHECK: arith.xori %[[A]], %[[B]] : i1
  %2 = dynamo.xor %p, %q : tensor<4xi1>
  // CHECK: arith.ori %[[A]], %[[B]] : i1
  %3 = dynamo.max %p, %q : tensor<4xi1>
  // CHECK: arith.andi %[[A]], %[[B]] : i1
  %4 = dynamo.min %p, %q : tensor<4xi1>
  // CHECK: %[[TRUE:.*]] = arith.constant true
  // CHECK-NEXT: arith.xori %[[A]], %[[TRUE]] : i1
  %5 = dynamo.not %p : tensor<4xi1>
  // CHECK: arith.cmpi ult, %[[A]], %[[B]] : i1
  %6 = dynamo.compare lt %p, %q : tensor<4xi1> -> tensor<4xi1>
  // CHECK: arith.extui %{{.*}} : i1 to i8
  %m0 = dynamo.convert %0 : tensor<4xi1> -> tensor<4xi8>
  // CHECK: arith.extui %{{.*}} : i1 to i8
  %m1 = dynamo.convert %1 : tensor<4xi1> -> tensor<4xi8>
  // CHECK: arith.extui %{{.*}} : i1 to i8
  %m2 = dynamo.convert %2 : tensor<4xi1> -> tensor<4xi8>
  // CHECK: arith.extui %{{.*}} : i1 to i8
  %m3 = dynamo.convert %3 : tensor<4xi1> -> tensor<4xi8>
  // CHECK: arith.extui %{{.*}} : i1 to i8
  %m4 = dynamo.convert %4 : tensor<4xi1> -> tensor<4xi8>
  // CHECK: arith.extui %{{.*}} : i1 to i8
  %m5 = dynamo.convert %5 : tensor<4xi1> -> tensor<4xi8>
  // CHECK: arith.extui %{{.*}} : i1 to i8
  %m6 = dynamo.convert %6 : tensor<4xi1> -> tensor<4xi8>
  bufferization.materialize_in_destination %m0 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m1 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m2 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m3 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m4 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m5 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %m6 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  return
}

// With a NaN only `ne` is true.
// CHECK-LABEL: func.func @compare_float
// CHECK: ^bb0(%[[A:[^:]*]]: f32, %[[B:[^:]*]]: f32
func.func @compare_float(%a: memref<4xf32>, %b: memref<4xf32>, %out: memref<4xf32>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %a_ = bufferization.to_tensor %a restrict : memref<4xf32> to tensor<4xf32>
  %b_ = bufferization.to_tensor %b restrict : memref<4xf32> to tensor<4xf32>
  // CHECK: %[[C0:.*]] = arith.cmpf oeq, %[[A]], %[[B]] : f32
  %c0 = dynamo.compare eq %a_, %b_ : tensor<4xf32> -> tensor<4xi1>
  // CHECK: %[[C1:.*]] = arith.cmpf une, %[[A]], %[[B]] : f32
  %c1 = dynamo.compare ne %a_, %b_ : tensor<4xf32> -> tensor<4xi1>
  // CHECK: %[[C2:.*]] = arith.cmpf olt, %[[A]], %[[B]] : f32
  %c2 = dynamo.compare lt %a_, %b_ : tensor<4xf32> -> tensor<4xi1>
  // CHECK: %[[C3:.*]] = arith.cmpf ole, %[[A]], %[[B]] : f32
  %c3 = dynamo.compare le %a_, %b_ : tensor<4xf32> -> tensor<4xi1>
  // CHECK: %[[C4:.*]] = arith.cmpf ogt, %[[A]], %[[B]] : f32
  %c4 = dynamo.compare gt %a_, %b_ : tensor<4xf32> -> tensor<4xi1>
  // CHECK: %[[C5:.*]] = arith.cmpf oge, %[[A]], %[[B]] : f32
  %c5 = dynamo.compare ge %a_, %b_ : tensor<4xf32> -> tensor<4xi1>
  // CHECK: arith.select %[[C0]], %[[A]], %[[B]] : f32
  %0 = dynamo.select %c0, %a_, %b_ : tensor<4xi1>, tensor<4xf32>
  // CHECK: arith.select %[[C1]], %[[A]], %[[B]] : f32
  %1 = dynamo.select %c1, %a_, %b_ : tensor<4xi1>, tensor<4xf32>
  // CHECK: arith.select %[[C2]], %[[A]], %[[B]] : f32
  %2 = dynamo.select %c2, %a_, %b_ : tensor<4xi1>, tensor<4xf32>
  // CHECK: arith.select %[[C3]], %[[A]], %[[B]] : f32
  %3 = dynamo.select %c3, %a_, %b_ : tensor<4xi1>, tensor<4xf32>
  // CHECK: arith.select %[[C4]], %[[A]], %[[B]] : f32
  %4 = dynamo.select %c4, %a_, %b_ : tensor<4xi1>, tensor<4xf32>
  // CHECK: arith.select %[[C5]], %[[A]], %[[B]] : f32
  %5 = dynamo.select %c5, %a_, %b_ : tensor<4xi1>, tensor<4xf32>
  bufferization.materialize_in_destination %0 in restrict writable %out : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %1 in restrict writable %out : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %2 in restrict writable %out : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %3 in restrict writable %out : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %4 in restrict writable %out : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %5 in restrict writable %out : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// Comparing integers.
// CHECK-LABEL: func.func @compare_signed
// CHECK: ^bb0(%[[A:[^:]*]]: i64, %[[B:[^:]*]]: i64
func.func @compare_signed(%a: memref<4xi64>, %b: memref<4xi64>, %out: memref<4xi64>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %a_ = bufferization.to_tensor %a restrict : memref<4xi64> to tensor<4xi64>
  %b_ = bufferization.to_tensor %b restrict : memref<4xi64> to tensor<4xi64>
  // CHECK: %[[C0:.*]] = arith.cmpi eq, %[[A]], %[[B]] : i64
  %c0 = dynamo.compare eq %a_, %b_ : tensor<4xi64> -> tensor<4xi1>
  // CHECK: %[[C1:.*]] = arith.cmpi ne, %[[A]], %[[B]] : i64
  %c1 = dynamo.compare ne %a_, %b_ : tensor<4xi64> -> tensor<4xi1>
  // CHECK: %[[C2:.*]] = arith.cmpi slt, %[[A]], %[[B]] : i64
  %c2 = dynamo.compare lt %a_, %b_ : tensor<4xi64> -> tensor<4xi1>
  // CHECK: %[[C3:.*]] = arith.cmpi sle, %[[A]], %[[B]] : i64
  %c3 = dynamo.compare le %a_, %b_ : tensor<4xi64> -> tensor<4xi1>
  // CHECK: %[[C4:.*]] = arith.cmpi sgt, %[[A]], %[[B]] : i64
  %c4 = dynamo.compare gt %a_, %b_ : tensor<4xi64> -> tensor<4xi1>
  // CHECK: %[[C5:.*]] = arith.cmpi sge, %[[A]], %[[B]] : i64
  %c5 = dynamo.compare ge %a_, %b_ : tensor<4xi64> -> tensor<4xi1>
  // CHECK: arith.select %[[C0]], %[[A]], %[[B]] : i64
  %0 = dynamo.select %c0, %a_, %b_ : tensor<4xi1>, tensor<4xi64>
  // CHECK: arith.select %[[C1]], %[[A]], %[[B]] : i64
  %1 = dynamo.select %c1, %a_, %b_ : tensor<4xi1>, tensor<4xi64>
  // CHECK: arith.select %[[C2]], %[[A]], %[[B]] : i64
  %2 = dynamo.select %c2, %a_, %b_ : tensor<4xi1>, tensor<4xi64>
  // CHECK: arith.select %[[C3]], %[[A]], %[[B]] : i64
  %3 = dynamo.select %c3, %a_, %b_ : tensor<4xi1>, tensor<4xi64>
  // CHECK: arith.select %[[C4]], %[[A]], %[[B]] : i64
  %4 = dynamo.select %c4, %a_, %b_ : tensor<4xi1>, tensor<4xi64>
  // CHECK: arith.select %[[C5]], %[[A]], %[[B]] : i64
  %5 = dynamo.select %c5, %a_, %b_ : tensor<4xi1>, tensor<4xi64>
  bufferization.materialize_in_destination %0 in restrict writable %out : (tensor<4xi64>, memref<4xi64>) -> ()
  bufferization.materialize_in_destination %1 in restrict writable %out : (tensor<4xi64>, memref<4xi64>) -> ()
  bufferization.materialize_in_destination %2 in restrict writable %out : (tensor<4xi64>, memref<4xi64>) -> ()
  bufferization.materialize_in_destination %3 in restrict writable %out : (tensor<4xi64>, memref<4xi64>) -> ()
  bufferization.materialize_in_destination %4 in restrict writable %out : (tensor<4xi64>, memref<4xi64>) -> ()
  bufferization.materialize_in_destination %5 in restrict writable %out : (tensor<4xi64>, memref<4xi64>) -> ()
  return
}

// Comparing `ui8`.
// CHECK-LABEL: func.func @compare_unsigned
// CHECK: ^bb0(%[[A:[^:]*]]: i8, %[[B:[^:]*]]: i8
func.func @compare_unsigned(%a: memref<4xi8>, %b: memref<4xi8>, %out: memref<4xi8>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64>} {
  %a_ = bufferization.to_tensor %a restrict : memref<4xi8> to tensor<4xi8>
  %b_ = bufferization.to_tensor %b restrict : memref<4xi8> to tensor<4xi8>
  %a_u = dynamo.bitcast %a_ : tensor<4xi8> -> tensor<4xui8>
  %b_u = dynamo.bitcast %b_ : tensor<4xi8> -> tensor<4xui8>
  // CHECK: %[[C0:.*]] = arith.cmpi eq, %[[A]], %[[B]] : i8
  %c0 = dynamo.compare eq %a_u, %b_u : tensor<4xui8> -> tensor<4xi1>
  // CHECK: %[[C1:.*]] = arith.cmpi ne, %[[A]], %[[B]] : i8
  %c1 = dynamo.compare ne %a_u, %b_u : tensor<4xui8> -> tensor<4xi1>
  // CHECK: %[[C2:.*]] = arith.cmpi ult, %[[A]], %[[B]] : i8
  %c2 = dynamo.compare lt %a_u, %b_u : tensor<4xui8> -> tensor<4xi1>
  // CHECK: %[[C3:.*]] = arith.cmpi ule, %[[A]], %[[B]] : i8
  %c3 = dynamo.compare le %a_u, %b_u : tensor<4xui8> -> tensor<4xi1>
  // CHECK: %[[C4:.*]] = arith.cmpi ugt, %[[A]], %[[B]] : i8
  %c4 = dynamo.compare gt %a_u, %b_u : tensor<4xui8> -> tensor<4xi1>
  // CHECK: %[[C5:.*]] = arith.cmpi uge, %[[A]], %[[B]] : i8
  %c5 = dynamo.compare ge %a_u, %b_u : tensor<4xui8> -> tensor<4xi1>
  // CHECK: arith.select %[[C0]], %[[A]], %[[B]] : i8
  %0 = dynamo.select %c0, %a_, %b_ : tensor<4xi1>, tensor<4xi8>
  // CHECK: arith.select %[[C1]], %[[A]], %[[B]] : i8
  %1 = dynamo.select %c1, %a_, %b_ : tensor<4xi1>, tensor<4xi8>
  // CHECK: arith.select %[[C2]], %[[A]], %[[B]] : i8
  %2 = dynamo.select %c2, %a_, %b_ : tensor<4xi1>, tensor<4xi8>
  // CHECK: arith.select %[[C3]], %[[A]], %[[B]] : i8
  %3 = dynamo.select %c3, %a_, %b_ : tensor<4xi1>, tensor<4xi8>
  // CHECK: arith.select %[[C4]], %[[A]], %[[B]] : i8
  %4 = dynamo.select %c4, %a_, %b_ : tensor<4xi1>, tensor<4xi8>
  // CHECK: arith.select %[[C5]], %[[A]], %[[B]] : i8
  %5 = dynamo.select %c5, %a_, %b_ : tensor<4xi1>, tensor<4xi8>
  bufferization.materialize_in_destination %0 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %1 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %2 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %3 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %4 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  bufferization.materialize_in_destination %5 in restrict writable %out : (tensor<4xi8>, memref<4xi8>) -> ()
  return
}

// The index along a dimension, and the same bits as another type.
// CHECK-LABEL: func.func @iota
func.func @iota(%out: memref<4x8xf64>)
    attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 8>, dynamo.reduced_dims = array<i64>} {
  // CHECK: %[[I:.*]] = linalg.index 1 : index
  // CHECK-NEXT: %[[J:.*]] = arith.index_cast %[[I]] : index to i64
  %0 = dynamo.iota 1 : tensor<4x8xi64>
  // CHECK-NEXT: %[[K:.*]] = arith.bitcast %[[J]] : i64 to f64
  %1 = dynamo.bitcast %0 : tensor<4x8xi64> -> tensor<4x8xf64>
  // CHECK-NEXT: linalg.yield %[[K]] : f64
  bufferization.materialize_in_destination %1 in restrict writable %out : (tensor<4x8xf64>, memref<4x8xf64>) -> ()
  return
}
}
