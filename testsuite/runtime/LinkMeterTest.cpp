#include "runtime/LinkMeter.h"

#include <deque>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <thread>

namespace pdc::runtime {
namespace {

MeasuredTrip tripOf(double latency, double perByte, int64_t bytes) {
  return {bytes, latency + perByte * static_cast<double>(bytes)};
}

TEST(LinkMeter, FitsALine) {
  std::vector<MeasuredTrip> trips;
  for (int64_t bytes : {4096, 65536, 1 << 20, 16 << 20})
    trips.push_back(tripOf(2e-5, 1 / 25e9, bytes));
  MeasuredLink link = fitLink(trips);
  EXPECT_NEAR(link.latencySeconds, 2e-5, 1e-12);
  EXPECT_NEAR(link.bytesPerSecond, 25e9, 1);
  trips = {{64, 1e-6}, {4 << 20, 1e-3}};
  link = fitLink(trips);
  EXPECT_NEAR(1 / link.bytesPerSecond, (1e-3 - 1e-6) / ((4 << 20) - 64), 1e-16);
}

/// A share of a size is as far off as the same share of another: the small messages say what the
/// latency is, whatever the large ones are off by.
TEST(LinkMeter, FitsSmallMessagesAsWellAsLargeOnes) {
  std::vector<MeasuredTrip> trips;
  double off = 1.1;
  for (int64_t bytes : {4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20}) {
    trips.push_back(tripOf(2e-5, 1 / 25e9, bytes));
    trips.back().seconds *= off;
    off = 2 - off;
  }
  MeasuredLink link = fitLink(trips);
  EXPECT_NEAR(link.latencySeconds, 2e-5, 4e-6);
  EXPECT_NEAR(link.bytesPerSecond, 25e9, 5e9);
}

/// Small messages that waited longer than large ones leave a bandwidth above nothing and a latency
/// that is no more than was measured.
TEST(LinkMeter, FitsWhatIsNoLine) {
  std::vector<MeasuredTrip> trips = {{64, 2e-3}, {4 << 20, 1e-3}};
  MeasuredLink link = fitLink(trips);
  EXPECT_DOUBLE_EQ(link.bytesPerSecond, 10 * (4 << 20) / 1e-3);
  EXPECT_GE(link.latencySeconds, 0);
  EXPECT_LE(link.latencySeconds, 2e-3);
}

using Speeds = std::map<std::pair<int, int>, MeasuredLink>;

/// When the messages that are on their way come.
struct Wire {
  const Speeds &speeds;
  std::mutex mutex;
  std::map<std::pair<int, int>, std::deque<Seconds>> arrivals; ///< by sender and receiver
};

/// Threads whose messages come after the latency and at the bandwidth of their pair, whatever their
/// ranks do meanwhile.
class SlowTransport : public Transport {
public:
  SlowTransport(LocalNetwork &network, int rank, Wire &wire)
      : inner(network.endpoint(rank)), wire(wire) {}
  int rank() const override { return inner->rank(); }
  int ranks() const override { return inner->ranks(); }
  void post(std::span<Message> group) override {
    for (const Message &message : group)
      if (message.send)
        send(message);
    inner->post(group);
    for (const Message &message : group)
      posted[message.request] = message;
  }
  bool wait(int request, std::chrono::microseconds patience) override {
    if (!inner->wait(request, patience))
      return false;
    if (const Message &message = posted.at(request); !message.send)
      std::this_thread::sleep_for(std::chrono::duration<double>(arrivalFrom(message.peer) - now()));
    return true;
  }

private:
  void send(const Message &message) {
    const MeasuredLink &link =
        wire.speeds.at({std::min(rank(), message.peer), std::max(rank(), message.peer)});
    std::lock_guard lock(wire.mutex);
    wire.arrivals[{rank(), message.peer}].push_back(
        now() + link.latencySeconds + static_cast<double>(message.bytes) / link.bytesPerSecond);
  }
  Seconds arrivalFrom(int peer) {
    std::lock_guard lock(wire.mutex);
    std::deque<Seconds> &arrivals = wire.arrivals[{peer, rank()}];
    const Seconds first = arrivals.front();
    arrivals.pop_front();
    return first;
  }

  std::unique_ptr<Transport> inner;
  Wire &wire;
  std::map<int, Message> posted;
};

using Found = std::vector<std::vector<MeasuredLink>>; ///< by rank

Found measure(const Speeds &speeds, int ranks) {
  Wire wire{speeds, {}, {}};
  LocalNetwork network(ranks);
  LocalControlPlane plane(ranks);
  Found found(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      SlowTransport transport(network, rank, wire);
      found[rank] = measureLinks(transport, plane.of(rank), nullptr);
    });
  for (std::thread &thread : threads)
    thread.join();
  return found;
}

/// Within a factor of two.
bool isClose(const Found &found, const Speeds &speeds) {
  for (const std::vector<MeasuredLink> &links : found)
    for (const MeasuredLink &link : links) {
      const MeasuredLink &expected = speeds.at({link.first, link.second});
      if (link.latencySeconds >= 2 * expected.latencySeconds ||
          link.bytesPerSecond <= 0.5 * expected.bytesPerSecond ||
          link.bytesPerSecond >= 2 * expected.bytesPerSecond)
        return false;
    }
  return true;
}

/// A sleep ends late, and the more so where others compute: of several measurements one is close.
TEST(LinkMeter, MeasuresEachPairAsItIs) {
  const Speeds speeds = {
      {{0, 1}, {0, 1, 4e8, 1e-3}}, {{0, 2}, {0, 2, 1e8, 5e-3}}, {{1, 2}, {1, 2, 2e8, 2e-3}}};
  bool wasClose = false;
  for (int times = 0; times < 8 && !wasClose; ++times) {
    const Found found = measure(speeds, 3);
    for (const std::vector<MeasuredLink> &links : found) {
      ASSERT_EQ(links.size(), speeds.size());
      for (const MeasuredLink &link : links)
        EXPECT_GT(link.latencySeconds, speeds.at({link.first, link.second}).latencySeconds);
    }
    wasClose = isClose(found, speeds);
  }
  EXPECT_TRUE(wasClose);
}

} // namespace
} // namespace pdc::runtime
