#include "tests/testing/test_certificates.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <cctype>
#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"

namespace espalier::testing {
namespace {

template <typename Writing>
std::string Pem(Writing writing) {
  BIO* const bio = BIO_new(BIO_s_mem());
  ESPALIER_CHECK(writing(bio) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

std::string PemOf(X509* certificate) {
  return Pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

void AddExtension(X509* certificate, int nid, const std::string& value) {
  X509_EXTENSION* const extension =
      X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
  ESPALIER_CHECK(extension != nullptr);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* NewCertificate(EVP_PKEY* key, const std::string& name,
                     const TestAuthority::Validity& validity) {
  static std::atomic<long> serial = 1;
  X509* const made = X509_new();
  X509_set_version(made, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(made), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(made),
                  absl::ToInt64Seconds(validity.begins));
  X509_gmtime_adj(X509_getm_notAfter(made),
                  absl::ToInt64Seconds(validity.ends));
  X509_set_pubkey(made, key);
  X509_NAME_add_entry_by_txt(
      X509_get_subject_name(made), "CN", MBSTRING_UTF8,
      reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return made;
}

}  // namespace

TestAuthority::TestAuthority(const std::string& name)
    : key_(EVP_EC_gen("P-256")),
      certificate_(NewCertificate(key_, name, Validity())) {
  X509_set_issuer_name(certificate_, X509_get_subject_name(certificate_));
  AddExtension(certificate_, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(certificate_, NID_key_usage, "critical,keyCertSign");
  X509_sign(certificate_, key_, EVP_sha256());
}

TestAuthority::~TestAuthority() {
  X509_free(certificate_);
  EVP_PKEY_free(key_);
}

std::string TestAuthority::pem() const { return PemOf(certificate_); }

IssuedCertificate TestAuthority::Issue(const std::vector<std::string>& names,
                                       const Validity& validity) const {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const made = NewCertificate(key, "a test", validity);
  X509_set_issuer_name(made, X509_get_subject_name(certificate_));
  if (!names.empty()) {
    AddExtension(made, NID_subject_alt_name,
                 absl::StrJoin(names, ",", [](std::string* out, const auto& n) {
                   absl::StrAppend(out, std::isdigit(n[0]) ? "IP:" : "DNS:", n);
                 }));
  }
  X509_sign(made, key_, EVP_sha256());
  IssuedCertificate issued = {.certificate = PemOf(made),
                              .key = Pem([&](BIO* bio) {
                                return PEM_write_bio_PrivateKey(
                                    bio, key, nullptr, nullptr, 0, nullptr,
                                    nullptr);
                              })};
  X509_free(made);
  EVP_PKEY_free(key);
  return issued;
}

void ReplaceFile(const std::string& path, const std::string& content) {
  const std::string draft = path + ".part";
  std::ofstream(draft, std::ios::binary | std::ios::trunc) << content;
  ESPALIER_CHECK(std::rename(draft.c_str(), path.c_str()) == 0);
}

}  // namespace espalier::testing
