#include "compiler/operators/Composition.h"

#include <iostream>

// Prints compiler/operators/README.md: the operators, straight from their definitions.

using namespace pdc;

static std::string parameters(const std::vector<Parameter> &list) {
  std::string text;
  for (const Parameter &parameter : list) {
    text += text.empty() ? "" : ", ";
    text += parameter.name;
    text += parameter.variadic ? "..." : parameter.optional ? "?" : "";
  }
  return text;
}

/// Always, and not only in some forms. What has no value of its own is replaced by the nodes that
/// compute it, too.
static bool isComposed(const Operator &op) {
  return (findComposition(op.name) && !op.differentiate) || !op.evaluate;
}

static std::string_view kindOf(const Operator &op) {
  if (isComposed(op))
    return "composed";
  switch (op.kind) {
  case OperatorClass::elementwise: return "elementwise";
  case OperatorClass::view: return "view";
  case OperatorClass::reduction: return "hero";
  case OperatorClass::constant: return "constant";
  }
  return "";
}

static void printRows(bool fromOnnx) {
  std::cout << (fromOnnx ? "| operator | opsets | kind | inputs | outputs | gradient |\n|---|---|---|---|---|---|\n"
                         : "| operator | kind | inputs | outputs |\n|---|---|---|---|\n");
  for (const Operator *op : allOperators()) {
    if ((op->firstOpset > 0) != fromOnnx)
      continue;
    std::cout << "| " << op->name;
    if (fromOnnx)
      std::cout << " | " << op->firstOpset << "-" << op->lastOpset;
    std::cout << " | " << kindOf(*op) << " | " << parameters(op->inputs) << " | " << parameters(op->outputs);
    if (fromOnnx)
      std::cout << " | "
                << (isComposed(*op)     ? "of its parts"
                    : op->differentiate ? "yes"
                    : op->stopsGradient ? "stops"
                                        : "no");
    std::cout << " |\n";
  }
}

int main() {
  std::cout << "# Operators\n\n"
               "Generated from the definitions in this folder by `tools/documents`; do not edit. `?` marks an\n"
               "optional input or output, `...` any number of them. A composed operator is replaced by others\n"
               "where shapes are inferred.\n\n"
               "## From ONNX\n\n";
  printRows(true);
  std::cout << "\n## Made by the compiler\n\nGradients, optimizer updates, losses and their "
               "metrics, fused operators, and forms of ONNX's.\n\n";
  printRows(false);
}
