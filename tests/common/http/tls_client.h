// A client of TLS that blocks.
#ifndef ESPALIER_TESTS_COMMON_HTTP_TLS_CLIENT_H_
#define ESPALIER_TESTS_COMMON_HTTP_TLS_CLIENT_H_

#include <openssl/ssl.h>

#include <csignal>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace espalier::testing {

class TlsClient {
 public:
  // PEM files; `own` empty: it shows no certificate.
  TlsClient(uint16_t port, const std::string& ca_file,
            const std::string& own_certificate_file = "",
            const std::string& own_key_file = "")
      : context_(SSL_CTX_new(TLS_client_method())) {
    signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to connections that are closed
    SSL_CTX_load_verify_locations(context_, ca_file.c_str(), nullptr);
    SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
    if (!own_certificate_file.empty()) {
      SSL_CTX_use_certificate_file(context_, own_certificate_file.c_str(),
                                   SSL_FILETYPE_PEM);
      SSL_CTX_use_PrivateKey_file(context_, own_key_file.c_str(),
                                  SSL_FILETYPE_PEM);
    }
    bio_ = BIO_new_ssl_connect(context_);
    BIO_set_conn_hostname(bio_, ("127.0.0.1:" + std::to_string(port)).c_str());
    BIO_get_ssl(bio_, &ssl_);
  }
  ~TlsClient() {
    BIO_free_all(bio_);
    SSL_CTX_free(context_);
  }

  SSL* ssl() const { return ssl_; }

  // Returns true if this side has completed the handshake.
  bool Shake() { return BIO_do_handshake(bio_) == 1; }

  void Write(absl::string_view bytes) {
    BIO_write(bio_, bytes.data(), static_cast<int>(bytes.size()));
  }
  // Until the server's farewell or an error.
  std::string ReadAll() {
    std::string all;
    char buffer[4096];
    for (int n; (n = BIO_read(bio_, buffer, sizeof(buffer))) > 0;) {
      all.append(buffer, static_cast<size_t>(n));
    }
    return all;
  }
  bool had_farewell() const {
    return (SSL_get_shutdown(ssl_) & SSL_RECEIVED_SHUTDOWN) != 0;
  }

 private:
  SSL_CTX* const context_;
  BIO* bio_ = nullptr;
  SSL* ssl_ = nullptr;  // owned by bio_
};

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_COMMON_HTTP_TLS_CLIENT_H_
