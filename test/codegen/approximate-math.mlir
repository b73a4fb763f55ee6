// RUN: dynamlir-opt %s --dynamo-approximate-math | FileCheck %s
// RUN: dynamlir-opt %s --dynamo-approximate-math=config=keep=1 | FileCheck %s --check-prefix=KEEP

// exp(x) = 2^n exp(r): r is what is left of x after n steps of ln 2, and small, so a polynomial will do. Nothing is
// called. NaN is put back last.

// CHECK-LABEL: func.func @exp
// CHECK-SAME: (%[[X:.*]]: f32)
// CHECK: arith.cmpf ogt, %[[X]]
// CHECK: math.roundeven
// CHECK-COUNT-2: math.fma
// CHECK: arith.fptosi
// CHECK: arith.shli
// CHECK: arith.bitcast
// CHECK: %[[NAN:.*]] = arith.cmpf uno, %[[X]], %[[X]]
// CHECK: %[[R:.*]] = arith.select %[[NAN]], %[[X]]
// CHECK: return %[[R]]
// KEEP-LABEL: func.func @exp
// KEEP: math.exp
func.func @exp(%x: f32) -> f32 {
  %0 = math.exp %x : f32
  return %0 : f32
}

// erf: an odd polynomial near zero, and 1 - exp(…) with the sign of x further out.

// CHECK-LABEL: func.func @erf
// CHECK-SAME: (%[[X:.*]]: f32)
// CHECK-NOT: math.erf
// CHECK: %[[T:.*]] = math.absf %[[X]]
// CHECK: %[[FAR:.*]] = math.copysign %{{.*}}, %[[X]]
// CHECK: %[[NEAR:.*]] = math.fma %{{.*}}, %[[X]], %[[X]]
// CHECK: %[[IS:.*]] = arith.cmpf ogt, %[[T]]
// CHECK: arith.select %[[IS]], %[[FAR]], %[[NEAR]]
// KEEP-LABEL: func.func @erf
// KEEP: math.erf
func.func @erf(%x: f32) -> f32 {
  %0 = math.erf %x : f32
  return %0 : f32
}

// Double precision and other functions stay calls.

// CHECK-LABEL: func.func @others
// CHECK-NEXT: math.exp %{{.*}} : f64
// CHECK-NEXT: math.sin %{{.*}} : f32
// CHECK-NEXT: return
func.func @others(%x: f64, %y: f32) -> (f64, f32) {
  %0 = math.exp %x : f64
  %1 = math.sin %y : f32
  return %0, %1 : f64, f32
}
