// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=x86-64-v4 --dynamo-vector-functions | FileCheck %s
// RUN: dynamlir-opt %s --dynamo-attach-target=cpu=x86-64 --dynamo-vector-functions | FileCheck %s --check-prefix=NONE

// A variant for each width: one formula for common arguments, and a general one that is used if any lane has another argument.

// CHECK: func.func private @fmodf(f32, f32) -> f32 attributes {llvm.readnone}
// Vectors of 512 bits have an instruction that multiplies by powers of two, so an exponential has no rare arguments.
// CHECK-LABEL: func.func private @dynamlir_exp4(
// CHECK: scf.if
// CHECK-LABEL: func.func private @dynamlir_exp8(
// CHECK-NOT: call @
// CHECK: llvm.call_intrinsic "llvm.x86.avx512.mask.scalef.pd.512"
// CHECK: return

// CHECK-LABEL: func.func private @dynamlir_fmodf8(
// CHECK-LABEL: func.func private @dynamlir_fmodf16(
// CHECK-SAME: %[[X:.*]]: vector<16xf32>, %[[Y:.*]]: vector<16xf32>) -> vector<16xf32> attributes {llvm.linkage = #llvm.linkage<internal>}
// CHECK: arith.divf
// CHECK: math.trunc
// CHECK: math.fma
// CHECK: %[[COMMON:.*]] = math.copysign %{{.*}}, %[[X]]
// CHECK: %[[ANY:.*]] = vector.reduction <or>
// CHECK: %[[R:.*]] = scf.if %[[ANY]] -> (vector<16xf32>)
// CHECK: scf.while
// CHECK: } else {
// CHECK: scf.yield %[[COMMON]]
// CHECK: return %[[R]]

// In `f64`, the sine of the remainder of a turn, in two parts.
// CHECK-LABEL: func.func private @dynamlir_sin8(
// CHECK-SAME: %[[X:.*]]: vector<8xf64>
// CHECK: math.fma %[[X]]
// CHECK: scf.if
// CHECK: func.call @Sleef_sind8_u10avx512f

// CHECK: func.func private @Sleef_sinf8_u10avx2(vector<8xf32>) -> vector<8xf32> attributes {llvm.readnone}
// CHECK-LABEL: func.func private @dynamlir_sinf16(
// CHECK: arith.extf %{{.*}} : vector<16xf32> to vector<16xf64>
// CHECK: scf.if
// CHECK: func.call @Sleef_sinf16_u10avx512f

// A machine without vectors does not have variants.
// NONE: func.func private @fmodf
// NONE-NOT: vector<

// CHECK-LABEL: func.func @kernel
// CHECK: call @fmodf
// CHECK: math.sin %{{.*}} : f32
// CHECK: math.sin %{{.*}} : f64
func.func @kernel(%x: f32, %y: f32, %z: f64) -> (f32, f32, f64) {
  %0 = arith.remf %x, %y : f32
  %1 = math.sin %0 : f32
  %2 = math.sin %z : f64
  return %0, %1, %2 : f32, f32, f64
}

func.func @exponential(%x: f64) -> f64 {
  %0 = math.exp %x : f64
  return %0 : f64
}
