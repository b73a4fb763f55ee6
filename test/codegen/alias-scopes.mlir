// RUN: dynamlir-opt %s --dynamo-alias-scopes | FileCheck %s

// Each access records which argument it goes through and which it does not. A body that becomes a function of its own keeps that.

// CHECK-DAG: #[[D:.*]] = #llvm.alias_scope_domain<id = "k">
// CHECK-DAG: #[[X:.*]] = #llvm.alias_scope<id = "k.0", domain = #[[D]]>
// CHECK-DAG: #[[Y:.*]] = #llvm.alias_scope<id = "k.1", domain = #[[D]]>

// CHECK-LABEL: llvm.func @k
// CHECK: omp.parallel
// CHECK: llvm.load %{{.*}} {alias_scopes = [#[[X]]], noalias_scopes = [#[[Y]]]}
// CHECK: llvm.store %{{.*}} {alias_scopes = [#[[Y]]], noalias_scopes = [#[[X]]]}
llvm.func @k(%x: !llvm.ptr {llvm.noalias}, %y: !llvm.ptr {llvm.noalias}, %i: i64) {
  omp.parallel {
    %from = llvm.getelementptr %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %0 = llvm.load %from : !llvm.ptr -> f32
    %to = llvm.getelementptr %y[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    llvm.store %0, %to : f32, !llvm.ptr
    omp.terminator
  }
  llvm.return
}

// An argument without `noalias` is distinct from those that have it, but does not have a scope of its own. An access
// that does not go through an argument has no scopes.

// CHECK-LABEL: llvm.func @mixed
// CHECK: llvm.load %arg2 {noalias_scopes = [#{{.*}}, #{{.*}}]}
// CHECK: llvm.load %{{[0-9]+}} :
llvm.func @mixed(%x: !llvm.ptr {llvm.noalias}, %y: !llvm.ptr {llvm.noalias}, %z: !llvm.ptr) {
  %one = llvm.mlir.constant(1 : i64) : i64
  %0 = llvm.load %z : !llvm.ptr -> f32
  %own = llvm.alloca %one x f32 : (i64) -> !llvm.ptr
  %1 = llvm.load %own : !llvm.ptr -> f32
  llvm.return
}

// A single argument has nothing to be distinct from.

// CHECK-LABEL: llvm.func @single
// CHECK-NOT: scopes
llvm.func @single(%x: !llvm.ptr {llvm.noalias}, %y: !llvm.ptr) {
  %0 = llvm.load %x : !llvm.ptr -> f32
  llvm.return
}
