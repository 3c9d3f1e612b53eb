// llama.cpp's side of the comparison, on its public API alone. Prints JSON.
//
//   llama_measure about
//   llama_measure convert MODEL.gguf OUTPUT.gguf BF16|Q8_0|Q4_0|Q4_1
//   llama_measure prompt MODEL.gguf < TEXT
//   llama_measure MODEL.gguf THREADS FLASH forward ROWS,ROWS
//   llama_measure MODEL.gguf THREADS FLASH score < LINES_OF_IDS
//   llama_measure MODEL.gguf THREADS FLASH plain|lookup IDS MAX_TOKENS STOP_ID
//
// convert: the model with matrices of another type, by llama.cpp's own rules.
// prompt: a text's token ids, after the token that begins every text if the
// model has one, and the id that ends an answer. forward: as `espalier bench
// forward`: a pass over so many rows with the logits of all rows, after 512
// cached tokens; the best of a second's repetitions. score: for each line, a
// text of its own, the log-probability of each token after the first, and the
// likeliest token in its place. plain: greedy decoding. lookup: the same with
// prompt lookup. libllama has no speculation of its own; this loop is ours.
// Tokens per second count the tokens and the time after the first token, so no
// prefill, whose time is a number of its own.
//
// FLASH: "auto" for llama.cpp's choice, "off" for no flash attention, which is
// faster for few rows. All else is llama.cpp's default; the K/V cache is f16.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "llama.h"

namespace {

using Clock = std::chrono::steady_clock;
using Tokens = std::vector<llama_token>;

constexpr int kPrefillChunk = 512;
constexpr int kContext = 512;  // cached tokens before the rows of `forward`
constexpr int kDraftTokens = 8;
constexpr int kLongestMatch = 4;
constexpr int kShortestMatch = 2;

[[noreturn]] void Die(const char* message) {
  std::fprintf(stderr, "llama_measure: %s\n", message);
  std::exit(1);
}

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Tokens ParseNumbers(const char* text) {
  Tokens numbers;
  std::stringstream stream(text);
  for (std::string number; std::getline(stream, number, ',');) {
    numbers.push_back(std::stoi(number));
  }
  return numbers;
}

struct Setup {
  const char* path;  // of the model
  int threads;
  llama_flash_attn_type flash;
};

// One sequence: its first length() tokens are cached.
class Sequence {
 public:
  Sequence(const Setup& setup, int max_length) {
    llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    model_ =
        llama_model_load_from_file(setup.path, llama_model_default_params());
    if (model_ == nullptr) Die("cannot load the model");
    llama_context_params params = llama_context_default_params();
    params.n_ctx = max_length;
    params.n_batch = kPrefillChunk;
    params.n_threads = params.n_threads_batch = setup.threads;
    params.flash_attn_type = setup.flash;
    context_ = llama_init_from_model(model_, params);
    if (context_ == nullptr) Die("cannot make a context");
    batch_ = llama_batch_init(kPrefillChunk, 0, 1);
  }
  ~Sequence() {
    llama_batch_free(batch_);
    llama_free(context_);
    llama_model_free(model_);
  }
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  int length() const { return length_; }
  int vocab_size() const {
    return llama_vocab_n_tokens(llama_model_get_vocab(model_));
  }

  // Runs and caches the tokens, at most kPrefillChunk, with the logits of the
  // rows from `first_wanted` on.
  void Append(const llama_token* tokens, int count, int first_wanted = 0) {
    for (int i = 0; i < count; ++i) {
      batch_.token[i] = tokens[i];
      batch_.pos[i] = length_ + i;
      batch_.n_seq_id[i] = 1;
      batch_.seq_id[i][0] = 0;
      batch_.logits[i] = i >= first_wanted ? 1 : 0;
    }
    batch_.n_tokens = count;
    if (llama_decode(context_, batch_) != 0) Die("llama_decode failed");
    length_ += count;
  }

  void Truncate(int length) {
    if (!llama_memory_seq_rm(llama_get_memory(context_), 0, length, -1)) {
      Die("llama_memory_seq_rm failed");
    }
    length_ = length;
  }

  // Returns those of row `row` of the last Append: [vocab_size()].
  const float* LogitsOf(int row) const {
    return llama_get_logits_ith(context_, row);
  }

  // Returns the likeliest token after row `row` of the last Append.
  llama_token Greedy(int row) const {
    const float* logits = LogitsOf(row);
    const float* end = logits + vocab_size();
    // Two loops that can become vector code, which max_element cannot.
    float best = std::numeric_limits<float>::lowest();
    for (const float* x = logits; x != end; ++x) best = std::max(best, *x);
    return static_cast<llama_token>(std::find(logits, end, best) - logits);
  }

