//===- LlvmSwitches.cpp - Per-process settings of LLVM --------------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Some settings of LLVM's code generator exist only as command-line options.
// They are set here by name, since parsing a command line would exit the
// process if an option has changed.
//
//===----------------------------------------------------------------------===//

#include "dynamo-c/Dynamo.h"
#include "llvm/Support/CommandLine.h"

bool dynamoSetLoopStrengthReduction(bool enabled) {
  auto &options = llvm::cl::getRegisteredOptions();
  auto found = options.find("disable-lsr");
  if (found == options.end())
    return false;
  static_cast<llvm::cl::opt<bool> *>(found->second)->setValue(!enabled);
  return true;
}
