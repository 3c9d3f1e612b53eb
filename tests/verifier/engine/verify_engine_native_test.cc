// With models on our own kernels, sharing passes changes nothing: not the text,
// not one bit of the logits that decide it.

#include <map>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "tests/testing/language_model_decorator.h"
#include "tests/verifier/engine_harness.h"
#include "tests/verifier/kernel_models.h"

namespace espalier::verifier {
namespace {

// Logits by the text that they follow.
using LogitLog = std::map<Text, std::vector<float>>;

// Records the logits of every row of every other pass; fails if the same text
// gets different logits. The other passes run with the engine's own logit use,
// draws included.
class LoggingModel final : public LanguageModelDecorator {
 public:
  LoggingModel(std::unique_ptr<LanguageModel> model, LogitLog* log,
               int64_t* most_sequences)
      : LanguageModelDecorator(std::move(model)),
        log_(*log),
        most_sequences_(*most_sequences) {}

  absl::StatusOr<std::unique_ptr<LogitRows>> Forward(
      absl::Span<const SequenceRows> batch) override {
    most_sequences_ =
        std::max(most_sequences_, static_cast<int64_t>(batch.size()));
    const bool wants_logits = ++passes_ % 2 == 0;
    std::vector<SequenceRows> parts(batch.begin(), batch.end());
    if (wants_logits) {
      for (SequenceRows& part : parts) part.use = AnyUse{};
    }
    auto logits = LanguageModelDecorator::Forward(parts);
    if (!logits.ok()) return logits;
    int64_t logit_row = 0;
    for (const SequenceRows& rows : batch) {
      std::vector<Text>& texts = last_texts_[rows.cache];
      texts.clear();
      for (size_t i = 0; i < rows.tokens.size(); ++i) {
        const int32_t parent = rows.parents[i];
        texts.push_back(parent == kPrefixParent ? texts_[rows.cache]
                                                : texts[parent]);
        texts.back().push_back(rows.tokens[i]);
      }
      for (size_t i = rows.tokens.size() - rows.num_logit_rows;
           i < rows.tokens.size(); ++i) {
        if (!wants_logits) break;
        const auto row = (*logits)->Row(logit_row++);
        const auto& [entry, is_new] = log_.try_emplace(
            texts[i], std::vector<float>(row.begin(), row.end()));
        EXPECT_TRUE(is_new ||
                    std::equal(row.begin(), row.end(), entry->second.begin()))
            << "other bits after " << texts[i].size() << " tokens";
      }
    }
    return logits;
  }

  int64_t Share(CacheId cache, absl::Span<const TokenId> text,
                absl::string_view salt) override {
    const int64_t gained = LanguageModelDecorator::Share(cache, text, salt);
    texts_[cache].assign(text.begin(), text.begin() + Length(cache));
    return gained;
  }

  absl::Status Keep(CacheId cache, absl::Span<const int32_t> path,
                    absl::Span<uint16_t> features) override {
    if (!path.empty()) texts_[cache] = last_texts_[cache][path.back()];
    return LanguageModelDecorator::Keep(cache, path, features);
  }

 private:
  LogitLog& log_;
  int64_t& most_sequences_;
  int64_t passes_ = 0;
  std::map<CacheId, Text> texts_;                    // cached
  std::map<CacheId, std::vector<Text>> last_texts_;  // of the last pass's rows
};

struct Subject {
  KernelModel model;
  uint64_t sessions = 6;
  size_t length = 130;  // of their texts
  int rounds = 150;     // where they share pages
};

std::vector<Subject> Subjects() {
  std::vector<Subject> subjects;
  for (KernelModel& model : KernelModels()) {
    Subject& subject = subjects.emplace_back(Subject{std::move(model)});
    if (!subject.model.is_slow()) continue;
    subject.sessions = 4;
    subject.length = 76;
    subject.rounds = 20;
  }
  return subjects;
}

std::string SubjectName(const ::testing::TestParamInfo<Subject>& test) {
  return test.param.model.name;
}

class SharedPasses : public ::testing::TestWithParam<Subject> {
 protected:
  std::unique_ptr<EngineUnderTest> Start(int64_t threads, int64_t batch_rows,
                                         int64_t pool_bytes = 0) {
    ModelOptions options = options_;
    options.threads = threads;
    if (pool_bytes > 0) options.kv_pool_bytes = pool_bytes;
    return std::make_unique<EngineUnderTest>(
        std::make_unique<LoggingModel>(Load(options), &log_, &most_sequences_),
        VerifyEngine::Options{.max_batch_rows = batch_rows});
  }

  Client NewClient(uint64_t number) {
    Client client = {
        .id = {1, number},
        .sampling = {.temperature = number % 2 ? 0.8f : 0.0f, .seed = number}};
    if (number % 4 == 3) {
      client.sampling.top_k = 60;
      client.sampling.top_p = 0.9f;
      client.sampling.min_p = 0.001f;
    }
    for (uint64_t i = 0; i < 3 + number * 17; ++i) {
      client.text.push_back(static_cast<TokenId>((i * 31 + number * 7) % 256));
    }
    return client;
  }