  // Returns the token after all of them.
  llama_token Prefill(const Tokens& tokens) {
    const int size = static_cast<int>(tokens.size());
    int count = 0;
    for (int begin = 0; begin < size; begin += count) {
      count = std::min(kPrefillChunk, size - begin);
      Append(tokens.data() + begin, count, count - 1);
    }
    return Greedy(count - 1);
  }

 private:
  llama_model* model_;
  llama_context* context_;
  llama_batch batch_;
  int length_ = 0;
};

// Returns the tokens that `espalier bench forward` has.
Tokens SomeTokens(int count, int vocab_size) {
  Tokens tokens(count);
  for (int i = 0; i < count; ++i) {
    tokens[i] = static_cast<llama_token>(int64_t{i} * 7919 % vocab_size);
  }
  return tokens;
}

double FastestMs(Sequence& sequence, int rows) {
  const Tokens tokens = SomeTokens(rows, sequence.vocab_size());
  double fastest = std::numeric_limits<double>::max();
  const auto begin = Clock::now();
  for (int i = 0; i < 5 || SecondsSince(begin) < 1; ++i) {
    const auto start = Clock::now();
    sequence.Append(tokens.data(), rows);
    fastest = std::min(fastest, SecondsSince(start));
    sequence.Truncate(kContext);
  }
  return fastest * 1e3;
}

void Forward(const Setup& setup, const Tokens& row_counts) {
  const int most = *std::max_element(row_counts.begin(), row_counts.end());
  if (most > kPrefillChunk) Die("too many rows");
  Sequence sequence(setup, kContext + most);
  sequence.Prefill(SomeTokens(kContext, sequence.vocab_size()));
  for (int rows : row_counts) {
    std::printf("{\"rows\":%d,\"ms\":%.4f}\n", rows, FastestMs(sequence, rows));
  }
}

// Returns what followed the text's own ending when it last occurred, for the
// longest ending that did; at most `most` tokens.
Tokens LookUp(const Tokens& text, int most) {
  for (int n = kLongestMatch; n >= kShortestMatch; --n) {
    if (static_cast<int>(text.size()) <= n) continue;
    const auto ending = text.end() - n;
    // Searched without the last token: the ending must not find itself.
    const auto found =
        std::find_end(text.begin(), text.end() - 1, ending, text.end());
    if (found == text.end() - 1) continue;
    const auto next = found + n;
    return Tokens(next, next + std::min<int64_t>(most, text.end() - next));
  }
  return {};
}

// One pass over the last token, which is not cached yet, and drafted ones.
// Appends the tokens that greedy decoding gives: the accepted ones and the next
// one.
void Advance(Sequence& sequence, const Tokens& drafted, Tokens& text) {
  Tokens rows = {text.back()};
  rows.insert(rows.end(), drafted.begin(), drafted.end());
  sequence.Append(rows.data(), static_cast<int>(rows.size()));
  for (size_t row = 0; row < rows.size(); ++row) {
    text.push_back(sequence.Greedy(static_cast<int>(row)));
    if (row + 1 < rows.size() && rows[row + 1] != text.back()) break;
  }
  const int cached = static_cast<int>(text.size()) - 1;
  if (sequence.length() > cached) sequence.Truncate(cached);
}

void Generate(const Setup& setup, bool lookup, const Tokens& prompt,
              int max_tokens, llama_token stop) {
  const size_t limit = prompt.size() + max_tokens;
  Sequence sequence(setup, static_cast<int>(limit) + kDraftTokens);
  Tokens text = prompt;
  auto start = Clock::now();
  text.push_back(sequence.Prefill(prompt));
  const double prefill_seconds = SecondsSince(start);
  start = Clock::now();
  size_t end = text.size();  // of the answer, after its stop token
  int passes = 0;
  for (; end < limit && text[end - 1] != stop; ++passes) {
    const int most = static_cast<int>(limit - end) - 1;
    const Tokens drafted =
        lookup ? LookUp(text, std::min(kDraftTokens, most)) : Tokens();
    Advance(sequence, drafted, text);
    while (end < text.size() && text[end - 1] != stop) ++end;
  }
  const double seconds = SecondsSince(start);
  std::printf(
      "{\"tokens\":%zu,\"seconds\":%.6f,\"prefill_seconds\":%.6f,"
      "\"passes\":%d,\"token_ids\":[",
      end - prompt.size() - 1, seconds, prefill_seconds, passes);
  for (size_t i = prompt.size(); i < end; ++i) {
    std::printf("%s%d", i == prompt.size() ? "" : ",", text[i]);
  }
  std::printf("]}\n");
}

double LogProbability(const float* logits, int vocab_size, llama_token token) {
  const double most = *std::max_element(logits, logits + vocab_size);
  double sum = 0;
  for (int i = 0; i < vocab_size; ++i) sum += std::exp(logits[i] - most);
  return logits[token] - most - std::log(sum);
}

void PrintNumbers(const char* name, const char* format,
                  const std::vector<double>& numbers) {
  std::printf("\"%s\":[", name);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) std::printf(",");
    std::printf(format, numbers[i]);
  }
  std::printf("]");
}

