#include "compiler/plan/Fields.h"
#include "compiler/plan/Files.h"

#include "compiler/Error.h"

#include "compiler/cost/Device.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace pdc {

namespace {

constexpr int64_t kMostWorkers = 65536;

struct Preset {
  std::string_view name;
  std::string_view device;
  int servers, gpus;
  Link server; ///< between the GPUs of a server, one direction
  Link network;
  int ports; ///< of a server into the network
};

// The clusters of PipeDream's paper, with the bandwidths it quotes: 16 V100 of Azure's NC24 v3
// (shared PCIe, 10 Gb/s), 16 V100 of AWS's p3.16xlarge (NVLink, 25 Gb/s), 4 servers with a Titan X
// (40 Gb/s). Pods of the DGX data sheets: NVSwitch inside, a network port of 200 or 400 Gb/s per
// GPU outside.
constexpr Preset presets[] = {
    {"cluster-a", "v100", 4, 4, {10e9, 1e-5}, {1.25e9, 5e-5}, 1},
    {"cluster-b", "v100", 2, 8, {30e9, 5e-6}, {3.125e9, 3e-5}, 1},
    {"cluster-c", "titanx", 4, 1, {}, {5e9, 2e-5}, 1},
    {"dgx-a100", "a100", 20, 8, {250e9, 4e-6}, {25e9, 1e-5}, 8},
    {"dgx-h100", "h100", 32, 8, {370e9, 3e-6}, {50e9, 1e-5}, 8},
    {"dgx-h200", "h200", 32, 8, {370e9, 3e-6}, {50e9, 1e-5}, 8},
};

// Between servers of which nothing is known: Ethernet of 10 Gb/s.
constexpr Link kUsualNetwork = {1.25e9, 5e-5};

Topology makePreset(const Preset &preset, int servers, int gpus) {
  Topology topology;
  const bool isNetworkAlone = preset.gpus == 1;
  if (gpus > 1 || (servers == 1 && !isNetworkAlone))
    topology.levels.push_back({gpus, preset.server});
  if (servers > 1 || isNetworkAlone)
    topology.levels.push_back({servers, preset.network, std::min(preset.ports, gpus)});
  topology.memoryBytes = bytesForPrograms(findDevicePeaks(preset.device));
  topology.device = preset.device;
  return topology;
}

/// Servers of that device on the network of its pod, where there is one, with a port per device.
Level networkOf(std::string_view device, int servers, int devices) {
  for (const Preset &preset : presets)
    if (preset.device == device && preset.ports > 1)
      return {servers, preset.network, devices};
  return {servers, kUsualNetwork, 1};
}

std::string bandwidthText(const Link &link) {
  char text[32];
  std::snprintf(text, sizeof text, "%g GB/s", link.bytesPerSecond / 1e9);
  return text;
}

/// Of one server or several, which have a level of their own where they have several devices.
std::string assumptionOf(const Topology &topology, int servers, int devices) {
  const Level &lowest = topology.levels.front(), &highest = topology.levels.back();
  if (servers * devices == 1)
    return "one device";
  if (servers == 1)
    return (topology.cores > 0 ? std::to_string(devices) + " processes of this machine, "
                               : "one server of " + std::to_string(devices) + " devices, ") +
           bandwidthText(lowest.link) + " between them";
  return std::to_string(servers) + " servers of " + std::to_string(devices) +
         (devices > 1 ? " devices, " + bandwidthText(lowest.link) + " in a server and "
                      : " device, ") +
         bandwidthText(highest.link) + " between servers through " +
         (highest.ports > 1 ? "a port per device" : "one port each");
}

/// "dgx-a100:4" -> 4; nothing behind the name: the preset's own number.
int countServers(std::string_view text, const Preset &preset, const std::string &whole) {
  if (text.empty())
    return preset.servers;
  int servers = 0;
  auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), servers);
  int64_t most = kMostWorkers / preset.gpus;
  if (error != std::errc() || end != text.data() + text.size() || servers < 1 || servers > most)
    throw Error("topology '" + whole + "': expected 1 to " + std::to_string(most) +
                " servers behind the colon");
  return servers;
}