  // Some of the text that is to come, among other tokens.
  TokenTree Draft(const Client& client, const Text& whole) {
    TokenTree tree = TokenTree::RootOnly(client.text.back());
    int32_t node = 0;
    const size_t end =
        std::min(whole.size(), client.text.size() + random_() % 6);
    for (size_t i = client.text.size(); i < end; ++i) {
      if (random_() % 2) {
        tree.Add(node, static_cast<TokenId>(random_() % 256), 0.0f);
      }
      node = tree.Add(node, whole[i], 0.0f);
    }
    return tree;
  }

  const ModelOptions options_ =
      WriteModel(GetParam().model, "verify_engine_native_test");
  std::mt19937_64 random_{2};
  LogitLog log_;  // of all engines
  int64_t most_sequences_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Models, SharedPasses, ::testing::ValuesIn(Subjects()),
                         SubjectName);

TEST_P(SharedPasses, GiveEverySessionTheTextAndTheBitsThatItHasAlone) {
  const size_t length = GetParam().length;
  std::vector<Text> alone;
  for (uint64_t i = 0; i < GetParam().sessions; ++i) {
    const auto engine = Start(/*threads=*/1, /*batch_rows=*/256);
    Client client = NewClient(i);
    while (client.text.size() < length) {
      client.Commit(*engine->Ask(client.Request()));
    }
    alone.push_back(client.text);
  }
  ASSERT_EQ(most_sequences_, 1);
  const size_t decided_alone = log_.size();

  const auto engine = Start(/*threads=*/2, /*batch_rows=*/40);
  std::vector<Client> clients;
  for (uint64_t i = 0; i < GetParam().sessions; ++i)
    clients.push_back(NewClient(i));
  bool done = false;
  while (!done) {
    done = true;
    std::vector<std::shared_ptr<Reply>> replies(clients.size());
    for (size_t i = 0; i < clients.size(); ++i) {
      if (clients[i].text.size() >= length || random_() % 4 == 0) continue;
      replies[i] =
          engine->Send(clients[i].Request(Draft(clients[i], alone[i])));
    }
    engine->executor->RunUntilIdle();
    for (size_t i = 0; i < clients.size(); ++i) {
      if (replies[i] != nullptr) {
        ASSERT_TRUE(replies[i]->value->ok()) << replies[i]->value->status();
        clients[i].Commit(**replies[i]->value);
      }
      done = done && clients[i].text.size() >= length;
    }
  }
  for (size_t i = 0; i < clients.size(); ++i) {
    clients[i].text.resize(length);
    EXPECT_EQ(clients[i].text, alone[i]) << "session " << i;
  }
  EXPECT_GE(most_sequences_, 4);
  EXPECT_GT(log_.size(), decided_alone);  // wrong drafts were computed too
}

// Rules that read distributions get gathered values in every other pass and
// whole rows in the rest, which must not change the text either.
TEST_P(SharedPasses, GatherForEverySessionWhatItHasAlone) {
  const std::vector<std::string> rules = {"lvseq-gr", "tv-rrs", "trv", "walk"};
  const auto request = [&](const Client& client, size_t number) {
    TokenTree tree = TokenTree::RootOnly(client.text.back());
    const auto first = static_cast<TokenId>(client.text.size() % 250);
    tree.Add(0, first, -0.7f);
    tree.Add(0, first + 5, -0.7f);
    tree.Add(1, 9, -1.4f);
    tree.distributions.Add({first, first + 5},
                           {kDistributionTotal / 2, kDistributionTotal / 2});
    tree.distributions.Add({9, 11, 250},
                           {kDistributionTotal / 2, kDistributionTotal / 4,
                            kDistributionTotal / 4});
    tree.samples = {{.node = 1, .distribution = 0},
                    {.node = 2, .distribution = 0},
                    {.node = 3, .distribution = 1}};
    VerifyRequest made = client.Request(std::move(tree));
    made.rule = rules[number % rules.size()];
    return made;
  };
  const auto new_client = [this](uint64_t number) {
    Client client = NewClient(number);
    client.sampling.temperature = 0.8f;
    return client;
  };
  constexpr int kRounds = 12;
  std::vector<Text> alone;
  for (uint64_t i = 0; i < GetParam().sessions; ++i) {
    const auto engine = Start(/*threads=*/1, /*batch_rows=*/256);
    Client client = new_client(i);
    for (int round = 0; round < kRounds; ++round) {
      client.Commit(*engine->Ask(request(client, i)));
    }
    alone.push_back(client.text);
  }

  const auto engine = Start(/*threads=*/2, /*batch_rows=*/40);
  std::vector<Client> clients;
  for (uint64_t i = 0; i < GetParam().sessions; ++i)
    clients.push_back(new_client(i));
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::shared_ptr<Reply>> replies;
    for (size_t i = 0; i < clients.size(); ++i) {
      replies.push_back(engine->Send(request(clients[i], i)));
    }
    engine->executor->RunUntilIdle();
    for (size_t i = 0; i < clients.size(); ++i) {
      ASSERT_TRUE(replies[i]->value->ok()) << replies[i]->value->status();
      EXPECT_EQ((*replies[i]->value)->rule, rules[i % rules.size()]);
      clients[i].Commit(**replies[i]->value);
    }
  }
  for (size_t i = 0; i < clients.size(); ++i) {
    EXPECT_EQ(clients[i].text, alone[i]) << "session " << i;
  }
  EXPECT_GE(most_sequences_, 4);
}

// Texts that begin alike, in a pool that is too small for all: sessions take
// each other's pages, are preempted while others hold these, end, and go on.
class SharedPages : public SharedPasses {
 protected:
  Client NewClient(uint64_t number) {
    Client client = SharedPasses::NewClient(number % 3);
    client.id.number = number;
    client.text.resize(66 + number % 3);
    for (int i = 0; i < 66; ++i) client.text[i] = i;
    return client;
  }
  Text Alone(uint64_t number) {
    const auto engine = Start(/*threads=*/1, /*batch_rows=*/256);
    Client client = NewClient(number);
    while (client.text.size() < GetParam().length) {
      client.Commit(*engine->Ask(client.Request()));
    }
    client.text.resize(GetParam().length);
    return client.text;
  }
};

TEST_P(SharedPages, GiveEverySessionTheTextAndTheBitsThatItHasAlone) {
  std::vector<Text> alone;
  for (uint64_t i = 0; i < 3; ++i) alone.push_back(Alone(i));
  const int64_t token_bytes = Load(options_)->info().kv_bytes_per_token;
  const auto engine =
      Start(/*threads=*/2, /*batch_rows=*/40, 300 * token_bytes);
  uint64_t number = 0;
  std::vector<Client> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(NewClient(number++));
  int64_t cached = 0;
  for (int step = 0; step < GetParam().rounds; ++step) {
    std::vector<std::shared_ptr<Reply>> replies;
    for (Client& client : clients) {
      const Text& whole = alone[client.id.number % 3];
      VerifyRequest request = client.Request(Draft(client, whole));
      request.max_length = GetParam().length;
      replies.push_back(engine->Send(std::move(request)));
    }
    for (size_t i = 0; i < clients.size(); ++i) {
      while (!replies[i]->value) {
        engine->executor->AdvanceBy(absl::Seconds(1));
      }
      ASSERT_TRUE(replies[i]->value->ok()) << replies[i]->value->status();
      cached += (*replies[i]->value)->cached_tokens;
      Client& client = clients[i];
      client.Commit(**replies[i]->value);
      const Text& whole = alone[client.id.number % 3];
      const size_t known = std::min(client.text.size(), whole.size());
      ASSERT_EQ(Text(client.text.begin(), client.text.begin() + known),
                Text(whole.begin(), whole.begin() + known));
      if (client.text.size() + 8 > GetParam().length || random_() % 8 == 0) {
        engine->engine->EndSequence(client.id);
        client = NewClient(number++);
      }
    }
  }
  EXPECT_GT(cached, 13 * GetParam().rounds);
  double preempted = 0;
  for (const auto& family : engine->metrics.Collect()) {
    if (family.name == "espalier_kv_preemptions_total") {
      preempted = family.metric.at(0).counter.value;
    }
  }
  EXPECT_GT(preempted, 0);
}

// With its whole prompt, the second request would have to wait.
TEST_P(SharedPages, APromptThatAnotherHoldsIsCountedOnce) {
  const ModelInfo info = Load(options_)->info();
  constexpr int64_t kRows = 256;
  const int64_t pool =
      2 * info.kv_groups.RoomFor(GetParam().length, kRows) - 32;
  const auto engine =
      Start(/*threads=*/1, kRows,
            pool * info.kv_bytes_per_token / info.kv_groups.count());
  const auto ask = [&](Client& client) {
    VerifyRequest request = client.Request();
    request.max_length = GetParam().length;
    const auto reply = engine->Send(std::move(request));
    engine->executor->RunUntilIdle();
    if (!reply->value) return false;
    client.Commit(**reply->value);
    return true;
  };
  Client first = NewClient(0), second = NewClient(3), other = NewClient(6);
  other.text[0] = 99;
  ASSERT_TRUE(ask(first));
  ASSERT_TRUE(ask(first));  // offers its pages
  EXPECT_TRUE(ask(second));
  EXPECT_TRUE(ask(first));
  EXPECT_FALSE(ask(other));  // shares nothing
}

INSTANTIATE_TEST_SUITE_P(Models, SharedPages, ::testing::ValuesIn(Subjects()),
                         SubjectName);

}  // namespace
}  // namespace espalier::verifier
