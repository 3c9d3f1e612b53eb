#include "drafter/ngram/answer_store_file.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/speculation/messages.h"
#include "drafter/ngram/answer_store.h"
#include "drafter/ngram/checked_bytes.h"

namespace espalier::drafter {
namespace {

constexpr FileFormat kAnswersFormat = {
    .name = "saved answers", .magic = "ESPANSWR", .version = 1};
constexpr size_t kTenantHeaderBytes = sizeof(uint32_t) + sizeof(uint64_t);
constexpr size_t kMaxSaltBytes = kMaxCacheSaltBytes + kMaxSaltPrefixBytes;

absl::StatusOr<SavedAnswers::Tenant> ReadTenant(int64_t vocab_size,
                                                ByteReader& reader) {
  const uint32_t salt_size = reader.Get<uint32_t>();
  const uint64_t size = reader.Get<uint64_t>();
  if (salt_size > kMaxSaltBytes || salt_size > reader.remaining()) {
    return kAnswersFormat.Error(
        absl::StrCat("a salt of ", salt_size, " bytes"));
  }
  SavedAnswers::Tenant tenant = {.salt =
                                     std::string(reader.GetText(salt_size))};
  if (size > reader.remaining() / sizeof(TokenId)) {
    return kAnswersFormat.Error("truncated, or its sizes are damaged");
  }
  reader.GetColumn<int32_t>(static_cast<int64_t>(size), tenant.tokens);
  for (TokenId token : tenant.tokens) {
    if (token < AnswerStore::kBetweenAnswers || token >= vocab_size) {
      return kAnswersFormat.Error(absl::StrCat(
          "token ", token, " outside the vocabulary of ", vocab_size));
    }
  }
  return tenant;
}

}  // namespace

std::string SerializeAnswers(const SavedAnswers& saved) {
  ByteWriter writer;
  writer.PutText(kAnswersFormat.magic);
  writer.Put(kAnswersFormat.version);
  writer.Put(static_cast<uint64_t>(saved.vocab_size));
  writer.Put(saved.tokenizer_fingerprint);
  writer.Put(static_cast<uint32_t>(saved.tenants.size()));
  for (const SavedAnswers::Tenant& tenant : saved.tenants) {
    writer.Put(static_cast<uint32_t>(tenant.salt.size()));
    writer.Put(static_cast<uint64_t>(tenant.tokens.size()));
    writer.PutText(tenant.salt);
    writer.PutColumn<int32_t>(tenant.tokens);
  }
  return writer.TakeChecked();
}

absl::StatusOr<SavedAnswers> ParseAnswers(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const absl::string_view body,
                   CheckedContent(kAnswersFormat, bytes));
  ByteReader reader(body);
  if (reader.remaining() < 20)
    return kAnswersFormat.Error("truncated in the header");
  SavedAnswers saved;
  saved.vocab_size = static_cast<int64_t>(reader.Get<uint64_t>());
  saved.tokenizer_fingerprint = reader.Get<uint64_t>();
  const uint32_t tenants = reader.Get<uint32_t>();
  for (uint32_t i = 0; i < tenants; ++i) {
    if (reader.remaining() < kTenantHeaderBytes)
      return kAnswersFormat.Error("truncated");
    ASSIGN_OR_RETURN(saved.tenants.emplace_back(),
                     ReadTenant(saved.vocab_size, reader));
  }
  if (reader.remaining() > 0) {
    return kAnswersFormat.Error(
        absl::StrCat(reader.remaining(), " bytes too many"));
  }
  return saved;
}

}  // namespace espalier::drafter
