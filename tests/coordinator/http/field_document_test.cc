// deploy/HTTP.md has the tables of fields as the parsers read them.
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/http/chat_request.h"
#include "coordinator/http/completion_request.h"
#include "coordinator/http/generation_fields.h"
#include "coordinator/http/messages_request.h"
#include "coordinator/http/responses_request.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

std::string Table(FieldTable fields) {
  std::string text = "| field | |\n| --- | --- |\n";
  for (const Field& field : fields) {
    absl::StrAppend(&text, "| `", field.name, "` | ",
                    field.follow == nullptr ? "refused: " : "", field.meaning,
                    " |\n");
  }
  return text;
}

TEST(FieldDocumentTest, HasEveryFieldAsItIsFollowed) {
  std::ifstream file(ESPALIER_SOURCE_DIR "/deploy/HTTP.md");
  std::stringstream document;
  document << file.rdbuf();
  for (const FieldTable& fields :
       {ChatFields(), CompletionFields(), MessagesFields(), ResponsesFields(),
        GenerationFields(), ConstraintFields()}) {
    EXPECT_THAT(document.str(), ::testing::HasSubstr(Table(fields)));
  }
}

}  // namespace
}  // namespace espalier::coordinator
