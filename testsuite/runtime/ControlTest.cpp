#include "runtime/Control.h"
#include "runtime/Error.h"
#include "runtime/SharedFolder.h"

#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace pdc::runtime;

namespace {

constexpr int kRanks = 3;

/// What came over all TCP connections that this process holds, as the kernel counts it.
uint64_t receivedBytes() {
  uint64_t bytes = 0;
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    tcp_info info{};
    socklen_t length = sizeof info;
    if (getsockopt(std::stoi(entry.path().filename()), IPPROTO_TCP, TCP_INFO, &info, &length) == 0)
      bytes += info.tcpi_bytes_received;
  }
  return bytes;
}

/// Where so many ranks of this process find one another.
struct Meeting {
  Meeting(int ranks, double patience)
      : place{0, ranks, "127.0.0.1", 0, "secret", patience}, listener(place) {
    place.port = listener.port();
  }
  std::unique_ptr<Control> join(int rank) const {
    Rendezvous own = place;
    own.rank = rank;
    return connectOverTcp(own, rank == 0 ? &listener : nullptr);
  }
  Rendezvous place;
  const Listener listener;
};

/// Runs a rank on each of some threads, connected over TCP; returns what they received.
uint64_t connected(const std::function<void(Control &)> &rank) {
  const Meeting meeting(kRanks, 60);
  uint64_t bytes = 0;
  std::vector<std::thread> threads;
  for (int number = 0; number < kRanks; ++number)
    threads.emplace_back([&, number] {
      std::unique_ptr<Control> control = meeting.join(number);
      rank(*control);
      // Everybody is done and still connected.
      std::vector<std::string> all;
      control->gather("", all);
      if (number == 0)
        bytes = receivedBytes();
      control->gather("", all);
    });
  for (std::thread &thread : threads)
    thread.join();
  return bytes;
}

