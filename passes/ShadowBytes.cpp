#include "passes/ShadowBytes.h"

#include <algorithm>

namespace pdc {

int64_t ShadowBytes::newContent(std::string text) {
  texts.push_back(std::move(text));
  return static_cast<int64_t>(texts.size()) - 1;
}

/// Lets a piece begin at the offset if one covers it.
void ShadowBytes::split(int64_t offset) {
  auto after = pieces.upper_bound(offset);
  if (after == pieces.begin())
    return;
  auto before = std::prev(after);
  if (before->first == offset || before->second.end <= offset)
    return;
  Piece rest = before->second;
  before->second.end = offset;
  pieces[offset] = rest;
}

void ShadowBytes::write(int64_t offset, int64_t bytes, int64_t content) {
  if (bytes == 0)
    return;
  split(offset);
  split(offset + bytes);
  pieces.erase(pieces.lower_bound(offset), pieces.lower_bound(offset + bytes));
  pieces[offset] = {offset + bytes, content};
}

int64_t ShadowBytes::joined(std::string text, std::vector<Part> parts) {
  const int64_t content = newContent(std::move(text));
  joints[content] = std::move(parts);
  return content;
}

int64_t ShadowBytes::partOf(int64_t content, int64_t offset, int64_t bytes) {
  auto joint = joints.find(content);
  if (joint == joints.end())
    return content;
  std::vector<Part> parts;
  for (const Part &part : joint->second) {
    const int64_t begin = std::max(offset, part.offset);
    const int64_t end = std::min(offset + bytes, part.offset + part.bytes);
    if (begin < end)
      parts.push_back(
          {begin - offset, end - begin, partOf(part.content, begin - part.offset, end - begin)});
  }
  return joined("a part of " + text(content), std::move(parts));
}

int64_t ShadowBytes::findOther(int64_t offset, int64_t bytes, int64_t content) const {
  if (auto joint = joints.find(content); joint != joints.end()) {
    for (const Part &part : joint->second)
      if (int64_t other = findOther(offset + part.offset, part.bytes, part.content); other >= 0)
        return other;
    return -1;
  }
  int64_t next = offset, end = offset + bytes;
  auto piece = pieces.upper_bound(offset);
  if (piece != pieces.begin())
    --piece;
  for (; next < end && piece != pieces.end(); ++piece) {
    if (piece->second.end <= next)
      continue;
    if (piece->first > next)
      return 0;
    if (piece->second.content != content)
      return piece->second.content;
    next = piece->second.end;
  }
  return next < end ? 0 : -1;
}

} // namespace pdc
