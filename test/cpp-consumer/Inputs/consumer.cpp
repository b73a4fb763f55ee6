//===- consumer.cpp - Ten lines that use the dialect from C++ -------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dynamo/Dynamo.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

int main(int argc, char **argv) {
  mlir::MLIRContext context;
  context.loadDialect<dynamlir::dynamo::DynamoDialect, mlir::func::FuncDialect>();
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(argc > 1 ? argv[1] : "-", &context);
  if (!module)
    return 1;
  module->walk([](dynamlir::dynamo::ReduceOp op) { op->setAttr("seen", mlir::UnitAttr::get(op.getContext())); });
  module->print(llvm::outs());
  return 0;
}
