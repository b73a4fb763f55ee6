// RUN: dynamlir-opt %s --dynamo-narrow | FileCheck %s

// Magnitudes, signs and selections are computed on the bits, without widening.
// CHECK-LABEL: func.func @bits
// CHECK-SAME: (%[[X:.*]]: bf16, %[[Y:.*]]: bf16, %[[C:.*]]: i1)
// CHECK: %[[SIZE:.*]] = arith.constant 32767 : i16
// CHECK: %[[A:.*]] = arith.andi %{{.*}}, %[[SIZE]] : i16
// CHECK: %[[SIGN:.*]] = arith.constant -32768 : i16
// CHECK: %[[S:.*]] = arith.andi %{{.*}}, %[[SIGN]] : i16
// CHECK: %[[OR:.*]] = arith.ori %[[A]], %[[S]] : i16
// CHECK: %[[COPIED:.*]] = arith.bitcast %[[OR]] : i16 to bf16
// CHECK: %[[NEG:.*]] = arith.xori %{{.*}}, %{{.*}} : i16
// CHECK: %[[NEGATED:.*]] = arith.bitcast %[[NEG]] : i16 to bf16
// CHECK: %[[R:.*]] = arith.select %[[C]], %[[COPIED]], %[[NEGATED]] : bf16
// CHECK: return %[[R]]
func.func @bits(%x: bf16, %y: bf16, %c: i1) -> bf16 {
  %0 = arith.extf %x : bf16 to f32
  %1 = arith.extf %y : bf16 to f32
  %2 = math.copysign %0, %1 : f32
  %3 = arith.negf %0 : f32
  %4 = arith.select %c, %2, %3 : f32
  %5 = arith.truncf %4 : f32 to bf16
  return %5 : bf16
}

// CHECK-LABEL: func.func @half
// CHECK: arith.andi %{{.*}} : i16
// CHECK: arith.bitcast %{{.*}} : i16 to f16
// CHECK-NOT: truncf
func.func @half(%x: f16) -> f16 {
  %0 = arith.extf %x : f16 to f32
  %1 = math.absf %0 : f32
  %2 = arith.truncf %1 : f32 to f16
  return %2 : f16
}

// A maximum of such numbers is such a number, and so are whole numbers: the lower half of the f32 is zero.
// CHECK-LABEL: func.func @upper
// CHECK: %[[M:.*]] = arith.maximumf
// CHECK: %[[F:.*]] = math.floor %[[M]]
// CHECK: %[[B:.*]] = arith.bitcast %[[F]] : f32 to i32
// CHECK: %[[H:.*]] = arith.shrui %[[B]], %{{.*}} : i32
// CHECK: %[[T:.*]] = arith.trunci %[[H]] : i32 to i16
// CHECK: arith.bitcast %[[T]] : i16 to bf16
// CHECK-NOT: truncf
func.func @upper(%x: bf16) -> bf16 {
  %0 = arith.extf %x : bf16 to f32
  %zero = arith.constant 0.0 : f32
  %1 = arith.maximumf %0, %zero : f32
  %2 = math.floor %1 : f32
  %3 = arith.truncf %2 : f32 to bf16
  return %3 : bf16
}

// Sums are rounded. So are constants that the type cannot represent, numbers of the other 16-bit type, and integers of many digits.
// CHECK-LABEL: func.func @rounded
// CHECK-COUNT-4: arith.truncf
func.func @rounded(%x: bf16, %h: f16, %i: i16) -> (bf16, bf16, bf16, bf16) {
  %0 = arith.extf %x : bf16 to f32
  %1 = arith.addf %0, %0 : f32
  %2 = arith.truncf %1 : f32 to bf16
  %tenth = arith.constant 0.1 : f32
  %3 = arith.maximumf %0, %tenth : f32
  %4 = arith.truncf %3 : f32 to bf16
  %5 = arith.extf %h : f16 to f32
  %6 = math.absf %5 : f32
  %7 = arith.truncf %6 : f32 to bf16
  %8 = arith.sitofp %i : i16 to f32
  %9 = arith.truncf %8 : f32 to bf16
  return %2, %4, %7, %9 : bf16, bf16, bf16, bf16
}