void ScoreText(Sequence& sequence, const Tokens& tokens) {
  const int size = static_cast<int>(tokens.size());
  std::vector<double> logprobs, likeliest;
  sequence.Truncate(0);
  for (int begin = 0; begin + 1 < size; begin += kPrefillChunk) {
    const int count = std::min(kPrefillChunk, size - 1 - begin);
    sequence.Append(tokens.data() + begin, count);
    for (int i = 0; i < count; ++i) {
      logprobs.push_back(LogProbability(
          sequence.LogitsOf(i), sequence.vocab_size(), tokens[begin + i + 1]));
      likeliest.push_back(sequence.Greedy(i));
    }
  }
  std::printf("{");
  PrintNumbers("logprobs", "%.5f", logprobs);
  std::printf(",");
  PrintNumbers("likeliest", "%.0f", likeliest);
  std::printf("}\n");
}

void Score(const Setup& setup) {
  std::vector<Tokens> texts;
  size_t longest = 1;
  for (std::string line; std::getline(std::cin, line);) {
    texts.push_back(ParseNumbers(line.c_str()));
    longest = std::max(longest, texts.back().size());
  }
  Sequence sequence(setup, static_cast<int>(longest));
  for (const Tokens& tokens : texts) ScoreText(sequence, tokens);
}

llama_ftype FileType(const std::string& name) {
  const std::map<std::string, llama_ftype> types = {
      {"BF16", LLAMA_FTYPE_MOSTLY_BF16},
      {"Q8_0", LLAMA_FTYPE_MOSTLY_Q8_0},
      {"Q4_0", LLAMA_FTYPE_MOSTLY_Q4_0},
      {"Q4_1", LLAMA_FTYPE_MOSTLY_Q4_1},
      {"Q4_K_M", LLAMA_FTYPE_MOSTLY_Q4_K_M},
      {"Q5_K_M", LLAMA_FTYPE_MOSTLY_Q5_K_M},
      {"Q6_K", LLAMA_FTYPE_MOSTLY_Q6_K}};
  const auto found = types.find(name);
  if (found == types.end()) Die("an unknown type");
  return found->second;
}

void Convert(const char* input, const char* output, const std::string& type) {
  llama_model_quantize_params params = llama_model_quantize_default_params();
  params.allow_requantize = true;
  params.ftype = FileType(type);
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  if (llama_model_quantize(input, output, &params) != 0) Die("cannot convert");
}

void Prompt(const char* path) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  llama_model* const model = llama_model_load_from_file(path, params);
  if (model == nullptr) Die("cannot load the model");
  const llama_vocab* const vocab = llama_model_get_vocab(model);
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  Tokens tokens(text.size() + 2);
  const int count = llama_tokenize(
      vocab, text.data(), static_cast<int>(text.size()), tokens.data(),
      static_cast<int>(tokens.size()), llama_vocab_get_add_bos(vocab),
      /*parse_special=*/true);
  if (count < 0) Die("cannot tokenize");
  std::printf("{\"stop_id\":%d,\"token_ids\":[", llama_vocab_eos(vocab));
  for (int i = 0; i < count; ++i) {
    std::printf("%s%d", i == 0 ? "" : ",", tokens[i]);
  }
  std::printf("]}\n");
  llama_model_free(model);
}

Setup ParseSetup(char** arguments) {
  return {.path = arguments[0],
          .threads = std::atoi(arguments[1]),
          .flash = std::string(arguments[2]) == "off"
                       ? LLAMA_FLASH_ATTN_TYPE_DISABLED
                       : LLAMA_FLASH_ATTN_TYPE_AUTO};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 4 ? argv[4] : "";
  const bool lookup = mode == "lookup";
  llama_backend_init();
  const std::string first = argc > 1 ? argv[1] : "";
  if (argc == 2 && first == "about") {
    std::printf("{\"version\":\"%s\",\"features\":\"%s\"}\n", llama_version(),
                llama_print_system_info());
  } else if (argc == 5 && first == "convert") {
    Convert(argv[2], argv[3], argv[4]);
  } else if (argc == 3 && first == "prompt") {
    Prompt(argv[2]);
  } else if (mode == "forward" && argc == 6) {
    Forward(ParseSetup(argv + 1), ParseNumbers(argv[5]));
  } else if (mode == "score" && argc == 5) {
    Score(ParseSetup(argv + 1));
  } else if ((lookup || mode == "plain") && argc == 8) {
    Generate(ParseSetup(argv + 1), lookup, ParseNumbers(argv[5]),
             std::atoi(argv[6]), std::atoi(argv[7]));
  } else {
    Die("see the top of llama_measure.cc");
  }
}
