// Certificates for tests.
#ifndef ESPALIER_TESTS_TESTING_TEST_CERTIFICATES_H_
#define ESPALIER_TESTS_TESTING_TEST_CERTIFICATES_H_

#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace espalier::testing {

struct IssuedCertificate {
  std::string certificate;  // PEM
  std::string key;          // PEM
};

// Signs certificates.
class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name);
  ~TestAuthority();

  std::string pem() const;

  struct Validity {
    absl::Duration begins = -absl::Hours(1);  // from now
    absl::Duration ends = absl::Hours(1);
  };
  // `names`: DNS names, or IP addresses that begin with a digit.
  IssuedCertificate Issue(const std::vector<std::string>& names,
                          const Validity& validity) const;
  IssuedCertificate Issue(const std::vector<std::string>& names) const {
    return Issue(names, Validity());
  }

 private:
  EVP_PKEY* const key_;
  X509* const certificate_;
};

// Replaces a file at once, with a later time than before.
void ReplaceFile(const std::string& path, const std::string& content);

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_TESTING_TEST_CERTIFICATES_H_
