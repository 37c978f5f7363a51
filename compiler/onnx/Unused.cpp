#include "compiler/onnx/Unused.h"

#include <algorithm>
#include <functional>
#include <iterator>

namespace pdc {

void dropUnused(Model &model) {
  std::set<std::string, std::less<>> used;
  for (const ModelValue &output : model.outputs)
    used.insert(output.name);
  std::vector<ModelNode> kept;
  for (auto node = model.nodes.rbegin(); node != model.nodes.rend(); ++node) {
    auto isUsed = [&](const std::string &name) { return used.contains(name); };
    if (std::none_of(node->outputs.begin(), node->outputs.end(), isUsed))
      continue;
    used.insert(node->inputs.begin(), node->inputs.end());
    kept.push_back(std::move(*node));
  }
  model.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  std::erase_if(model.initializers, [&](const auto &entry) { return !used.contains(entry.first); });
  std::set<std::string> names;
  for (const ModelNode &node : model.nodes)
    names.insert(node.name);
  for (ModelPartition &partition : model.partitions)
    std::erase_if(partition.stages,
                  [&](const auto &entry) { return !names.contains(entry.first); });
  std::erase_if(model.partitions, [](const auto &partition) { return partition.stages.empty(); });
}

} // namespace pdc
