#include "common/tls/certificate_files.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/base/status_prefix.h"
#include "common/obs/log.h"

namespace espalier {
namespace {

constexpr absl::Duration kLookEvery = absl::Seconds(1);

template <auto free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

Bio Open(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// A key with a passphrase is refused; OpenSSL would ask the terminal for it.
int NoPassphrase(char*, int, int, void*) { return 0; }

// The first certificate, if all of them can be read.
absl::StatusOr<Certificate> FirstOf(const std::string& pem) {
  const Bio bio = Open(pem);
  Certificate first;
  while (true) {
    Certificate next(
        PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr));
    if (next == nullptr) break;
    if (first == nullptr) first = std::move(next);
  }
  const bool at_end =
      ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (first == nullptr) return absl::InvalidArgumentError("has no certificate");
  if (!at_end) return absl::InvalidArgumentError("a certificate is damaged");
  return first;
}

absl::StatusOr<absl::Time> TimeOf(const ASN1_TIME* time) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) {
    return absl::InvalidArgumentError("a date is damaged");
  }
  return absl::FromTM(parts, absl::UTCTimeZone());
}

absl::Status CheckKey(const std::string& pem, X509* certificate) {
  const Bio bio = Open(pem);
  const Key key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  const bool fits =
      key != nullptr && X509_check_private_key(certificate, key.get()) == 1;
  ERR_clear_error();
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        "has no private key without a passphrase");
  }
  if (!fits) return absl::InvalidArgumentError("is another certificate's key");
  return absl::OkStatus();
}

absl::Status Named(absl::string_view what, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(what, " ", status.message()));
}

absl::Status CheckOwn(Certificates& content, absl::Time now) {
  const absl::StatusOr<Certificate> own = FirstOf(content.certificate);
  RETURN_IF_ERROR(Named("the certificate file", own.status()));
  RETURN_IF_ERROR(Named("the key file", CheckKey(content.key, own->get())));
  ASSIGN_OR_RETURN(content.expires, TimeOf(X509_get0_notAfter(own->get())));
  ASSIGN_OR_RETURN(const absl::Time begins,
                   TimeOf(X509_get0_notBefore(own->get())));
  if (content.expires < now) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the certificate has expired at ", absl::FormatTime(content.expires)));
  }
  if (begins > now) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the certificate is not valid until ", absl::FormatTime(begins)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  if (path.empty()) return "";
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  }
  std::string text(CertificateFiles::kMaxBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() <= CertificateFiles::kMaxBytes) return text;
  return absl::InvalidArgumentError(absl::StrCat(
      path, " has more than ", CertificateFiles::kMaxBytes, " bytes"));
}

}  // namespace

absl::Status CheckCertificates(Certificates& content, absl::Time now) {
  if (!content.ca.empty()) {
    RETURN_IF_ERROR(
        Named("the file of authorities", FirstOf(content.ca).status()));
  }
  if (content.certificate.empty() && content.key.empty()) {
    return absl::OkStatus();
  }
  return CheckOwn(content, now);
}

absl::StatusOr<std::shared_ptr<CertificateFiles>> CertificateFiles::Open(
    CertificatePaths paths) {
  std::shared_ptr<CertificateFiles> files(
      new CertificateFiles(std::move(paths)));
  MutexLock lock(&files->mutex_);
  files->stamps_ = files->StampsNow();
  ASSIGN_OR_RETURN(files->current_, files->Read());
  return files;
}

std::shared_ptr<const Certificates> CertificateFiles::Current(absl::Time now) {
  MutexLock lock(&mutex_);
  if (now >= next_look_) {
    next_look_ = now + kLookEvery;
    ReadAgain();
  }
  return current_;
}

// Files that did not fit are read until they do: one of them may have been
// caught in the middle of being written, within the resolution of its time.
void CertificateFiles::ReadAgain() {
  const Stamps stamps = StampsNow();
  if (stamps == stamps_ && last_error_.empty()) return;
  auto content = Read();
  if (content.ok()) {
    stamps_ = stamps;
    last_error_.clear();
    current_ = *std::move(content);
    LogInfo(absl::StrCat("TLS: read ", paths_.certificate,
                         paths_.certificate.empty() ? paths_.ca : "",
                         " again"));
    return;
  }
  const std::string error(content.status().message());
  if (error == last_error_) return;
  last_error_ = error;
  LogWarning(absl::StrCat("TLS: certificates stay as they are: ", error));
}

absl::StatusOr<std::shared_ptr<const Certificates>> CertificateFiles::Read()
    const {
  auto content = std::make_shared<Certificates>();
  ASSIGN_OR_RETURN(content->certificate, ReadFile(paths_.certificate));
  ASSIGN_OR_RETURN(content->key, ReadFile(paths_.key));
  ASSIGN_OR_RETURN(content->ca, ReadFile(paths_.ca));
  const bool has_empty =
      content->certificate.empty() != paths_.certificate.empty() ||
      content->key.empty() != paths_.key.empty() ||
      content->ca.empty() != paths_.ca.empty();
  absl::Status status = has_empty
                            ? absl::InvalidArgumentError("a file is empty")
                            : CheckCertificates(*content, absl::Now());
  if (status.ok()) return content;
  std::string names;
  for (const std::string* path :
       {&paths_.certificate, &paths_.key, &paths_.ca}) {
    if (!path->empty())
      absl::StrAppend(&names, names.empty() ? "" : ", ", *path);
  }
  return WithPrefix(names, status);
}

CertificateFiles::Stamps CertificateFiles::StampsNow() const {
  Stamps stamps;
  const std::string* const paths[] = {&paths_.certificate, &paths_.key,
                                      &paths_.ca};
  for (size_t i = 0; i < stamps.size(); ++i) {
    if (paths[i]->empty()) continue;
    stamps[i] = FileStamp::Of(*paths[i]);
  }
  return stamps;
}

}  // namespace espalier
