// The status page with its chat, and what it asks for.
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/speculation/request_errors.h"
#include "coordinator/http/route.h"

namespace espalier::coordinator {
namespace {

constexpr char kRoundsPath[] = "/espalier/rounds/";

void AddPage(const http::Page& page, bool needs_key, std::string summary,
             Routes& routes) {
  routes.push_back(
      {.method = "GET",
       .path = page.path,
       .handle =
           [page](const http::Request& request, const http::Wake&) {
             return Answered(http::PageResponse(page, request.query));
           },
       .needs_key = needs_key,
       .summary = std::move(summary)});
}

// Who has a request's id has asked for it, or may abort it.
std::unique_ptr<http::Answer> Rounds(const ApiContext& context,
                                     const http::Request& request) {
  absl::string_view id = request.path;
  absl::ConsumePrefix(&id, kRoundsPath);
  std::optional<std::string> rounds = context.rounds(std::string(id));
  if (rounds) return Answered(http::Response{.body = *std::move(rounds)});
  return Failed(
      WithReason(absl::NotFoundError("the request is not among the latest"),
                 "NO_SUCH_REQUEST"));
}

}  // namespace

void AddPageRoutes(const ApiContext& context, Routes& routes) {
  for (const http::Page& page : context.pages) {
    AddPage(page, /*needs_key=*/false, "a page for browsers", routes);
  }
  for (const http::Page& page : context.page_data) {
    AddPage(page, /*needs_key=*/true, "what the status page shows", routes);
  }
  routes.push_back(
      {.method = "GET",
       .path = kRoundsPath,
       .handle = [context](
                     const http::Request& request,
                     const http::Wake&) { return Rounds(context, request); },
       .summary = "the latest rounds of a request, as trees, by its id"});
}

}  // namespace espalier::coordinator