/// All of the cluster where it has no such part.
Topology partOf(const Preset &preset, int servers, const ClusterPart &part) {
  const int gpus =
      part.servers > 0 ? part.workers / part.servers : std::min(part.workers, preset.gpus);
  const bool isPart =
      gpus > 0 && gpus <= preset.gpus && part.workers % gpus == 0 && part.workers / gpus <= servers;
  return isPart ? makePreset(preset, part.workers / gpus, gpus)
                : makePreset(preset, servers, preset.gpus);
}

} // namespace

Topology readTopology(const std::filesystem::path &path, const ClusterPart &part) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored))
    return parseTopology(readTextFile(path), path.string());
  std::string name = path.string(), known;
  for (const Preset &preset : presets) {
    std::string_view rest = name;
    if (rest.starts_with(preset.name)) {
      rest.remove_prefix(preset.name.size());
      if (rest.empty() || rest[0] == ':')
        return partOf(preset, countServers(rest, preset, name), part);
    }
    known += (known.empty() ? "" : ", ") + std::string(preset.name);
  }
  throw Error(name + ": no such file, and no known cluster; known clusters: " + known);
}

Topology assumedTopology(std::string_view device, int servers, int devices, int cores) {
  const DevicePeaks &peaks = findDevicePeaks(device);
  Topology topology;
  if (devices > 1 || servers == 1)
    topology.levels.push_back({devices, {peaks.linkBytesPerSecond, peaks.linkSeconds}});
  if (servers > 1)
    topology.levels.push_back(networkOf(peaks.name, servers, devices));
  topology.memoryBytes = bytesForPrograms(peaks);
  topology.device = peaks.name;
  topology.cores = cores;
  topology.assumption = assumptionOf(topology, servers, devices) +
                        "; costs that no profile measures are those of " + std::string(peaks.name) +
                        " (" + std::string(peaks.text) + ")";
  return topology;
}

int Topology::workers() const {
  int64_t product = 1;
  for (const Level &level : levels)
    product *= level.workers;
  return static_cast<int>(product);
}

double Topology::workersAtOnce(int threads) const {
  double own = cores, all = workers();
  // More threads than cores share them alone, which a measured or estimated second knows.
  return cores > 0 ? std::min(own / std::min(threads, cores), all) : all;
}

double Topology::slowdownOfAll(double slowdown, int threads) const {
  double atOnce = cores > 0 ? static_cast<double>(cores) / std::min(threads, cores) : 1;
  return atOnce > 1 ? 1 + (slowdown - 1) * (workersAtOnce(threads) - 1) / (atOnce - 1) : 1;
}

int Topology::ownLink(int rank, int other) const {
  for (size_t i = 0; i < links.size(); ++i)
    if ((links[i].from == rank && links[i].to == other) ||
        (links[i].from == other && links[i].to == rank))
      return static_cast<int>(i);
  return -1;
}

int64_t Topology::memoryOf(std::span<const int> ranks) const {
  if (memoryOfWorker.empty())
    return memoryBytes;
  int64_t least = INT64_MAX;
  for (int rank : ranks)
    least = std::min(least, memoryOfWorker[rank]);
  return least;
}

Link Topology::linkBetween(int rank, int other) const {
  if (int own = ownLink(rank, other); own >= 0)
    return links[own].link;
  for (const Level &level : levels) {
    rank /= level.workers;
    other /= level.workers;
    if (rank == other)
      return level.link;
  }
  return levels.empty() ? Link{} : levels.back().link;
}

Topology parseTopology(std::string_view text, const std::string &file) {
  return toTopology(parseFields(text, file));
}

