#include "compiler/schedule/Lifetimes.h"
#include "testsuite/EveryCase.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace pdc {
namespace {

/// Whether turns that share a slot never live at one time.
bool fits(const std::vector<Lifetimes> &replicas, const std::vector<int> &table) {
  auto slotOf = [&](int64_t turn) { return table[static_cast<size_t>(turn) % table.size()]; };
  for (const Lifetimes &own : replicas)
    for (const auto &[turn, life] : own)
      for (const auto &[other, otherLife] : own)
        if (turn != other && slotOf(turn) == slotOf(other) && life.first <= otherLife.last &&
            otherLife.first <= life.last)
          return false;
  return true;
}

int mostAtOneTime(const std::vector<Lifetimes> &replicas) {
  std::ptrdiff_t most = 1;
  for (const Lifetimes &own : replicas)
    for (size_t place = 0; place < 200; ++place)
      most = std::max(most, std::ranges::count_if(own, [&](const auto &entry) {
                        return entry.second.first <= place && place <= entry.second.last;
                      }));
  return static_cast<int>(most);
}

std::vector<Lifetimes> drawLifetimes(std::mt19937 &random, bool inTurn) {
  std::vector<Lifetimes> replicas(1 + random() % 3);
  const size_t turns = 1 + random() % 12;
  for (Lifetimes &own : replicas) {
    std::vector<size_t> begins, ends;
    for (size_t turn = 0; turn < turns; ++turn)
      begins.push_back(random() % 90);
    if (inTurn)
      std::ranges::sort(begins);
    for (size_t begin : begins)
      ends.push_back(begin + random() % 40);
    if (inTurn)
      std::ranges::sort(ends);
    for (size_t turn = 0; turn < turns; ++turn)
      own[static_cast<int64_t>(turn)] = {begins[turn], ends[turn]};
  }
  return replicas;
}

TEST(Lifetimes, InTurnTakeAsManySlotsAsLiveAtOnce) {
  for (int round = 0; round < 2000; round += kEveryCase) {
    std::mt19937 random = drawsOf(21, round);
    const std::vector<Lifetimes> replicas = drawLifetimes(random, true);
    for (bool asynchronous : {false, true}) {
      const std::vector<int> table = makeSlotTable(replicas, asynchronous);
      EXPECT_TRUE(fits(replicas, table)) << round;
      EXPECT_EQ(*std::ranges::max_element(table) + 1, mostAtOneTime(replicas)) << round;
    }
  }
}

TEST(Lifetimes, ThatOvertakeEachOtherStillHaveSlotsOfTheirOwn) {
  for (int round = 0; round < 2000; round += kEveryCase) {
    std::mt19937 random = drawsOf(22, round);
    const std::vector<Lifetimes> replicas = drawLifetimes(random, false);
    size_t turns = 0;
    for (const Lifetimes &own : replicas)
      turns = std::max(turns, own.size());
    for (bool asynchronous : {false, true}) {
      const std::vector<int> table = makeSlotTable(replicas, asynchronous);
      const int slots = *std::ranges::max_element(table) + 1;
      EXPECT_TRUE(fits(replicas, table)) << round;
      EXPECT_GE(slots, mostAtOneTime(replicas)) << round;
      EXPECT_LE(slots, static_cast<int>(turns)) << round;
    }
  }
}

/// Every second turn ends behind the next one's end and begin, and behind the begin of the one
/// after that: two live at once, and turns three apart never. So many that comparing each with each
/// would not end.
TEST(Lifetimes, OfManyTurns) {
  Lifetimes own;
  for (int64_t turn = 0; turn < 1'000'000; ++turn) {
    const auto begin = static_cast<size_t>(10 * turn);
    own.emplace_hint(own.end(), turn, Lifetime{begin, begin + (turn % 2 ? 5 : 25)});
  }
  EXPECT_EQ(std::ranges::max(makeSlotTable({own}, false)), 1);
  EXPECT_EQ(makeSlotTable({own}, true), (std::vector<int>{0, 1, 2}));
}

} // namespace
} // namespace pdc
