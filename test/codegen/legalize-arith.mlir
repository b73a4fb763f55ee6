// RUN: dynamlir-opt %s --dynamo-legalize-arith | FileCheck %s

// Minima and maxima become intrinsics, which LLVM vectorizes as reductions. Flags are kept; either zero may be the result.

// CHECK-LABEL: func.func @extrema
// CHECK: llvm.intr.maximum(%arg0, %arg1) {fastmathFlags = #llvm.fastmath<nsz>} : (f32, f32) -> f32
// CHECK: llvm.intr.minimum({{.*}}) {fastmathFlags = #llvm.fastmath<nsz, reassoc>}
// CHECK: llvm.intr.maxnum
// CHECK: llvm.intr.minnum({{.*}}) {fastmathFlags = #llvm.fastmath<fast>}
func.func @extrema(%x: f32, %y: f32) -> f32 {
  %0 = arith.maximumf %x, %y : f32
  %1 = arith.minimumf %0, %y fastmath<reassoc> : f32
  %2 = arith.maxnumf %1, %y : f32
  %3 = arith.minnumf %2, %y fastmath<fast> : f32
  return %3 : f32
}

// Functions of one instruction become intrinsics, too; otherwise they would become library calls. The others are left to the library.

// CHECK-LABEL: func.func @instructions
// CHECK: llvm.intr.sqrt
// CHECK: llvm.intr.floor
// CHECK: llvm.intr.fma
// CHECK: math.log1p
func.func @instructions(%x: f64) -> f64 {
  %0 = math.sqrt %x : f64
  %1 = math.floor %0 : f64
  %2 = math.fma %1, %x, %x : f64
  %3 = math.log1p %2 : f64
  return %3 : f64
}

// The C library does not have a reciprocal square root.

// CHECK-LABEL: func.func @rsqrt
// CHECK: %[[ROOT:.*]] = llvm.intr.sqrt(%arg0)
// CHECK: %[[ONE:.*]] = arith.constant 1.0
// CHECK: arith.divf %[[ONE]], %[[ROOT]] : f32
func.func @rsqrt(%x: f32) -> f32 {
  %0 = math.rsqrt %x : f32
  return %0 : f32
}

// Rounding to bf16, to nearest even: add just under half of the part that is cut off, plus one if the last bit is odd.
// NaN is replaced first, since the sum could carry it into infinity.

// CHECK-LABEL: func.func @bf16
// CHECK: %[[NAN:.*]] = arith.cmpf uno, %arg0, %arg0 : f32
// CHECK: %[[N:.*]] = arith.select %[[NAN]], %{{.*}}, %arg0 : f32
// CHECK: %[[BITS:.*]] = arith.bitcast %[[N]] : f32 to i32
// CHECK: %[[ODD:.*]] = arith.andi
// CHECK: %[[BIAS:.*]] = arith.addi %[[ODD]], %c32767
// CHECK: arith.addi %[[BITS]], %[[BIAS]]
// CHECK: arith.trunci %{{.*}} : i32 to i16
// CHECK: arith.bitcast %{{.*}} : i16 to bf16
// CHECK-NOT: truncf
func.func @bf16(%x: f32) -> bf16 {
  %0 = arith.truncf %x : f32 to bf16
  return %0 : bf16
}

// f16 has its own instructions, and nothing is computed in 16 bits.

// CHECK-LABEL: func.func @untouched
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK: math.sqrt %{{.*}} : f16
func.func @untouched(%x: f32) -> f16 {
  %0 = arith.truncf %x : f32 to f16
  %1 = math.sqrt %0 : f16
  return %1 : f16
}

// A value that is not an integer of the type becomes the smallest one. In LLVM it would be poison, which would remove the code before it.

// CHECK-LABEL: func.func @integers
// CHECK: %[[BOUND:.*]] = arith.constant 2.14748365E+9 : f32
// CHECK: %[[LEAST:.*]] = arith.constant -2147483648 : i32
// CHECK: %[[SIZE:.*]] = llvm.intr.fabs(%arg0) : (f32) -> f32
// CHECK: %[[FITS:.*]] = arith.cmpf olt, %[[SIZE]], %[[BOUND]] : f32
// CHECK: %[[I:.*]] = arith.fptosi %arg0 : f32 to i32
// CHECK: arith.select %[[FITS]], %[[I]], %[[LEAST]] : i32
// CHECK: arith.constant 9.2233720368547758E+18 : f64
// CHECK: arith.constant dense<-9223372036854775808> : vector<4xi64>
// CHECK: arith.select {{.*}} : vector<4xi1>, vector<4xi64>
func.func @integers(%x: f32, %y: f64, %z: vector<4xf64>) -> (i32, i64, vector<4xi64>) {
  %0 = arith.fptosi %x : f32 to i32
  %1 = arith.fptosi %y : f64 to i64
  %2 = arith.fptosi %z : vector<4xf64> to vector<4xi64>
  return %0, %1, %2 : i32, i64, vector<4xi64>
}
