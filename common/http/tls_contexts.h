// Includes Boost.Asio: for common/http's own .cc files.
#ifndef ESPALIER_COMMON_HTTP_TLS_CONTEXTS_H_
#define ESPALIER_COMMON_HTTP_TLS_CONTEXTS_H_

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/tls/certificate_files.h"

namespace espalier::http {

// The server's side of TLS, with the certificates that are in force.
// Thread-safe.
class TlsContexts {
 public:
  // `files` null: no TLS.
  explicit TlsContexts(std::shared_ptr<CertificateFiles> files)
      : files_(std::move(files)) {}

  // Returns what a new connection gets; null: no TLS. Throws
  // boost::system::system_error if OpenSSL refuses the certificates.
  std::shared_ptr<boost::asio::ssl::context> Current();

 private:
  const std::shared_ptr<CertificateFiles> files_;
  Mutex mutex_;
  std::shared_ptr<const Certificates> certificates_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<boost::asio::ssl::context> context_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace espalier::http

#endif  // ESPALIER_COMMON_HTTP_TLS_CONTEXTS_H_
