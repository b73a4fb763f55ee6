// RUN: dynamlir-opt %s --dynamo-mark-backward | FileCheck %s --check-prefix=MARK
// RUN: dynamlir-opt %s --dynamo-signed-addresses | FileCheck %s

// While operands are memrefs, the pass can see which kernels traverse memory backwards.

// MARK-LABEL: func.func @flipped({{.*}}) attributes {dynamo.backward}
func.func @flipped(%x: memref<4x8xf32, strided<[8, -1]>>, %y: memref<4x8xf32>) {
  return
}

// MARK-LABEL: func.func @forwards(
// MARK-NOT: dynamo.backward
// MARK-LABEL: llvm.func @backwards
func.func @forwards(%x: memref<4x8xf32, strided<[0, 1]>>, %y: memref<4x8xf32>) {
  return
}

// `nuw` would promise that no address is below the first. The mark is no longer needed, and is removed.

// CHECK-LABEL: llvm.func @backwards
// CHECK-NOT: dynamo.backward
// CHECK: %[[AT:.*]] = llvm.mul %{{.*}}, %{{.*}} : i64
// CHECK: llvm.getelementptr %arg0[%[[AT]]] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK: llvm.getelementptr %arg0[-3] : (!llvm.ptr) -> !llvm.ptr, f32
llvm.func @backwards(%x: !llvm.ptr, %i: i64) attributes {dynamo.backward} {
  %step = llvm.mlir.constant(-1 : i64) : i64
  %at = llvm.mul %i, %step overflow<nsw, nuw> : i64
  %p = llvm.getelementptr inbounds|nuw %x[%at] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %q = llvm.getelementptr inbounds|nuw %x[-3] : (!llvm.ptr) -> !llvm.ptr, f32
  %0 = llvm.load %p : !llvm.ptr -> f32
  llvm.store %0, %q : f32, !llvm.ptr
  llvm.return
}

// Other kernels keep the flags, which help the vectorizer.

// CHECK-LABEL: llvm.func @unmarked
// CHECK: overflow<nsw, nuw>
// CHECK: inbounds|nuw
llvm.func @unmarked(%x: !llvm.ptr, %i: i64, %n: i64) {
  %at = llvm.mul %i, %n overflow<nsw, nuw> : i64
  %p = llvm.getelementptr inbounds|nuw %x[%at] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %0 = llvm.load %p : !llvm.ptr -> f32
  llvm.return
}
