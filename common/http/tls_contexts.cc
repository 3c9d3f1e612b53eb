#include "common/http/tls_contexts.h"

#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <string>

namespace espalier::http {
namespace {

namespace ssl = boost::asio::ssl;

// HTTP/1.1, in the format of ALPN. A client that offers others only goes on
// without.
int SelectProtocol(SSL*, const unsigned char** chosen, unsigned char* length,
                   const unsigned char* offered, unsigned offered_length,
                   void*) {
  static constexpr unsigned char kOurs[] = "\x08http/1.1";
  unsigned char* selected = nullptr;
  if (SSL_select_next_proto(&selected, length, kOurs, sizeof(kOurs) - 1,
                            offered,
                            offered_length) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *chosen = selected;
  return SSL_TLSEXT_ERR_OK;
}

// Each connection shows its certificate again: nothing is resumed.
std::shared_ptr<ssl::context> Make(const Certificates& certificates) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX* const native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
                                  SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_alpn_select_cb(native, SelectProtocol, nullptr);
  context->use_certificate_chain(boost::asio::buffer(certificates.certificate));
  context->use_private_key(boost::asio::buffer(certificates.key),
                           ssl::context::pem);
  if (!certificates.ca.empty()) {
    context->add_certificate_authority(boost::asio::buffer(certificates.ca));
    context->set_verify_mode(ssl::verify_peer |
                             ssl::verify_fail_if_no_peer_cert);
  }
  return context;
}

}  // namespace

std::shared_ptr<ssl::context> TlsContexts::Current() {
  if (files_ == nullptr) return nullptr;
  std::shared_ptr<const Certificates> now = files_->Current();
  MutexLock lock(&mutex_);
  if (now != certificates_) {
    context_ = Make(*now);
    certificates_ = std::move(now);
  }
  return context_;
}

}  // namespace espalier::http
