#include "compiler/plan/Fields.h"

#include "compiler/Error.h"
#include "compiler/NearestName.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace pdc {

using Json = nlohmann::json;

Fields::Fields(Json value, std::string where) : value(std::move(value)), where(std::move(where)) {}

void Fields::refuse(const std::string &field, const std::string &text) const {
  throw Error(where + field + ": " + text);
}

static std::string shown(const Json &value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > 40 ? text.substr(0, 40) + "..." : text;
}

/// Of a field that may be left out.
static std::string shownOptional(const Json &value) {
  return shown(value) + (value.is_null() ? "; leave it out where there is none" : "");
}

const Json *Fields::find(const std::string &field) const {
  auto found = value.find(field);
  return found == value.end() ? nullptr : &*found;
}

void Fields::expect(const std::string &field) const {
  if (!has(field))
    refuse(field, "expected a value, found nothing");
}

double Fields::number(const std::string &field, std::optional<double> fallback) const {
  const Json *found = find(field);
  if (!found && fallback)
    return *fallback;
  if (!found)
    refuse(field, "expected a number, found nothing");
  if (!found->is_number() || !std::isfinite(found->get<double>()) || found->get<double>() < 0)
    refuse(field, "expected a number of at least 0, found " +
                      (fallback ? shownOptional(*found) : shown(*found)));
  return found->get<double>();
}

void Fields::expectOnly(std::initializer_list<std::string_view> fields) const {
  std::string known;
  for (std::string_view field : fields)
    known += (known.empty() ? "" : ", ") + std::string(field);
  for (const auto &entry : value.items())
    if (std::ranges::find(fields, entry.key()) == fields.end())
      refuse(shown(entry.key()), "unknown; there are " + known + nearestName(entry.key(), fields));
}

double Fields::seconds(const std::string &field, double fallback) const {
  const Json *found = find(field);
  if (!found)
    return fallback;
  const double read = found->is_number() ? found->get<double>() : -1;
  if (!(read >= 0 && read <= kMostSeconds))
    refuse(field, "expected seconds from 0 to 4.4e9, found " + shownOptional(*found));
  return read;
}

int64_t Fields::integer(const std::string &field, int64_t least, int64_t most,
                        std::optional<int64_t> fallback) const {
  const Json *found = find(field);
  if (!found && fallback)
    return *fallback;
  std::string wanted = "expected a whole number of at least " + std::to_string(least);
  if (most != INT64_MAX)
    wanted =
        "expected a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  if (!found)
    refuse(field, wanted + ", found nothing");
  bool fits = found->is_number_integer() &&
              !(found->is_number_unsigned() && found->get<uint64_t>() > uint64_t(INT64_MAX));
  if (!fits || found->get<int64_t>() < least || found->get<int64_t>() > most)
    refuse(field, wanted + ", found " + (fallback ? shownOptional(*found) : shown(*found)));
  return found->get<int64_t>();
}

bool Fields::boolean(const std::string &field, bool fallback) const {
  const Json *found = find(field);
  if (found && !found->is_boolean())
    refuse(field, "expected true or false, found " + shownOptional(*found));
  return found ? found->get<bool>() : fallback;
}

std::string Fields::string(const std::string &field, std::optional<std::string> fallback) const {
  const Json *found = find(field);
  if (!found && fallback)
    return *fallback;
  if (!found)
    refuse(field, "expected a string, found nothing");
  if (!found->is_string())
    refuse(field, "expected a string, found " + (fallback ? shownOptional(*found) : shown(*found)));
  return found->get<std::string>();
}

Fields Fields::object(const std::string &field) const {
  const Json *found = find(field);
  if (!found || !found->is_object())
    refuse(field, "expected an object, found " + (found ? shown(*found) : "nothing"));
  return {*found, where + field + "."};
}

const Json &Fields::array(const std::string &field) const {
  static const Json empty = Json::array();
  const Json *found = find(field);
  if (found && !found->is_array())
    refuse(field, "expected a list, found " + shownOptional(*found));
  return found ? *found : empty;
}

