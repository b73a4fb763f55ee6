//===- Nesting.cpp - Detects text nested too deeply to parse --------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MLIR's parser recurses for every bracket and overflows the stack if thousands
// of them are nested. That is a crash, not an error, so it is checked
// beforehand. Our modules are nested about ten levels deep.
//
//===----------------------------------------------------------------------===//

#include "dynamo-c/Dynamo.h"
#include "mlir/CAPI/Support.h"

using namespace mlir;

static constexpr unsigned deepest = 512;

intptr_t dynamoFindDeepNesting(MlirStringRef ref) {
  StringRef text = unwrap(ref);
  unsigned depth = 0;
  intptr_t line = 1;
  for (size_t at = 0; at < text.size(); ++at) {
    switch (text[at]) {
    case '\n':
      ++line;
      break;
    case '"':
      // A string ends on its line.
      for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
        at += text[at] == '\\';
      line += at < text.size() && text[at] == '\n';
      break;
    case '/':
      if (at + 1 == text.size() || text[at + 1] != '/')
        break;
      at = text.find('\n', at);
      if (at == StringRef::npos)
        return 0;
      ++line;
      break;
    case '(':
    case '[':
    case '{':
    case '<':
      if (++depth > deepest)
        return line;
      break;
    case '>':
      // The end of an arrow is not a closing bracket.
      if (at != 0 && text[at - 1] == '-')
        break;
      [[fallthrough]];
    case ')':
    case ']':
    case '}':
      depth -= depth != 0;
      break;
    }
  }
  return 0;
}
