// The reference of benchmarks/ingest_vs_hta.py: pieces of traceEvents into columns by simdjson's on-demand
// parser. Eight fields of each event and sixteen arguments become columns of 64-bit numbers, names
// become codes, shapes the codes of their text, as in graphviz_dash/ingest/kineto_columns.py.
//
//     g++ -O3 -march=native -std=c++17 -shared -fPIC -I DIR ondemand.cpp \
//         DIR/simdjson.cpp -o ondemand.so
//
// where DIR holds simdjson.h and simdjson.cpp, of a release or of the source package of pysimdjson.
#include "simdjson.h"
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

using namespace simdjson;

namespace {
constexpr int64_t ABSENT = INT64_MIN;
constexpr std::string_view ARGUMENTS[] = {
    "External id", "correlation", "device", "stream", "shared memory", "registers per thread",
    "bytes", "graph id", "graph node id", "Sequence number", "Fwd thread id", "Python id",
    "Python parent id"};
constexpr int NUMBERS = 13, GRID = NUMBERS, BLOCK = GRID + 3, DIMS = BLOCK + 3, TYPES = DIMS + 1;
constexpr int COLUMNS = TYPES + 1;

struct Codes {
    std::unordered_map<std::string, int64_t> numbers;
    std::string buffer;
    int64_t of(std::string_view text) {
        buffer.assign(text);
        return numbers.try_emplace(buffer, numbers.size()).first->second;
    }
};

struct Columns {
    ondemand::parser parser;
    Codes categories, names, texts;
    std::vector<int64_t> category, name, pid, tid, ts, dur, arguments[COLUMNS];
};

int64_t integer(ondemand::value value) {
    ondemand::number number;
    if (value.get_number().get(number)) return ABSENT;
    return number.is_int64() ? number.get_int64() : ABSENT;
}

void shape(ondemand::value value, int64_t *out) {
    ondemand::array array;
    if (value.get_array().get(array)) return;
    int at = 0;
    for (auto element : array)
        if (at < 3) out[at++] = integer(ondemand::value(element.value()));
}
}  // namespace

extern "C" {
void *make() { return new Columns; }
void drop(void *columns) { delete static_cast<Columns *>(columns); }
int64_t rows(void *columns) { return static_cast<Columns *>(columns)->ts.size(); }

// The events of a JSON array of `length` bytes, which stand before SIMDJSON_PADDING others; -1: it
// is not JSON.
int64_t add(void *into, const char *text, size_t length) {
    Columns &c = *static_cast<Columns *>(into);
    int64_t events = 0;
    try {
        auto document = c.parser.iterate(text, length, length + SIMDJSON_PADDING);
        for (auto event : document.get_array()) {
            int64_t category = -1, name = -1, pid = ABSENT, tid = ABSENT;
            double ts = NAN, dur = NAN;
            bool slice = false;
            int64_t values[COLUMNS];
            std::fill(values, values + COLUMNS, ABSENT);
            for (auto field : event.get_object()) {
                std::string_view key = field.escaped_key();
                ondemand::value value = field.value();
                if (key == "ph") slice = value.get_string().value() == "X";
                else if (key == "cat") category = c.categories.of(value.get_string());
                else if (key == "name") name = c.names.of(value.get_string());
                else if (key == "pid") pid = integer(value);
                else if (key == "tid") tid = integer(value);
                else if (key == "ts") ts = value.get_double();
                else if (key == "dur") dur = value.get_double();
                else if (key == "args") {
                    ondemand::object args;
                    if (value.get_object().get(args)) continue;
                    for (auto argument : args) {
                        std::string_view known = argument.escaped_key();
                        if (known == "grid") { shape(ondemand::value(argument.value()), values + GRID); continue; }
                        if (known == "block") { shape(ondemand::value(argument.value()), values + BLOCK); continue; }
                        if (known == "Input Dims") {
                            values[DIMS] = c.texts.of(argument.value().raw_json());
                            continue;
                        }
                        if (known == "Input type") {
                            values[TYPES] = c.texts.of(argument.value().raw_json());
                            continue;
                        }
                        for (int place = 0; place < NUMBERS; ++place)
                            if (known == ARGUMENTS[place]) {
                                values[place] = integer(ondemand::value(argument.value()));
                                break;
                            }
                    }
                }
            }
            ++events;
            if (!slice) continue;
            c.category.push_back(category);
            c.name.push_back(name);
            c.pid.push_back(pid);
            c.tid.push_back(tid);
            c.ts.push_back(std::llrint(ts * 1000));
            c.dur.push_back(std::llrint(dur * 1000));
            for (int place = 0; place < COLUMNS; ++place)
                c.arguments[place].push_back(values[place]);
        }
    } catch (const simdjson_error &) {
        return -1;
    }
    return events;
}
}
