#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace pdc {

/// An arena whose bytes remember which content was written there last.
class ShadowBytes {
public:
  /// A content that is like no other; `text` names it in errors.
  int64_t newContent(std::string text);
  const std::string &text(int64_t content) const { return texts[content]; }

  /// Some of the bytes of a content that lie behind one another are contents themselves.
  struct Part {
    int64_t offset, bytes, content;
  };
  int64_t joined(std::string text, std::vector<Part> parts);
  /// What some bytes of a content are: itself, or of one that was joined its parts there.
  int64_t partOf(int64_t content, int64_t offset, int64_t bytes);

  void write(int64_t offset, int64_t bytes, int64_t content);
  /// The first content in the bytes that is another one; -1 when all are as meant.
  int64_t findOther(int64_t offset, int64_t bytes, int64_t content) const;

private:
  struct Piece {
    int64_t end;
    int64_t content;
  };
  void split(int64_t offset);

  std::vector<std::string> texts{"nothing"};
  std::map<int64_t, std::vector<Part>> joints; ///< by content: what it was joined of
  std::map<int64_t, Piece> pieces; ///< by offset
};

} // namespace pdc
