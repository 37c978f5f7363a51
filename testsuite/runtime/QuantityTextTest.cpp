#include "runtime/QuantityText.h"

#include <gtest/gtest.h>

namespace pdc::runtime {
namespace {

TEST(QuantityText, TakesTheNextUnitWhereTheDigitsDo) {
  EXPECT_EQ(secondsText(0), "0 s");
  EXPECT_EQ(secondsText(2.5e-9), "0.0025 us");
  EXPECT_EQ(secondsText(17.346e-3), "17.3 ms");
  EXPECT_EQ(secondsText(999.4e-6), "999 us");
  EXPECT_EQ(secondsText(999.6e-6), "1 ms");
  EXPECT_EQ(secondsText(999.4e-3), "999 ms");
  EXPECT_EQ(secondsText(999.6e-3), "1 s");
  EXPECT_EQ(bytesText(0), "0 B");
  EXPECT_EQ(bytesText(999), "999 B");
  EXPECT_EQ(bytesText(999'400), "999 KB");
  EXPECT_EQ(bytesText(999'600), "1 MB");
  EXPECT_EQ(bytesText(416'000'000), "416 MB");
}

TEST(QuantityText, WritesNoPowerOfTen) {
  EXPECT_EQ(secondsText(999.6), "1000 s");
  EXPECT_EQ(secondsText(1234.5), "1234 s");
  EXPECT_EQ(bytesText(INT64_MAX), "9223 PB");
}

} // namespace
} // namespace pdc::runtime
