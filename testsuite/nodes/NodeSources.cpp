// pdc-node-sources OUT BATCH [NAME...]: compiles ONNX's node tests (those named, or all) to sources
// in OUT, BATCH programs a file, for testsuite/nodes/run to build and run.

#include "codegen/WriteFolder.h"
#include "compiler/onnx/Safetensors.h"
#include "runtime/Safetensors.h"
#include "testsuite/nodes/NodeData.h"
#include "testsuite/nodes/NodeTest.h"
#include "tools/Command.h"

#include <algorithm>
#include <iostream>
#include <set>
#include <sstream>

using namespace pdc;
using namespace pdc::test;
namespace fs = std::filesystem;

namespace {

/// What becomes of a test, one line each: NAME, what, why.
class Report {
public:
  void add(const std::string &test, const std::string &what, std::string why = "") {
    std::replace(why.begin(), why.end(), '\n', ' ');
    text += test + '\t' + what + '\t' + why + '\n';
  }
  std::string text;
};

/// Sources that lie in one file, each in its own namespace; their includes come first.
class Batch {
public:
  void add(const std::string &test, const std::string &source) {
    std::istringstream lines(source);
    body += "namespace " + test + " {\n";
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("#include"))
        includes.insert(line);
      else
        body += line + '\n';
    body += "} // namespace " + test + "\n\n";
    table += "    {\"" + test + "\", " + test + "::stage_0},\n";
    ++count;
  }

  std::string text(size_t number) const {
    std::string all = "#include \"testsuite/nodes/run/Cases.h\"\n";
    for (const std::string &include : includes)
      all += include + '\n';
    std::string name = "cases_" + std::to_string(number);
    return all + "\n" + body + "static const Case " + name + "[] = {\n" + table +
           "};\nstatic const bool added = addCases(" + name + ");\n";
  }

  size_t count = 0;

private:
  std::set<std::string> includes;
  std::string body, table;
};

/// Tensors of all tests under the names `TEST/TENSOR`.
class DataFile {
public:
  void add(const std::string &test, const std::vector<NamedTensor> &named) {
    for (const NamedTensor &tensor : named)
      add(test + "/" + tensor.name, tensor.value);
  }
  void write(const fs::path &path) const { runtime::writeSafetensors(path, tensors); }

private:
  /// As f64: their elements are exact in it.
  void add(const std::string &name, const Tensor &value) {
    auto data = std::make_shared<std::vector<double>>(value.data);
    tensors.push_back({name, runtime::Scalar::f64, value.type.shape,
                       [data](const auto &take) { take(std::as_bytes(std::span(*data))); }});
  }
  std::vector<runtime::TensorToWrite> tensors;
};

class Writer {
public:
  Writer(fs::path folder, size_t size) : folder(std::move(folder)), size(size) {}

  void add(const fs::path &path) {
    std::string name = path.filename();
    if (auto why = differsOnPurpose(name))
      return report.add(name, "otherwise", *why);
    try {
      CompiledTest test = compileTest(path);
      if (!test.wrong.empty())
        return report.add(name, "wrong", test.wrong[0]);
      if (test.source.empty())
        return report.add(name, "known");
      addProgram(name, test);
      report.add(name, "compiled");
    } catch (const std::exception &error) {
      report.add(name, "refused", error.what());
    }
  }

  void finish() {
    if (batch.count)
      writeBatch();
    data.write(folder / "data.safetensors");
    writeFile(folder / "compiled.txt", report.text);
  }

private:
  void addProgram(const std::string &name, const CompiledTest &test) {
    data.add(name, test.inputs);
    data.add(name, test.outputs);
    if (test.readsWeights)
      writeWeights(test.model, folder / (name + ".weights"));
    if (!test.constants.empty())
      writeFile(folder / (name + ".constants"), test.constants);
    batch.add(name, test.source);
    if (batch.count == size)
      writeBatch();
  }

  void writeBatch() {
    writeFile(folder / ("batch_" + std::to_string(batches) + ".cpp"), batch.text(batches));
    ++batches;
    batch = {};
  }

  fs::path folder;
  size_t size, batches = 0;
  Batch batch;
  DataFile data;
  Report report;
};

/// ONNX keeps those of Gradient, which needs a graph around it, with its small models.
std::set<fs::path> everyTest(const fs::path &nodes, const fs::path &models) {
  std::set<fs::path> tests;
  for (const auto &entry : fs::directory_iterator(nodes))
    tests.insert(entry.path());
  for (const auto &entry : fs::directory_iterator(models))
    if (entry.path().filename().string().starts_with("test_gradient_"))
      tests.insert(entry.path());
  return tests;
}

} // namespace

int main(int argc, char **argv) {
  return runCommand([&] {
    if (argc < 3)
      throw UsageError("usage: pdc-node-sources OUT BATCH [NAME...]");
    fs::path all = nodeDataFolder("node"), gradients = nodeDataFolder("simple");
    if (all.empty())
      throw Error("ONNX's node tests are not installed; install libonnx-testdata");
    std::set<fs::path> tests;
    for (int i = 3; i < argc; ++i)
      tests.insert((fs::exists(all / argv[i]) ? all : gradients) / argv[i]);
    if (tests.empty())
      tests = everyTest(all, gradients);
    fs::create_directories(argv[1]);
    Writer writer(argv[1], std::stoul(argv[2]));
    for (const fs::path &test : tests)
      writer.add(test);
    writer.finish();
    return 0;
  });
}
