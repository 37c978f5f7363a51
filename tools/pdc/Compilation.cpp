#include "tools/pdc/Compilation.h"

#include "compiler/onnx/Parameters.h"
#include "compiler/plan/Files.h"
#include "tools/pdc/Fitting.h"
#include "tools/pdc/Lowering.h"
#include "tools/pdc/Report.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cctype>

namespace pdc {

/// As a shell reads it as one word.
static std::string shellWord(const std::string &text) {
  const auto isPlain = [](unsigned char c) {
    return std::isalnum(c) || c >= 0x80 ||
           std::string_view("_-./:@%+=,~").find(c) != std::string::npos;
  };
  if (std::ranges::all_of(text, isPlain))
    return text;
  std::string word = "'";
  for (char c : text)
    word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

static void print(mlir::ModuleOp module, std::ostream &out) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  out << text << '\n';
}

void compile(const Options &options, std::ostream &out, std::ostream &progress) {
  // 1. The file.
  Lowering lowering(options, progress);
  if (options.stopAfter == StopAfter::import) {
    out << toString(lowering.model);
    return;
  }
  describeTraining(lowering.model, options, out, options.stopAfter == StopAfter::sources);
  // 2. The graph and the plan, which chooses among the batches that are left open.
  Fitting fitting(lowering, options, progress);
  if (options.stopAfter == StopAfter::graph || options.stopAfter == StopAfter::cut ||
      options.stopAfter == StopAfter::staged) {
    PlannedGraph graph = fitting.planOnly();
    if (options.stopAfter != StopAfter::graph)
      lowering.cut(graph);
    if (options.stopAfter == StopAfter::staged)
      lowering.outline(graph);
    return print(*graph.module, out);
  }
  // 3. Stages, programs, rows.
  if (options.stopAfter == StopAfter::sources)
    fitting.atGraph = [&](mlir::ModuleOp module) { describeSharedInputs(module, out); };
  PlannedGraph graph = fitting.fit();
  if (options.stopAfter == StopAfter::scheduled)
    return print(*graph.module, out);
  // 4. The sources.
  lowering.write(graph, options.output);
  out << describePlan(*graph.plan) << "\nsources: " << options.output.string()
      << "\nreport: " << (options.output / "report.html").string() << "\nnext: pdc-run "
      << shellWord(options.output.string()) << '\n';
}

} // namespace pdc
