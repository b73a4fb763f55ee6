//===- LlvmSwitches.cpp - What LLVM lets one decide per process only ------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Some decisions of LLVM's code generator are command-line options and nothing
// else. They are set here by name, since parsing a command line would end the
// process where an option is not what it was.
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