std::vector<Fields> Fields::list(const std::string &field) const {
  std::vector<Fields> entries;
  for (const Json &entry : array(field)) {
    std::string index = field + "[" + std::to_string(entries.size()) + "]";
    if (!entry.is_object())
      refuse(index, "expected an object, found " + shown(entry));
    entries.push_back({entry, where + index + "."});
  }
  return entries;
}

std::vector<std::string> Fields::strings(const std::string &field) const {
  std::vector<std::string> entries;
  for (const Json &entry : array(field)) {
    if (!entry.is_string())
      refuse(field + "[" + std::to_string(entries.size()) + "]",
             "expected a string, found " + shown(entry));
    entries.push_back(entry.get<std::string>());
  }
  return entries;
}

std::vector<int64_t> Fields::wholeNumbers(const std::string &field, int64_t least,
                                          int64_t most) const {
  std::vector<int64_t> entries;
  for (const Json &entry : array(field)) {
    std::string index = field + "[" + std::to_string(entries.size()) + "]";
    Fields one(Json{{index, entry}}, where);
    entries.push_back(one.integer(index, least, most));
  }
  return entries;
}

std::vector<int> Fields::integers(const std::string &field, int64_t least, int64_t most) const {
  std::vector<int64_t> entries = wholeNumbers(field, least, most);
  return {entries.begin(), entries.end()};
}

/// Line and column of a byte, both from 1.
static std::string placeOf(std::string_view text, size_t byte) {
  std::string_view before = text.substr(0, byte);
  size_t start = before.rfind('\n');
  size_t column = start == before.npos ? byte : byte - start - 1;
  return std::to_string(std::count(before.begin(), before.end(), '\n') + 1) + ":" +
         std::to_string(column + 1);
}

static std::string characterAt(std::string_view text, size_t byte) {
  if (byte >= text.size())
    return "the end of the file";
  char c = text[byte];
  bool isPrintable = c >= ' ' && c <= '~';
  return isPrintable ? std::string("'") + c + "'"
                     : "byte " + std::to_string(static_cast<unsigned char>(c));
}

namespace {

/// What nlohmann's parser takes without a word and no file of pdc's has: a field twice, of which
/// the last would count, and nesting that only damage makes.
class JsonChecks {
public:
  explicit JsonChecks(const std::string &file) : file(file) {}

  void operator()(int depth, Json::parse_event_t event, const Json &value) {
    if (depth > kDeepest)
      throw Error(file + ": expected JSON nested at most " + std::to_string(kDeepest) +
                  " deep, found more");
    if (event == Json::parse_event_t::object_start)
      open.emplace_back();
    if (event == Json::parse_event_t::object_end)
      open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second)
      throw Error(file + ": expected each field once, found " + shown(value) +
                  " twice in one object");
  }

private:
  static constexpr int kDeepest = 64;

  const std::string &file;
  std::vector<std::unordered_set<std::string>> open; ///< fields of the objects around
};

} // namespace

/// Of the number that does not fit, which the parser puts between quotes.
static Error tooLargeNumber(std::string_view text, const std::string &file,
                            const std::string &message) {
  const size_t first = message.find('\''), last = message.rfind('\'');
  std::string where, number = "a larger one";
  if (first < last && last != message.npos) {
    number = message.substr(first + 1, last - first - 1);
    if (size_t byte = text.find(number); byte != text.npos)
      where = ":" + placeOf(text, byte);
  }
  return Error(file + where + ": expected numbers below 1.8e308, found " + number.substr(0, 40));
}

static Json parseJson(std::string_view text, const std::string &file) {
  JsonChecks checks(file);
  auto check = [&](int depth, Json::parse_event_t event, Json &value) {
    checks(depth, event, value);
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::parse_error &error) {
    size_t byte = error.byte > 0 ? error.byte - 1 : 0;
    throw Error(file + ":" + placeOf(text, byte) + ": expected JSON, found " +
                characterAt(text, byte));
  } catch (const Json::exception &error) {
    throw tooLargeNumber(text, file, error.what());
  }
}

Fields parseFields(std::string_view text, const std::string &file) {
  Json value = parseJson(text, file);
  if (!value.is_object())
    throw Error(file + ": expected a JSON object, found " + shown(value));
  return {std::move(value), file + ": "};
}

} // namespace pdc
