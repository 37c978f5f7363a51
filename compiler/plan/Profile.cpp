#include "compiler/plan/Profile.h"

#include "compiler/Error.h"
#include "compiler/plan/Fields.h"
#include "compiler/plan/Files.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace pdc {

namespace {

using nlohmann::ordered_json;

struct NumberField {
  const char *name;
  double PlanUnit::*field;
};
constexpr NumberField secondsFields[] = {
    {"forward_seconds", &PlanUnit::forwardSeconds},
    {"backward_input_seconds", &PlanUnit::backwardInputSeconds},
    {"backward_weight_seconds", &PlanUnit::backwardWeightSeconds},
    {"update_seconds", &PlanUnit::updateSeconds}};

constexpr NumberField slowdownFields[] = {
    {"slowdown", &PlanUnit::slowdown},
    {"update_slowdown", &PlanUnit::updateSlowdown},
    {"version_slowdown", &PlanUnit::versionSlowdown},
    {"accumulation_slowdown", &PlanUnit::accumulationSlowdown}};

struct BytesField {
  const char *name;
  int64_t PlanUnit::*field;
};
constexpr BytesField bytesFields[] = {
    {"parameter_bytes", &PlanUnit::parameterBytes},
    {"gradient_bytes", &PlanUnit::gradientBytes},
    {"constant_bytes", &PlanUnit::constantBytes},
    {"state_bytes", &PlanUnit::stateBytes},
    {"optimizer_bytes", &PlanUnit::optimizerBytes},
    {"stash_bytes", &PlanUnit::stashBytes},
    {"halfway_bytes", &PlanUnit::halfwayBytes},
    {"workspace_bytes", &PlanUnit::workspaceBytes},
    {"input_bytes", &PlanUnit::inputBytes},
    {"temporary_bytes", &PlanUnit::temporaryBytes},
    {"split_temporary_bytes", &PlanUnit::splitTemporaryBytes},
    {"evaluation_temporary_bytes", &PlanUnit::evaluationTemporaryBytes},
    {"input_stash_bytes", &PlanUnit::inputStashBytes},
    {"freed_stash_bytes", &PlanUnit::freedStashBytes}};

/// Sums over a million of them still fit.
constexpr int64_t kMostUnitBytes = int64_t(1) << 42;

ordered_json toJson(const PlanUnit &unit) {
  ordered_json json = {{"name", unit.name}, {"nodes", unit.nodes}};
  for (auto [name, field] : secondsFields)
    json[name] = unit.*field;
  for (auto [name, field] : slowdownFields)
    json[name] = unit.*field;
  for (auto [name, field] : bytesFields)
    json[name] = unit.*field;
  return json;
}

PlanUnit toUnit(const Fields &fields) {
  PlanUnit unit;
  unit.name = fields.string("name");
  unit.nodes = fields.strings("nodes");
  for (auto [name, field] : secondsFields)
    unit.*field = fields.seconds(name, 0);
  for (auto [name, field] : slowdownFields)
    unit.*field = toSlowdown(fields, name);
  for (auto [name, field] : bytesFields)
    unit.*field = fields.integer(name, 0, kMostUnitBytes, 0);
  if (!fields.has("split_temporary_bytes"))
    unit.splitTemporaryBytes = unit.temporaryBytes;
  return unit;
}

PlanValue toValue(const Fields &fields, int64_t units) {
  PlanValue value;
  value.name = fields.string("name");
  value.producer = static_cast<int>(fields.integer("producer", 0, units - 1));
  value.consumers = fields.integers("consumers", 0, units - 1);
  if (std::set<int>(value.consumers.begin(), value.consumers.end()).size() < value.consumers.size())
    fields.refuse("consumers", "expected each unit once");
  value.bytes = fields.integer("bytes", 0, kMostUnitBytes);
  return value;
}

/// Where a file names no gradients itself, each value has one as large that goes back from each
/// unit that reads it, but for those that say they have none.
void addValues(const Fields &top, PlanGraph &graph) {
  const auto units = static_cast<int64_t>(graph.units.size());
  const bool names = top.json().contains("gradients");
  for (const Fields &fields : top.list("values")) {
    PlanValue &value = graph.values.emplace_back(toValue(fields, units));
    value.isStashed = fields.boolean("stashed", false);
    value.freedAt = static_cast<int>(fields.integer("freed_at", value.producer, units - 1, -1));
    if (names && fields.json().contains("gradient"))
      fields.refuse("gradient", "stands beside a list of all gradients; expected one of the two");
    if (fields.boolean("gradient", !names))
      addGradientsOf(value, graph);
  }
  for (const Fields &fields : top.list("gradients"))
    graph.gradients.push_back(toValue(fields, units));
}

ordered_json toJson(std::span<const PlanValue> values) {
  auto list = ordered_json::array();
  for (const PlanValue &value : values) {
    list.push_back({{"name", value.name},
                    {"producer", value.producer},
                    {"consumers", value.consumers},
                    {"bytes", value.bytes}});
    if (value.isStashed)
      list.back()["stashed"] = true;
    if (value.freedAt >= 0)
      list.back()["freed_at"] = value.freedAt;
  }
  return list;
}

std::vector<int> toUnits(const Fields &fields, int64_t units) {
  std::vector<int> several = fields.integers("units", 0, units - 1);
  if (several.size() < 2 ||
      std::ranges::adjacent_find(several, std::greater_equal()) != several.end())
    fields.refuse("units", "expected two units or more, each later than the one before");
  return several;
}

SharedRead toSharedRead(const Fields &fields, int64_t units) {
  return {toUnits(fields, units), fields.integer("parameter_bytes", 0, kMostUnitBytes, 0),
          fields.integer("constant_bytes", 0, kMostUnitBytes, 0)};
}

TiedWeight toTied(const Fields &fields, int64_t units) {
  TiedWeight tied;
  tied.units = toUnits(fields, units);
  tied.parameterBytes = fields.integer("parameter_bytes", 0, kMostUnitBytes);
  tied.optimizerBytes = fields.integer("optimizer_bytes", 0, kMostUnitBytes, 0);
  tied.gradientBytes = fields.integer("gradient_bytes", 0, kMostUnitBytes);
  tied.sumsTogether = fields.boolean("sums_together", false);
  return tied;
}

} // namespace

