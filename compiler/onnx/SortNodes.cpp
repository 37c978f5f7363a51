#include "compiler/onnx/SortNodes.h"

#include <queue>

namespace pdc {

using Producers = std::unordered_map<std::string, size_t>;

static Producers findProducers(const std::vector<FlatNode> &nodes,
                               const std::function<bool(const std::string &)> &isGiven) {
  Producers producers;
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const std::string &output : nodes[i].proto.output())
      if (!output.empty() && (isGiven(output) || !producers.emplace(output, i).second))
        throw Error(describe(nodes[i].proto) + ": value '" + output + "' has another producer");
  return producers;
}

std::vector<FlatNode> sortNodes(std::vector<FlatNode> nodes,
                                const std::function<bool(const std::string &)> &isGiven) {
  // 1. Who waits for whom.
  Producers producers = findProducers(nodes, isGiven);
  std::vector<std::vector<size_t>> readers(nodes.size());
  std::vector<size_t> missing(nodes.size(), 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string &input : nodes[i].proto.input()) {
      auto producer = producers.find(input);
      if (producer != producers.end()) {
        readers[producer->second].push_back(i);
        ++missing[i];
      } else if (!input.empty() && !isGiven(input)) {
        throw Error(describe(nodes[i].proto) + ": input '" + input +
                    "' is made by no node and is no input or initializer of the graph");
      }
    }
  }

  // 2. The earliest node in the file among those that are ready.
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (missing[i] == 0)
      ready.push(i);
  std::vector<FlatNode> sorted;
  sorted.reserve(nodes.size());
  while (!ready.empty()) {
    size_t i = ready.top();
    ready.pop();
    for (size_t reader : readers[i])
      if (--missing[reader] == 0)
        ready.push(reader);
    sorted.push_back(std::move(nodes[i]));
  }

  // 3. What is left waits for itself.
  for (size_t i = 0; i < nodes.size(); ++i)
    if (missing[i] > 0)
      throw Error(describe(nodes[i].proto) + ": depends on its own result (the graph has a cycle)");
  return sorted;
}

} // namespace pdc
