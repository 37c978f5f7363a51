#include "tools/pdc-profile/Links.h"

#include "compiler/Error.h"
#include "compiler/plan/Files.h"
#include "runtime/Control.h"
#include "runtime/Cores.h"
#include "runtime/Transport.h"
#include "tools/Command.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace pdc {

namespace {

constexpr int64_t kSmallBytes = 64, kLargeBytes = 4 << 20;
constexpr int kSmallRounds = 200, kMostRounds = 20, kMostRanks = 32;
constexpr double kPatientSeconds = 0.4; ///< for the large messages of a pair
/// Messages as pipelines send them, for what their ranks spend on each.
constexpr int64_t kHandledBytes = 512 << 10;
constexpr int kHandledRounds = 15;
constexpr int kSums = 50;
constexpr double kStartSeconds = 60;

double secondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct PairLink {
  int first = 0, second = 0;
  double bytesPerSecond = 0, latencySeconds = 0;
  double sendBytesPerSecond = 0, receiveBytesPerSecond = 0;
};

double middleOf(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void computeFor(double seconds) {
  for (double end = secondsNow() + seconds; secondsNow() < end;)
    ;
}

class LinkMeter {
public:
  explicit LinkMeter(runtime::Transport &transport)
      : transport(transport), self(transport.rank()), buffer(kLargeBytes) {}

  std::vector<PairLink> measure();
  std::vector<std::string> gatherHosts();

private:
  void exchange(bool send, int peer, void *data, int64_t bytes);
  template <class Value> void send(int peer, Value value) {
    exchange(true, peer, &value, sizeof value);
  }
  template <class Value> Value receive(int peer) {
    Value value{};
    exchange(false, peer, &value, sizeof value);
    return value;
  }
  double trip(int peer, int64_t bytes, bool leads);
  double medianTrip(int peer, int64_t bytes, int rounds, bool leads);
  double handling(int peer, double tripSeconds, bool leads);
  PairLink lead(int peer);
  void follow(int peer);

  runtime::Transport &transport;
  int self;
  std::vector<std::byte> buffer;
};

void LinkMeter::exchange(bool send, int peer, void *data, int64_t bytes) {
  runtime::Message message{send, peer, 1, static_cast<std::byte *>(data), bytes};
  transport.post({&message, 1});
  while (!transport.wait(message.request, std::chrono::milliseconds(100)))
    ;
}

/// Seconds one way: half of what a message takes there and back.
double LinkMeter::trip(int peer, int64_t bytes, bool leads) {
  double start = secondsNow();
  exchange(leads, peer, buffer.data(), bytes);
  exchange(!leads, peer, buffer.data(), bytes);
  return (secondsNow() - start) / 2;
}

double LinkMeter::medianTrip(int peer, int64_t bytes, int rounds, bool leads) {
  std::vector<double> trips;
  for (int round = 0; round < rounds; ++round)
    trips.push_back(trip(peer, bytes, leads));
  return middleOf(trips);
}

/// What this rank spends on a message between two computations: to hand it over, or to take it once
/// it has come.
double LinkMeter::handling(int peer, double tripSeconds, bool leads) {
  std::vector<double> spent;
  for (int round = 0; round < kHandledRounds; ++round) {
    trip(peer, kSmallBytes, leads);
    runtime::Message message{leads, peer, 1, buffer.data(), kHandledBytes};
    double start = secondsNow();
    if (leads)
      transport.post({&message, 1});
    double posted = secondsNow();
    computeFor(2 * tripSeconds);
    double computed = secondsNow();
    if (!leads)
      transport.post({&message, 1});
    while (!transport.wait(message.request, std::chrono::milliseconds(100)))
      ;
    spent.push_back(leads ? posted - start : secondsNow() - computed);
  }
  return middleOf(spent);
}

/// Where the ranks themselves copy most of a message that is the transfer; else both go on side by
/// side.
PairLink linkOf(int first, int second, double small, double large, double handOver, double take) {
  PairLink link{first, second};
  link.latencySeconds = small;
  link.sendBytesPerSecond = static_cast<double>(kHandledBytes) / std::max(handOver, 1e-9);
  link.receiveBytesPerSecond = static_cast<double>(kHandledBytes) / std::max(take, 1e-9);
  // Where others compute, the small messages may have waited longer than the large ones.
  double perByte = std::max(large - small, large / 10) / static_cast<double>(kLargeBytes);
  double own = 1 / link.sendBytesPerSecond + 1 / link.receiveBytesPerSecond;
  if (own > perByte / 2)
    perByte = std::max(perByte - own, perByte / 10);
  link.bytesPerSecond = 1 / perByte;
  return link;
}

/// Warm-up included: what connects on first use has connected after the first trips.
PairLink LinkMeter::lead(int peer) {
  medianTrip(peer, kSmallBytes, 10, true);
  double small = medianTrip(peer, kSmallBytes, kSmallRounds, true);
  double first = trip(peer, kLargeBytes, true);
  int rounds = std::clamp(static_cast<int>(kPatientSeconds / first), 3, kMostRounds);
  send(peer, rounds);
  double large = medianTrip(peer, kLargeBytes, rounds, true);
  double handOver = handling(peer, large, true);
  return linkOf(self, peer, small, large, handOver, receive<double>(peer));
}

void LinkMeter::follow(int peer) {
  medianTrip(peer, kSmallBytes, 10, false);
  medianTrip(peer, kSmallBytes, kSmallRounds, false);
  trip(peer, kLargeBytes, false);
  double large = medianTrip(peer, kLargeBytes, receive<int>(peer), false);
  send(peer, handling(peer, large, false));
}

/// One pair at a time: the first rank of a pair begins when rank 0 says so, and tells it the end.
std::vector<PairLink> LinkMeter::measure() {
  std::vector<PairLink> links;
  for (int first = 0; first < transport.ranks(); ++first)
    for (int second = first + 1; second < transport.ranks(); ++second) {
      if (self == 0 && first > 0) {
        send(first, second);
        links.push_back(receive<PairLink>(first));
      } else if (self == first) {
        if (self > 0)
          receive<int>(0);
        PairLink link = lead(second);
        self > 0 ? send(0, link) : links.push_back(link);
      } else if (self == second) {
        follow(first);
      }
    }
  return links;
}

std::vector<std::string> LinkMeter::gatherHosts() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  if (self > 0)
    send(0, name);
  std::vector<std::string> hosts{name.data()};
  for (int rank = 1; self == 0 && rank < transport.ranks(); ++rank)
    hosts.emplace_back(receive<std::array<char, 256>>(rank).data());
  return hosts;
}

/// A sum of a few numbers over all ranks, one behind the other.
double measureSum(runtime::Transport &transport) {
  std::unique_ptr<runtime::Control> control =
      runtime::connectRanks(transport.rank(), transport.ranks(), true, kStartSeconds);
  control->whileWaiting([&] { transport.progress(); });
  std::vector<double> seconds;
  for (int round = 0; round < kSums; ++round) {
    std::array<double, 3> numbers{};
    double start = secondsNow();
    control->sum(numbers);
    seconds.push_back(secondsNow() - start);
  }
  control->whileWaiting({});
  control->finish();
  return middleOf(seconds);
}

/// Ranks per host where every host has as many, one after the other; else 0.
int ranksPerHost(const std::vector<std::string> &hosts) {
  int count = static_cast<int>(std::ranges::count(hosts, hosts[0]));
  for (size_t rank = 0; rank < hosts.size(); ++rank)
    if (hosts[rank] != hosts[rank / count * count] ||
        std::ranges::count(hosts, hosts[rank]) != count)
      return 0;
  return count;
}

nlohmann::ordered_json levelOf(int workers, std::vector<PairLink> links) {
  auto middle = [&](double PairLink::*what) {
    std::ranges::nth_element(links, links.begin() + static_cast<std::ptrdiff_t>(links.size() / 2),
                             {}, what);
    return links[links.size() / 2].*what;
  };
  return {{"workers", workers},
          {"bandwidth", std::round(middle(&PairLink::bytesPerSecond))},
          {"latency", middle(&PairLink::latencySeconds)},
          {"send_bandwidth", std::round(middle(&PairLink::sendBytesPerSecond))},
          {"receive_bandwidth", std::round(middle(&PairLink::receiveBytesPerSecond))}};
}

nlohmann::ordered_json topologyOf(const std::vector<std::string> &hosts,
                                  const std::vector<PairLink> &links, double sumSeconds) {
  int ranks = static_cast<int>(hosts.size()), perHost = ranksPerHost(hosts);
  std::vector<PairLink> inside, between;
  for (const PairLink &link : links)
    (hosts[link.first] == hosts[link.second] ? inside : between).push_back(link);
  nlohmann::ordered_json levels = nlohmann::ordered_json::array();
  if (perHost == 0) {
    levels.push_back(levelOf(ranks, links));
  } else {
    if (perHost > 1)
      levels.push_back(levelOf(perHost, inside));
    if (perHost < ranks)
      levels.push_back(levelOf(ranks / perHost, between));
  }
  nlohmann::ordered_json topology = {
      {"levels", levels}, {"device", "cpu"}, {"sum_seconds", sumSeconds}};
  if (perHost == ranks)
    topology["cores"] = runtime::usableCores();
  return topology;
}

} // namespace