double toSlowdown(const Fields &fields, const char *name) {
  double slowdown = fields.number(name, 1);
  if (slowdown >= 1 && slowdown <= kMostSlowdown)
    return slowdown;
  fields.refuse(name, "expected 1 to " + std::to_string(static_cast<int64_t>(kMostSlowdown)) +
                          ", found " + fields.json().at(name).dump());
}

std::string printProfile(const Profile &profile) {
  ordered_json json = {{"model", profile.model},
                       {"device", profile.device},
                       {"precision", toString(profile.precision.value_or(Precision::fp32))},
                       {"threads", profile.threads},
                       {"microbatch_size", profile.microbatchSize},
                       {"units", ordered_json::array()}};
  if (!profile.optimizer.empty())
    json["optimizer"] = profile.optimizer;
  for (const PlanUnit &unit : profile.graph.units)
    json["units"].push_back(toJson(unit));
  json["values"] = toJson(profile.graph.values);
  json["gradients"] = toJson(profile.graph.gradients);
  for (const TiedWeight &tied : profile.graph.tied)
    json["tied"].push_back({{"units", tied.units},
                            {"parameter_bytes", tied.parameterBytes},
                            {"optimizer_bytes", tied.optimizerBytes},
                            {"gradient_bytes", tied.gradientBytes},
                            {"sums_together", tied.sumsTogether}});
  for (const SharedRead &read : profile.graph.sharedReads)
    json["shared_reads"].push_back({{"units", read.units},
                                    {"parameter_bytes", read.parameterBytes},
                                    {"constant_bytes", read.constantBytes}});
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Profile parseProfile(std::string_view text, const std::string &file) {
  Fields top = parseFields(text, file);
  Profile profile;
  profile.model = top.string("model", "");
  profile.optimizer = top.string("optimizer", "");
  profile.device = toDevice(top, "cpu");
  if (top.has("precision"))
    profile.precision = toPrecision(top, "precision", profile.device);
  profile.threads = static_cast<int>(top.integer("threads", 1, 4096, 1));
  profile.microbatchSize = top.integer("microbatch_size", 0, INT32_MAX, 0);
  std::set<std::string> names;
  bool knowsTemporaries = false;
  for (const Fields &unit : top.list("units")) {
    profile.graph.units.push_back(toUnit(unit));
    knowsTemporaries |= unit.json().contains("temporary_bytes");
    if (!names.insert(profile.graph.units.back().name).second)
      unit.refuse("name", "two units have the name '" + profile.graph.units.back().name + "'");
  }
  if (profile.graph.units.empty())
    top.refuse("units", "expected at least one unit");
  addValues(top, profile.graph);
  const auto units = static_cast<int64_t>(profile.graph.units.size());
  for (const Fields &tied : top.list("tied"))
    profile.graph.tied.push_back(toTied(tied, units));
  for (const Fields &read : top.list("shared_reads"))
    profile.graph.sharedReads.push_back(toSharedRead(read, units));
  checkGraph(profile.graph, file);
  if (!knowsTemporaries)
    setTemporaries(profile.graph);
  return profile;
}

Profile readProfile(const std::filesystem::path &path) {
  std::string text = readTextFile(path);
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw Error(path.string() +
                ": is empty, expected a profile.json of pdc-profile or PipeDream's graph.txt");
  return isPipeDreamProfile(text) ? parsePipeDreamProfile(text, path.string())
                                  : parseProfile(text, path.string());
}

void applyProfile(PlanGraph &graph, const Profile &profile) {
  std::unordered_map<std::string, const PlanUnit *> measured;
  for (const PlanUnit &unit : profile.graph.units)
    measured[unit.name] = &unit;
  for (PlanUnit &unit : graph.units) {
    auto found = measured.find(unit.name);
    if (found == measured.end())
      throw Error("the profile of '" + profile.model + "' has no unit '" + unit.name +
                  "'; make one with pdc-profile for this model, microbatch size and device");
    for (auto [name, field] : secondsFields)
      unit.*field = found->second->*field;
  }
}

void copySlowdowns(PlanGraph &graph, const Profile &profile) {
  std::unordered_map<std::string, const PlanUnit *> measured;
  for (const PlanUnit &unit : profile.graph.units)
    measured[unit.name] = &unit;
  for (PlanUnit &unit : graph.units)
    if (auto found = measured.find(unit.name); found != measured.end())
      for (auto [name, field] : slowdownFields)
        unit.*field = found->second->*field;
}

void addGradientsOf(const PlanValue &value, PlanGraph &graph) {
  for (size_t term = 0; term < value.consumers.size(); ++term)
    graph.gradients.push_back({value.name + "/grad" + (term ? std::to_string(term) : ""),
                               value.consumers[term],
                               {value.producer},
                               value.bytes});
}

void setTemporaries(PlanGraph &graph) {
  std::vector<int64_t> changes(graph.units.size() + 1);
  auto live = [&](int first, int last, int64_t bytes) {
    changes[first] += bytes;
    changes[last + 1] -= bytes;
  };
  for (const PlanValue &value : graph.values)
    if (!value.consumers.empty())
      live(value.producer, std::ranges::max(value.consumers), value.bytes);
  for (const PlanValue &gradient : graph.gradients)
    if (!gradient.consumers.empty())
      live(std::ranges::min(gradient.consumers), gradient.producer, gradient.bytes);
  int64_t bytes = 0;
  for (size_t i = 0; i < graph.units.size(); ++i) {
    bytes += changes[i];
    graph.units[i].temporaryBytes = graph.units[i].splitTemporaryBytes = bytes;
  }
}

/// What several counts share is in all of them: else sums of stages would be negative.
static void checkStash(const PlanGraph &graph, const std::string &source) {
  auto refuse = [&](const std::string &what) { throw Error(source + ": " + what); };
  std::vector<int64_t> left, leftForInputs, leftFreed;
  int64_t notFreed = 0;
  for (const PlanUnit &unit : graph.units) {
    if (unit.inputStashBytes > unit.stashBytes)
      refuse("unit '" + unit.name + "' has more input_stash_bytes than stash_bytes");
    if ((notFreed += unit.inputStashBytes - unit.freedStashBytes) < 0)
      refuse("unit '" + unit.name +
             "': expected at most so many freed_stash_bytes as it and the units before have " +
             "input_stash_bytes, found " + std::to_string(-notFreed) + " more");
    left.push_back(unit.stashBytes - unit.inputStashBytes);
    leftForInputs.push_back(unit.inputStashBytes);
    leftFreed.push_back(unit.freedStashBytes);
  }
  for (const PlanValue &value : graph.values) {
    if (value.freedAt >= 0 && !value.isStashed)
      refuse("value '" + value.name + "' is freed, expected that it is stashed, too");
    int64_t &stash = (value.freedAt >= 0 ? leftForInputs : left)[value.producer];
    if (value.isStashed && (stash -= value.bytes) < 0)
      refuse("value '" + value.name + "' is stashed, but the stash of unit '" +
             graph.units[value.producer].name + "' is too small for it");
    if (value.freedAt >= 0 && (leftFreed[value.freedAt] -= value.bytes) < 0)
      refuse("value '" + value.name + "' is freed at unit '" + graph.units[value.freedAt].name +
             "', whose freed_stash_bytes are too few for it");
  }
}

void checkGraph(const PlanGraph &graph, const std::string &source) {
  const int units = static_cast<int>(graph.units.size());
  auto check = [&](const PlanValue &value, const char *kind, bool goesBack) {
    auto isUnit = [&](int unit) { return unit >= 0 && unit < units; };
    for (int unit : value.consumers)
      if (!isUnit(unit) || !isUnit(value.producer) || unit == value.producer ||
          (unit < value.producer) != goesBack)
        throw Error(source + ": " + kind + " '" + value.name + "' goes from unit " +
                    std::to_string(value.producer) + " to unit " + std::to_string(unit) +
                    ", expected " + (goesBack ? "an earlier" : "a later") + " one of " +
                    std::to_string(units));
    if (value.bytes < 0)
      throw Error(source + ": " + kind + " '" + value.name + "' has " +
                  std::to_string(value.bytes) + " bytes");
  };
  for (const PlanValue &value : graph.values)
    check(value, "value", false);
  for (const PlanValue &gradient : graph.gradients)
    check(gradient, "gradient", true);
  checkStash(graph, source);
}

} // namespace pdc
