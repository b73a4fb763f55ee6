// RUN: dynamlir-opt %s --dynamo-annotate-branches | FileCheck %s
//
// A loop's branch inherits its annotation, under a name that LLVM's translation does not look up.

module @kernels {
// CHECK-LABEL: llvm.func @loop
// CHECK: llvm.br ^bb1(%{{.*}} : i64) {loop_annotation = #{{.*}}}
// CHECK-NOT: llvm.loop_annotation =
llvm.func @loop(%n: i64) {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  llvm.br ^bb1(%zero : i64)
^bb1(%i: i64):
  %more = llvm.icmp "slt" %i, %n : i64
  llvm.cond_br %more, ^bb2, ^bb3
^bb2:
  %next = llvm.add %i, %one : i64
  llvm.br ^bb1(%next : i64) {llvm.loop_annotation = #llvm.loop_annotation<vectorize = <width = 16 : i32>>}
^bb3:
  llvm.return
}
}