void measureLinks(const std::filesystem::path &output) {
  if (!runtime::startedByMpi())
    throw UsageError(
        "--links measures between the ranks of mpirun or srun; start it as: mpirun -n 2 "
        "pdc-profile --links " +
        output.string());
  std::unique_ptr<runtime::Transport> transport = runtime::makeMpiTransport(1);
  if (transport->ranks() < 2 || transport->ranks() > kMostRanks)
    throw Error("--links: expected 2 to " + std::to_string(kMostRanks) + " ranks, found " +
                std::to_string(transport->ranks()) + "; a few of each host tell its links");
  LinkMeter meter(*transport);
  std::vector<std::string> hosts = meter.gatherHosts();
  std::vector<PairLink> links = meter.measure();
  double sum = measureSum(*transport);
  if (transport->rank() > 0)
    return;
  for (const PairLink &link : links) {
    char text[240];
    std::snprintf(
        text, sizeof text,
        "rank %d to rank %d: %.3g bytes per second, latency %.3g us; ranks hand over %.3g "
        "and take %.3g bytes per second\n",
        link.first, link.second, link.bytesPerSecond, 1e6 * link.latencySeconds,
        link.sendBytesPerSecond, link.receiveBytesPerSecond);
    std::cout << text;
  }
  std::cout << "a sum over all ranks: " << 1e6 * sum << " us\n";
  writeTextFile(output, topologyOf(hosts, links, sum).dump(1) + "\n");
  std::cout << "topology: " << output.string() << "\nnext: pdc MODEL.onnx --topology "
            << output.string() << " ...\n";
}

} // namespace pdc
