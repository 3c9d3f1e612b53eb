// Files of certificates and keys.
#include <string>

#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/tls/certificate_files.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/testing/test_certificates.h"

namespace espalier::testing {
namespace certificates_fuzz {

const IssuedCertificate& Own() {
  static const auto& own =
      *new IssuedCertificate(TestAuthority("ours").Issue({"a", "127.0.0.1"}));
  return own;
}

std::vector<std::string> Seeds() { return {Own().certificate}; }

// As all three files, and as a certificate beside the key that fits the seed.
bool Try(std::string_view bytes) {
  const std::string text(bytes);
  Certificates all = {.certificate = text, .key = text, .ca = text};
  ESPALIER_CHECK(text.empty() || !CheckCertificates(all, absl::Now()).ok() ||
                 all.expires > absl::Now());
  Certificates own = {.certificate = text, .key = Own().key};
  return CheckCertificates(own, absl::Now()).ok();
}

}  // namespace certificates_fuzz

FuzzTarget CertificatesTarget() {
  return {"certificates", certificates_fuzz::Seeds, certificates_fuzz::Try};
}

}  // namespace espalier::testing
