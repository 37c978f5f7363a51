#include "runtime/LinkMeter.h"

#include "runtime/Cores.h"
#include "runtime/Error.h"
#include "runtime/QuantityText.h"
#include "runtime/ReplacedFile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace pdc::runtime {

namespace {

constexpr int kMostRanks = 32;
constexpr double kPatientSeconds = 0.4; ///< for the messages of a size
constexpr int kWarmUps = 10, kLeastTrips = 3;
/// Messages as pipelines send them, for what their ranks spend on each.
constexpr int64_t kHandledBytes = 512 << 10;
constexpr int kHandledRounds = 15;
constexpr int kSums = 50;

/// Messages of a size, and how many are sent at most.
struct Size {
  int64_t bytes;
  int mostTrips;
};
constexpr Size kProcessorSizes[] = {{64, 200}, {4 << 20, 20}};
/// Libraries for GPUs change their protocol with the size.
constexpr Size kAcceleratorSizes[] = {
    {4 << 10, 200}, {64 << 10, 200}, {1 << 20, 100}, {4 << 20, 50}, {16 << 20, 50}};
/// Messages between accelerators are put into their queues, and waited for so many together: a
/// pipeline does not wait for each either.
constexpr int kTripsAtOnce = 10;

double middleOf(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void computeFor(double seconds) {
  for (double end = now() + seconds; now() < end;)
    ;
}

/// One side of a pair.
class LinkMeter {
public:
  LinkMeter(Transport &transport, Control &control, Accelerator *accelerator)
      : transport(transport), control(control), accelerator(accelerator),
        sizes(accelerator ? std::span<const Size>(kAcceleratorSizes) : kProcessorSizes) {
    memory.resize(accelerator ? 0 : static_cast<size_t>(sizes.back().bytes));
    buffer = accelerator ? accelerator->allocate(sizes.back().bytes) : memory.data();
  }

  MeasuredLink measure(int first, int second);

private:
  void exchange(bool send, int64_t bytes);
  void settle();
  double trips(int64_t bytes, int count);
  double medianTrip(const Size &size, double seconds);
  double handling(double tripSeconds);
  std::vector<double> tellAll(std::vector<double> numbers);
  std::vector<double> firstTrips();
  std::vector<double> medianTrips(const std::vector<double> &first);

  Transport &transport;
  Control &control;
  Accelerator *accelerator;
  std::span<const Size> sizes;
  std::vector<std::byte> memory;
  std::byte *buffer;
  int peer = -1; ///< -1: another pair is measured
  bool leads = false;
};

void LinkMeter::exchange(bool send, int64_t bytes) {
  Message message{send, peer, 1, buffer, bytes};
  transport.post({&message, 1});
  while (!transport.wait(message.request, std::chrono::milliseconds(100)))
    control.check();
}

/// An accelerator's messages have moved.
void LinkMeter::settle() {
  std::byte last;
  if (accelerator)
    accelerator->read(&last, buffer, 1);
}

/// Seconds one way: half of what messages take there and back.
double LinkMeter::trips(int64_t bytes, int count) {
  const double start = now();
  for (int trip = 0; trip < count; ++trip) {
    exchange(leads, bytes);
    exchange(!leads, bytes);
  }
  settle();
  return (now() - start) / 2 / count;
}

/// Both sides know what the first trip took.
double LinkMeter::medianTrip(const Size &size, double seconds) {
  const int atOnce = accelerator ? kTripsAtOnce : 1;
  const double fitting = kPatientSeconds / std::max(seconds, 1e-9) / atOnce;
  const int rounds = static_cast<int>(
      std::clamp<double>(fitting, kLeastTrips, std::max(kLeastTrips, size.mostTrips / atOnce)));
  std::vector<double> taken;
  for (int round = 0; round < rounds; ++round)
    taken.push_back(trips(size.bytes, atOnce));
  return middleOf(taken);
}

/// What this rank spends on a message between two computations: to hand it over, or to take it once
/// it has come.
double LinkMeter::handling(double tripSeconds) {
  std::vector<double> spent;
  for (int round = 0; round < kHandledRounds; ++round) {
    trips(sizes.front().bytes, 1);
    Message message{leads, peer, 1, buffer, kHandledBytes};
    const double start = now();
    if (leads)
      transport.post({&message, 1});
    const double posted = now();
    computeFor(2 * tripSeconds);
    const double computed = now();
    if (!leads)
      transport.post({&message, 1});
    while (!transport.wait(message.request, std::chrono::milliseconds(100)))
      control.check();
    spent.push_back(leads ? posted - start : now() - computed);
  }
  return middleOf(spent);
}

/// The numbers of all ranks, one behind the other.
std::vector<double> LinkMeter::tellAll(std::vector<double> numbers) {
  std::vector<std::string> all;
  control.gather(nlohmann::json(numbers).dump(), all);
  std::vector<double> told;
  for (const std::string &text : all)
    for (double number : nlohmann::json::parse(text))
      told.push_back(number);
  return told;
}

/// Warm-up included: what connects on first use has connected after the first trips.
std::vector<double> LinkMeter::firstTrips() {
  std::vector<double> first;
  if (peer < 0)
    return tellAll(first);
  trips(sizes.front().bytes, kWarmUps);
  for (const Size &size : sizes)
    first.push_back(trips(size.bytes, 1));
  return tellAll(leads ? first : std::vector<double>());
}

std::vector<double> LinkMeter::medianTrips(const std::vector<double> &first) {
  std::vector<double> medians;
  for (size_t size = 0; size < sizes.size() && peer >= 0; ++size)
    medians.push_back(medianTrip(sizes[size], first[size]));
  return tellAll(leads ? medians : std::vector<double>());
}

/// Where the ranks themselves copy most of a message that is the transfer; else both go on side by
/// side.
void addHandling(MeasuredLink &link, double handOver, double take) {
  link.sendBytesPerSecond = static_cast<double>(kHandledBytes) / std::max(handOver, 1e-9);
  link.receiveBytesPerSecond = static_cast<double>(kHandledBytes) / std::max(take, 1e-9);
  double perByte = 1 / link.bytesPerSecond;
  const double own = 1 / link.sendBytesPerSecond + 1 / link.receiveBytesPerSecond;
  if (own > perByte / 2)
    perByte = std::max(perByte - own, perByte / 10);
  link.bytesPerSecond = 1 / perByte;
}

MeasuredLink LinkMeter::measure(int first, int second) {
  const int self = transport.rank();
  leads = self == first;
  peer = leads ? second : self == second ? first : -1;
  const std::vector<double> medians = medianTrips(firstTrips());
  std::vector<MeasuredTrip> trips;
  for (size_t size = 0; size < sizes.size(); ++size)
    trips.push_back({sizes[size].bytes, medians[size]});
  MeasuredLink link = fitLink(trips);
  link.first = first;
  link.second = second;
  if (accelerator)
    return link;
  const std::vector<double> handled =
      tellAll(peer < 0 ? std::vector<double>() : std::vector{handling(medians.back())});
  addHandling(link, handled[0], handled[1]);
  return link;
}

/// A sum of a few numbers over all ranks, one behind the other.
double measureSum(Control &control) {
  std::vector<double> seconds;
  for (int round = 0; round < kSums; ++round) {
    std::array<double, 3> numbers{};
    const double start = now();
    control.sum(numbers);
    seconds.push_back(now() - start);
  }
  return middleOf(seconds);
}

/// Ranks per host where every host has as many, one after the other; else 0.
int ranksPerHost(const std::vector<std::string> &hosts) {
  const int count = static_cast<int>(std::ranges::count(hosts, hosts[0]));
  for (size_t rank = 0; rank < hosts.size(); ++rank)
    if (hosts[rank] != hosts[rank / count * count] ||
        std::ranges::count(hosts, hosts[rank]) != count)
      return 0;
  return count;
}

nlohmann::ordered_json levelOf(int workers, const std::vector<MeasuredLink> &links) {
  auto middle = [&](double MeasuredLink::*what) {
    std::vector<double> values;
    for (const MeasuredLink &link : links)
      values.push_back(link.*what);
    return middleOf(values);
  };
  nlohmann::ordered_json level = {{"workers", workers},
                                  {"bandwidth", std::round(middle(&MeasuredLink::bytesPerSecond))},
                                  {"latency", middle(&MeasuredLink::latencySeconds)}};
  if (links[0].sendBytesPerSecond > 0) {
    level["send_bandwidth"] = std::round(middle(&MeasuredLink::sendBytesPerSecond));
    level["receive_bandwidth"] = std::round(middle(&MeasuredLink::receiveBytesPerSecond));
  }
  return level;
}

nlohmann::ordered_json topologyOf(const std::vector<std::string> &hosts,
                                  const std::vector<MeasuredLink> &links) {
  const int ranks = static_cast<int>(hosts.size()), perHost = ranksPerHost(hosts);
  std::vector<MeasuredLink> inside, between;
  for (const MeasuredLink &link : links)
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
  return {{"levels", levels}};
}

void print(const std::vector<MeasuredLink> &links, double sumSeconds) {
  for (const MeasuredLink &link : links) {
    std::printf("rank %d to rank %d: %.3g bytes per second, latency %s", link.first, link.second,
                link.bytesPerSecond, secondsText(link.latencySeconds).c_str());
    if (link.sendBytesPerSecond > 0)
      std::printf("; ranks hand over %.3g and take %.3g bytes per second", link.sendBytesPerSecond,
                  link.receiveBytesPerSecond);
    std::printf("\n");
  }
  std::printf("a sum over all ranks: %s\n", secondsText(sumSeconds).c_str());
}

} // namespace

/// Where others compute, the small messages may have waited longer than the large ones.
MeasuredLink fitLink(std::span<const MeasuredTrip> trips) {
  double ones = 0, sizes = 0, squares = 0, seconds = 0, products = 0;
  for (const MeasuredTrip &trip : trips) {
    const double weight = 1 / (trip.seconds * trip.seconds),
                 bytes = static_cast<double>(trip.bytes);
    ones += weight;
    sizes += weight * bytes;
    squares += weight * bytes * bytes;
    seconds += weight * trip.seconds;
    products += weight * bytes * trip.seconds;
  }
  const MeasuredTrip &small = trips.front(), &large = trips.back();
  const double slope = (ones * products - sizes * seconds) / (ones * squares - sizes * sizes);
  const double perByte = std::max(slope, large.seconds / 10 / static_cast<double>(large.bytes));
  const double latency = (seconds - perByte * sizes) / ones;
  return {0, 0, 1 / perByte, std::clamp(latency, 0.0, small.seconds)};
}

std::vector<MeasuredLink> measureLinks(Transport &transport, Control &control,
                                       Accelerator *accelerator) {
  if (transport.ranks() < 2 || transport.ranks() > kMostRanks)
    throw Error("links are measured between 2 to ", kMostRanks, " ranks, found ", transport.ranks(),
                "; a few of each host tell its links");
  LinkMeter meter(transport, control, accelerator);
  std::vector<MeasuredLink> links;
  for (int first = 0; first < transport.ranks(); ++first)
    for (int second = first + 1; second < transport.ranks(); ++second)
      links.push_back(meter.measure(first, second));
  return links;
}

void measureTopology(Transport &transport, Control &control, Accelerator *accelerator,
                     const std::filesystem::path &output) {
  std::vector<std::string> hosts;
  control.gather(hostName(), hosts);
  const std::vector<MeasuredLink> links = measureLinks(transport, control, accelerator);
  const double sum = measureSum(control);
  if (transport.rank() > 0)
    return;
  print(links, sum);
  nlohmann::ordered_json topology = topologyOf(hosts, links);
  topology["device"] = accelerator ? "cuda" : "cpu";
  topology["sum_seconds"] = sum;
  if (!accelerator && ranksPerHost(hosts) == transport.ranks())
    topology["cores"] = usableCores();
  ReplacedFile file(output);
  file.text() << topology.dump(1) << "\n";
  if (!file.takePlace())
    throw Error(output.string(), ": cannot be written; give a file in a folder that can");
  std::printf("topology: %s\nnext: pdc MODEL.onnx --topology %s ...\n", output.c_str(),
              output.c_str());
}

} // namespace pdc::runtime
