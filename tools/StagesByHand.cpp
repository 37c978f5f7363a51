#include "tools/StagesByHand.h"

#include "compiler/plan/Files.h"
#include "tools/Command.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace pdc {

std::optional<int64_t> wholeNumber(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                  : std::nullopt;
}

static void takeFile(const std::string &file, PlanRequest &request) {
  if (!std::filesystem::exists(file))
    throw UsageError("--stages '" + file + "': neither replicas per stage such as 1-1 nor a file");
  const std::string text = readTextFile(file);
  request.assignment = parseAssignment(text, file);
  request.assignedForOther = isPlannedForOther(text, file, request);
  request.assignedBy = "--stages " + file;
  request.replicas = parseReplicas(text, file);
  for (const auto &[node, stage] : request.assignment)
    request.stages = std::max(request.stages, stage + 1);
}

void takeStages(const std::string &text, PlanRequest &request) {
  if (text.empty())
    return;
  std::vector<int> replicas;
  for (size_t first = 0; first <= text.size();) {
    const size_t end = std::min(text.find('-', first), text.size());
    const std::string part = text.substr(first, end - first);
    std::optional<int64_t> count = wholeNumber(part);
    if (!count)
      return takeFile(text, request);
    if (*count < 1 || *count > request.workers)
      throw UsageError("--stages '" + text + "': a stage with " + part +
                       " replicas, expected 1 to " + std::to_string(request.workers));
    replicas.push_back(static_cast<int>(*count));
    first = end + 1;
  }
  request.stages = static_cast<int>(replicas.size());
  request.replicas = std::move(replicas);
}

} // namespace pdc