/// torchrun's agent holds MASTER_PORT and says so (PyTorch 2.15: TORCHELASTIC_USE_AGENT_STORE).
TEST(ConnectRanks, BesideTheStoreOfTorchrun) {
  const Listener store({.rank = 0, .ranks = 2, .address = "127.0.0.1"});
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(store.port()).c_str(), 1);
  EXPECT_THROW(connectRanks(0, 2, false, 1), Error);
  setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  std::vector<std::string> told(2);
  std::vector<std::thread> threads;
  for (int rank : {0, 1})
    threads.emplace_back([&told, rank] {
      std::vector<std::string> all;
      std::unique_ptr<Control> control = connectRanks(rank, 2, false, 10);
      control->gather(std::to_string(rank), all);
      told[size_t(rank)] = all[0] + all[1];
      control->finish();
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(told, (std::vector<std::string>{"01", "01"}));
  for (const char *name : {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE"})
    unsetenv(name);
}

/// What this rank is refused with.
std::string refusalOf(const std::function<void()> &rank) {
  try {
    rank();
    return "accepted";
  } catch (const Error &error) {
    return error.what();
  }
}

TEST(ConnectOverTcp, SaysToAllWhichRanksAreMissing) {
  const Meeting meeting(4, 1);
  const std::unique_ptr<Control> here = meeting.join(2);
  // As ranks do, before the end is told.
  std::string end;
  std::thread gathers([&] {
    std::vector<std::string> all;
    end = refusalOf([&] { here->gather("part", all); });
  });
  const std::string expected =
      "start-up: 2 of 4 ranks have come in 1 s; missing: ranks 1, 3; start "
      "all of them or raise --timeout";
  EXPECT_EQ(refusalOf([&] { meeting.join(0); }), expected);
  gathers.join();
  EXPECT_EQ(end, expected);
}

TEST(ConnectOverTcp, SaysToBothThatTheyAreOneRank) {
  const Meeting meeting(3, 10);
  const std::unique_ptr<Control> here = meeting.join(1), other = meeting.join(1);
  const std::string expected =
      "start-up: two processes say that they are rank 1; give each its own number (RANK)";
  EXPECT_EQ(refusalOf([&] { meeting.join(0); }), expected);
  std::vector<std::string> all;
  for (const auto *rank : {&here, &other})
    EXPECT_EQ(refusalOf([&] { (*rank)->gather("", all); }), expected);
}

/// What each rank is refused with that saves to its own of these folders.
std::vector<std::string> refusalsOf(const std::vector<std::string> &folders) {
  std::vector<std::string> refusals(kRanks);
  connected([&](Control &control) {
    const size_t rank = size_t(control.rank());
    refusals[rank] = refusalOf([&] { requireSharedFolder(folders[rank], int(rank), control); });
  });
  return refusals;
}

TEST(SharedFolder, IsLookedForByAllRanks) {
  namespace fs = std::filesystem;
  const fs::path here = fs::temp_directory_path() / ("pdc-shared-" + std::to_string(getpid()));
  const std::string one = here / "one", two = here / "two", link = here / "link";
  fs::create_directories(one);
  fs::create_directories(two);
  fs::create_directory_symlink(one, link);
  const std::vector<std::string> accepted(kRanks, "accepted");
  EXPECT_EQ(refusalsOf({one, one, link}), accepted);
  EXPECT_EQ(refusalsOf({"", "", ""}), accepted);
  // Ranks of other options are refused later, by all.
  EXPECT_EQ(refusalsOf({one, "", one}), accepted);
  EXPECT_EQ(refusalsOf({"", two, two}), accepted);
  char host[256] = "";
  gethostname(host, sizeof host);
  const std::string refused = std::string(": is not the same folder on all hosts: rank 1 on ") +
                              host + " does not see there what rank 0 on " + host +
                              " writes; give one that is shared, as on NFS";
  EXPECT_EQ(refusalsOf({one, two, one}),
            (std::vector{"--save " + one + refused, "--save " + two + refused,
                         "--save " + one + refused}));
  // Nothing is left of it.
  EXPECT_TRUE(fs::is_empty(one));
  EXPECT_TRUE(fs::is_empty(two));
  fs::remove_all(here);
}

std::string textOf(int rank) { return std::string(1 << 20, char('a' + rank)); }

void expectTexts(const std::vector<std::string> &all) {
  ASSERT_EQ(all.size(), size_t(kRanks));
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(all[rank], textOf(rank));
}

} // namespace

TEST(Control, GathersEveryTextEverywhere) {
  EXPECT_GE(connected([](Control &control) {
              std::vector<std::string> all;
              control.gather(textOf(control.rank()), all);
              expectTexts(all);
            }),
            8u << 20);
}

/// Traces are long: what the others say goes to rank 0 and nowhere else.
TEST(Control, CollectsTextsOnTheFirstRankAlone) {
  const uint64_t bytes = connected([](Control &control) {
    std::vector<std::string> all;
    control.collect(textOf(control.rank()), all);
    if (control.rank() == 0)
      expectTexts(all);
    else
      EXPECT_TRUE(all.empty());
  });
  EXPECT_GE(bytes, 2u << 20);
  EXPECT_LT(bytes, (2u << 20) + 10000);
}

TEST(Control, CollectsFromThreads) {
  LocalControlPlane plane(kRanks);
  std::vector<std::thread> threads;
  for (int number = 0; number < kRanks; ++number)
    threads.emplace_back([&, number] {
      for (int round = 0; round < 100; ++round) {
        std::vector<std::string> all;
        plane.of(number).collect(std::to_string(round * kRanks + number), all);
        ASSERT_EQ(all.size(), size_t(number == 0 ? kRanks : 0));
        for (size_t rank = 0; rank < all.size(); ++rank)
          EXPECT_EQ(all[rank], std::to_string(round * kRanks + int(rank)));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

/// Ranks of three speeds, the second of which asks for an end; then each says how many it had
/// begun.
static void expectRoundsEndTogether(Control &control) {
  constexpr int64_t kMost = 1000;
  int64_t rounds = 0;
  for (; rounds < kMost && control.beginsRound(); ++rounds) {
    if (control.rank() == 1 && rounds == 4)
      control.requestStop();
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + 4 * control.rank()));
  }
  EXPECT_TRUE(control.endsRounds());
  std::vector<std::string> all;
  control.gather(std::to_string(rounds), all);
  EXPECT_GE(rounds, 5);
  EXPECT_LT(rounds, kMost);
  EXPECT_EQ(all, std::vector<std::string>(kRanks, std::to_string(rounds)));
  EXPECT_FALSE(control.beginsRound());
}

TEST(Control, EndsRoundsTogether) { connected(expectRoundsEndTogether); }

TEST(Control, EndsRoundsOfThreads) {
  LocalControlPlane plane(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&plane, rank] { expectRoundsEndTogether(plane.of(rank)); });
  for (std::thread &thread : threads)
    thread.join();
}