namespace {

Link toLink(const Fields &fields) {
  Link link{fields.number("bandwidth"), fields.seconds("latency", 0),
            fields.number("send_bandwidth", 0), fields.number("receive_bandwidth", 0)};
  if (link.bytesPerSecond < 1)
    fields.refuse("bandwidth", "expected at least 1 byte per second, found " +
                                   fields.json().at("bandwidth").dump());
  for (auto [name, copied] : {std::pair("send_bandwidth", link.sendBytesPerSecond),
                              {"receive_bandwidth", link.receiveBytesPerSecond}})
    if (copied > 0 && copied < 1)
      fields.refuse(name, "expected 0 (it takes no time) or at least 1 byte per second, found " +
                              fields.json().at(name).dump());
  return link;
}

void readOwnLinks(const Fields &top, Topology &topology) {
  int last = topology.workers() - 1;
  for (const Fields &fields : top.list("links")) {
    fields.expectOnly(
        {"from", "to", "bandwidth", "latency", "send_bandwidth", "receive_bandwidth"});
    OwnLink own{static_cast<int>(fields.integer("from", 0, last)),
                static_cast<int>(fields.integer("to", 0, last)), toLink(fields)};
    if (own.from == own.to)
      fields.refuse("to", "expected another worker than 'from', found " + std::to_string(own.to));
    if (topology.ownLink(own.from, own.to) >= 0)
      fields.refuse("to", "workers " + std::to_string(own.from) + " and " + std::to_string(own.to) +
                              " have a link already; one stands for both directions");
    topology.links.push_back(own);
  }
}

/// One number for all devices, or a list with one for each.
void readMemory(const Fields &top, Topology &topology) {
  if (!top.has("memory") || !top.json()["memory"].is_array()) {
    topology.memoryBytes = top.integer("memory", 0, INT64_MAX, 0);
    return;
  }
  topology.memoryOfWorker = top.wholeNumbers("memory", 1, INT64_MAX);
  if (static_cast<int>(topology.memoryOfWorker.size()) != topology.workers())
    top.refuse("memory", "expected bytes for each of " + std::to_string(topology.workers()) +
                             " workers, found " + std::to_string(topology.memoryOfWorker.size()));
  topology.memoryBytes = *std::ranges::min_element(topology.memoryOfWorker);
}

} // namespace

Precision toPrecision(const Fields &fields, const std::string &field, const std::string &device) {
  try {
    Precision precision = precisionNamed(fields.string(field, "fp32"));
    if (precision != Precision::fp32)
      requirePrecision(device, precision);
    return precision;
  } catch (const Error &error) {
    fields.refuse(field, error.what());
  }
}

std::string toDevice(const Fields &fields, std::optional<std::string> fallback) {
  std::string device = fields.string("device", std::move(fallback));
  try {
    if (!device.empty())
      findDevicePeaks(device);
  } catch (const Error &error) {
    fields.refuse("device", error.what());
  }
  return device;
}

Topology toTopology(const Fields &top) {
  Topology topology;
  int64_t product = 1;
  top.expectOnly({"levels", "memory", "links", "device", "cores", "sum_seconds", "assumption"});
  for (Fields level : top.list("levels")) {
    level.expectOnly(
        {"workers", "bandwidth", "latency", "ports", "send_bandwidth", "receive_bandwidth"});
    Level read;
    read.workers = static_cast<int>(level.integer("workers", 1, kMostWorkers));
    read.link = toLink(level);
    read.ports = static_cast<int>(level.integer("ports", 1, kMostWorkers, 1));
    product *= read.workers;
    if (product > kMostWorkers)
      level.refuse("workers", "expected at most " + std::to_string(kMostWorkers) + " in all");
    topology.levels.push_back(read);
  }
  if (topology.levels.empty())
    top.refuse("levels", "expected at least one level");
  readMemory(top, topology);
  readOwnLinks(top, topology);
  topology.device = toDevice(top, "");
  topology.cores = static_cast<int>(top.integer("cores", 0, kMostWorkers, 0));
  topology.sumSeconds = top.seconds("sum_seconds", 0);
  topology.assumption = top.string("assumption", "");
  return topology;
}

} // namespace pdc
