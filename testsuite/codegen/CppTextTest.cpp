#include "codegen/CppText.h"

#include <gtest/gtest.h>

#include <limits>

using namespace pdc;

TEST(StringLiteral, KeepsOrdinaryText) {
  EXPECT_EQ(stringLiteral("/conv1/Conv"), "\"/conv1/Conv\"");
}

TEST(StringLiteral, NeverEndsEarly) {
  EXPECT_EQ(stringLiteral("x\"); system(\""), R"("x\"); system(\"")");
  EXPECT_EQ(stringLiteral("x\\"), R"("x\\")");
  EXPECT_EQ(stringLiteral("a\nb\r"), R"("a\nb\015")");
}

TEST(StringLiteral, HasNoTrigraphs) { EXPECT_EQ(stringLiteral("a?\?/b"), R"("a\?\?/b")"); }

TEST(StringLiteral, DigitsAfterAnEscapeStayDigits) {
  EXPECT_EQ(stringLiteral(llvm::StringRef("\x01"
                                          "7",
                                          2)),
            R"("\0017")");
  EXPECT_EQ(stringLiteral(llvm::StringRef("\0", 1)), R"("\000")");
}

TEST(CommentText, LeavesOrdinaryNamesAlone) {
  EXPECT_EQ(commentText("/layer1/0/Conv_output:0"), "/layer1/0/Conv_output:0");
}

TEST(CommentText, CannotLeaveItsLine) {
  EXPECT_EQ(commentText("a\nint x;"), R"("a\nint x;")");
  // A backslash at the end would continue the comment; a quote stands behind it.
  EXPECT_EQ(commentText("a\\"), R"("a\\")");
  EXPECT_EQ(commentText("a*/b"), R"("a*\057b")");
  EXPECT_EQ(commentText(""), R"("")");
}

TEST(CommentText, KeepsPrintableUnicodeOnly) {
  EXPECT_EQ(commentText("Schlüssel"), "\"Schlüssel\"");
  // U+202E turns the reading direction around; U+2028 ends a line for some readers.
  EXPECT_EQ(commentText("a\xE2\x80\xAE"
                        "b"),
            R"("a\342\200\256b")");
  EXPECT_EQ(commentText("a\xE2\x80\xA8"
                        "b"),
            R"("a\342\200\250b")");
  EXPECT_EQ(commentText("a\xC3"), R"("a\303")");
}

TEST(Literals, AreTheShortestOfTheirValue) {
  EXPECT_EQ(floatLiteral(0.9), "0.9f");
  EXPECT_EQ(floatLiteral(1), "1.0f");
  EXPECT_EQ(floatLiteral(1e-5), "1e-05f");
  EXPECT_EQ(doubleLiteral(0.1), "0.1");
  EXPECT_EQ(doubleLiteral(-2), "-2.0");
  EXPECT_EQ(floatLiteral(-std::numeric_limits<double>::infinity()),
            "-std::numeric_limits<float>::infinity()");
  EXPECT_EQ(integerLiteral(INT64_MIN), "(-9223372036854775807 - 1)");
}

TEST(PlainIdentifier, ExcludesWhatTheSourceUsesItself) {
  EXPECT_TRUE(isPlainIdentifier("fc1_weight"));
  for (const char *name : {"", "1a", "a-b", "a__b", "a_", "_a", "a b", "a;"})
    EXPECT_FALSE(isPlainIdentifier(name)) << name;
}

TEST(ListText, BreaksBehindCommas) {
  EXPECT_EQ(listText("f(", {"a", "b"}, ");", 0), "f(a, b);");
  EXPECT_EQ(listText("f(", {}, ");", 0), "f();");
  EXPECT_EQ(listText("f(", {std::string(60, 'a'), std::string(60, 'b')}, ");", 0),
            "f(" + std::string(60, 'a') + ",\n  " + std::string(60, 'b') + ");");
}
