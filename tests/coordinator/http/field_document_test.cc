// deploy/HTTP.md has every field that the parsers read or refuse.
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
#include "tests/testing/source_path.h"

namespace espalier::coordinator {
namespace {

// How the row of a field begins; what was seen of it follows.
std::string RowOf(const Field& field) {
  return absl::StrCat("| `", field.name, "` | ",
                      field.follow == nullptr ? "refused: " : "", field.meaning,
                      " |");
}

TEST(FieldDocumentTest, HasEveryFieldAsItIsFollowed) {
  std::ifstream file(SourcePath("deploy/HTTP.md"));
  std::stringstream document;
  document << file.rdbuf();
  for (const FieldTable& fields :
       {ChatPromptFields(), ChatFields(), CompletionFields(), MessagesFields(),
        ResponsesFields(), GenerationFields(), ConstraintFields()}) {
    for (const Field& field : fields) {
      EXPECT_THAT(document.str(), ::testing::HasSubstr(RowOf(field)))
          << "run tests/deploy/http_fields_test.py --write";
    }
  }
}

}  // namespace
}  // namespace espalier::coordinator
