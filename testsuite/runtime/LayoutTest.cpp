#include "runtime/Layout.h"
#include "runtime/Error.h"

#include <gtest/gtest.h>
#include <numeric>

using namespace pdc::runtime;

static std::vector<float> packed(const char *tag, std::vector<int64_t> shape) {
  Layout layout(tag, shape);
  std::vector<float> rowMajor(size_t(layout.logicalElements()));
  std::iota(rowMajor.begin(), rowMajor.end(), 1.0f);
  std::vector<float> result(size_t(layout.elements()), -1.0f), back(rowMajor.size());
  layout.pack(reinterpret_cast<std::byte *>(rowMajor.data()),
              reinterpret_cast<std::byte *>(result.data()), 4);
  layout.unpack(reinterpret_cast<std::byte *>(result.data()),
                reinterpret_cast<std::byte *>(back.data()), 4);
  EXPECT_EQ(back, rowMajor) << tag;
  return result;
}

TEST(Layout, PlainPermutations) {
  EXPECT_EQ(packed("", {2, 3}), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(packed("ba", {2, 3}), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(packed("", {}), (std::vector<float>{1}));
}

TEST(Layout, UnpacksInPieces) {
  Layout layout("ba", std::vector<int64_t>{3, 20000});
  std::vector<float> rowMajor(60000), stored(60000), back;
  std::iota(rowMajor.begin(), rowMajor.end(), 1.0f);
  layout.pack(reinterpret_cast<std::byte *>(rowMajor.data()),
              reinterpret_cast<std::byte *>(stored.data()), 4);
  int pieces = 0;
  layout.unpack(reinterpret_cast<std::byte *>(stored.data()), 4, [&](Layout::Piece piece) {
    const auto *values = reinterpret_cast<const float *>(piece.data());
    back.insert(back.end(), values, values + piece.size() / 4);
    EXPECT_LE(piece.size(), 65536u);
    ++pieces;
  });
  EXPECT_EQ(back, rowMajor);
  EXPECT_EQ(pieces, 4);
}

TEST(Layout, InnerBlocksArePaddedWithZeros) {
  // Three columns in blocks of two: the second block is half padding.
  EXPECT_EQ(packed("aB2b", {2, 3}), (std::vector<float>{1, 2, 3, 0, 4, 5, 6, 0}));
  EXPECT_EQ(packed("BA2a", {3, 2}), (std::vector<float>{1, 3, 5, 0, 2, 4, 6, 0}));
}

TEST(Layout, DoubleBlocks) {
  // b in fours, a in twos inside, b in twos innermost: b = 4 * outer + 2 * middle + inner.
  std::vector<float> result = packed("AB2b2a2b", {2, 4});
  EXPECT_EQ(result, (std::vector<float>{1, 2, 5, 6, 3, 4, 7, 8}));
}

TEST(Layout, RoundTripsOfTheTagsThatKernelsUse) {
  for (const char *tag : {"abcd", "acdb", "ABcd16b16a", "aBcd16b", "Acdb16a", "ABcd8b8a", "aBcd8b",
                          "ABcd4b16a4b", "cdba"})
    for (std::vector<int64_t> shape : {std::vector<int64_t>{17, 3, 5, 5}, {32, 16, 1, 1}})
      packed(tag, shape);
  Layout layout("ABcd16b16a", std::vector<int64_t>{17, 3, 5, 5});
  EXPECT_EQ(layout.elements(), 32 * 16 * 25);
}

TEST(Layout, RefusesTagsThatDoNotFit) {
  for (const char *tag : {"a", "abc", "aa", "aB2", "aBb", "aB0b", "aB2c", "x!", "2a"})
    EXPECT_THROW(Layout(tag, std::vector<int64_t>{2, 3}), Error) << tag;
}
