//===- OptMain.cpp - mlir-opt's main with our guard ------------------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dynamo-c/Dynamo.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

/// Reads, processes and writes like `mlir::MlirOptMain`, but rejects text that its parser would not survive.
static llvm::LogicalResult run(llvm::StringRef input, llvm::StringRef output, mlir::DialectRegistry &registry,
                               const mlir::MlirOptMainConfig &config) {
  auto refuse = [](const llvm::Twine &message) {
    llvm::errs() << message << "\n";
    return llvm::failure();
  };
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> text = mlir::openInputFile(input, &message);
  if (!text)
    return refuse(message);
  intptr_t line = mlir::isBytecode(*text) ? 0 : dynamoFindDeepNesting(wrap(text->getBuffer()));
  if (line != 0)
    return refuse(input + ":" + llvm::Twine(line) + ": error: brackets are nested too deep");
  std::unique_ptr<llvm::ToolOutputFile> file = mlir::openOutputFile(output, &message);
  if (!file)
    return refuse(message);
  if (failed(mlir::MlirOptMain(file->os(), std::move(text), registry, config)))
    return llvm::failure();
  file->keep();
  return llvm::success();
}

/// Returns true if the command line has an upstream option.
static bool isGiven(llvm::StringRef option) {
  const auto &known = llvm::cl::getRegisteredOptions();
  auto found = known.find(option);
  return found != known.end() && found->second->getNumOccurrences() > 0;
}

int dynamoOptMain(int argc, char **argv, MlirDialectRegistry known) {
  llvm::InitLLVM crashReports(argc, argv);
  mlir::DialectRegistry &registry = *unwrap(known);
  auto [input, output] = mlir::registerAndParseCLIOptions(argc, argv, "dynamlir optimizer driver\n", registry);
  mlir::MlirOptMainConfig config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, input, output, registry));
  llvm::LogicalResult result = run(input, output, registry, config);
  if (isGiven("mlir-pass-statistics"))
    dynamoPrintPassStatistics();
  return mlir::asMainReturnCode(result);
}
