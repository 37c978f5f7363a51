#include "compiler/onnx/Model.h"
#include "testsuite/nodes/NodeData.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <map>

/// ONNX's own node tests by the references in double alone; testsuite/nodes compiles them.
/// Models whose operators pdc refuses are counted, and the count of those that ran is held up.
namespace pdc::test {

namespace fs = std::filesystem;
using Values = std::map<std::string, Tensor>;

static void runNode(const ModelNode &node, Values &values) {
  std::vector<const Tensor *> inputs;
  std::vector<const TensorType *> types;
  for (const std::string &name : node.inputs) {
    inputs.push_back(name.empty() ? nullptr : &values.at(name));
    types.push_back(name.empty() ? nullptr : &values.at(name).type);
  }
  NodeView view{node.op, node.name, node.attributes, types, inputs, node.outputs.size()};
  std::vector<Tensor> results = evaluateNode(*findOperator(node.op), view, inputs);
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (!node.outputs[i].empty())
      values.insert_or_assign(node.outputs[i], results.at(i));
}

static Values runModel(const Model &model, const std::vector<Tensor> &inputs) {
  Values values;
  for (const auto &[name, initializer] : model.initializers)
    values.emplace(name,
                   initializer.fill ? Tensor::zeros(initializer.type) : readTensor(initializer));
  for (const auto &[name, initializer] : model.initializers)
    if (initializer.fill)
      for (double &element : values.at(name).data)
        element = *initializer.fill;
  for (size_t i = 0; i < model.inputs.size() && i < inputs.size(); ++i)
    values.insert_or_assign(model.inputs[i].name, inputs[i]);
  for (const ModelNode &node : model.nodes)
    runNode(node, values);
  return values;
}

static void expectNear(const Tensor &found, const Tensor &expected, const std::string &where) {
  ASSERT_EQ(found.type.shape, expected.type.shape) << where;
  for (size_t i = 0; i < found.data.size(); ++i) {
    if (std::isnan(expected.data[i]) && std::isnan(found.data[i]))
      continue;
    // Its expected values are written with four digits behind the point.
    const double written = where.starts_with("test_gridsample") ? 5e-5 : 1e-5;
    const double tolerance = written + 1e-4 * std::abs(expected.data[i]);
    if (found.data[i] != expected.data[i]) {
      ASSERT_NEAR(found.data[i], expected.data[i], tolerance) << where << " element " << i;
    }
  }
}

/// Whether the model ran; refusals are noted.
static bool runTest(const fs::path &folder, std::map<std::string, std::string> &refused) {
  std::string name = folder.filename();
  try {
    Model model = readModel(folder / "model.onnx");
    Values values = runModel(model, readTensorFiles(folder, "input_"));
    std::vector<Tensor> expected = readTensorFiles(folder, "output_");
    for (size_t i = 0; i < expected.size() && i < model.outputs.size(); ++i)
      expectNear(values.at(model.outputs[i].name), expected[i],
                 name + " output " + std::to_string(i));
    return true;
  } catch (const Error &error) {
    refused.emplace(name, error.what());
    return false;
  } catch (const std::out_of_range &) {
    ADD_FAILURE() << name << ": a value is missing";
    return false;
  }
}

static void runFolder(const std::string &kind, int least) {
  fs::path data = nodeDataFolder(kind);
  if (data.empty())
    GTEST_SKIP() << "install libonnx-testdata to run ONNX's node tests";
  std::map<std::string, std::string> refused;
  int ran = 0;
  for (const auto &entry : fs::directory_iterator(data))
    if (!differsOnPurpose(entry.path().filename()))
      ran += runTest(entry.path(), refused);
  for (const auto &[name, reason] : refused)
    if (std::getenv("PDC_TEST_SHOW_REFUSED"))
      std::cout << name << ": " << reason.substr(0, 160) << "\n";
  std::cout << kind << ": " << ran << " ran, " << refused.size() << " refused\n";
  EXPECT_GE(ran, least);
}

TEST(NodeData, Node) { runFolder("node", 752); }
TEST(NodeData, PytorchConverted) { runFolder("pytorch-converted", 7); }

} // namespace pdc::test
