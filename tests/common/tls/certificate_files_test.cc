#include "common/tls/certificate_files.h"

#include <string>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/test_certificates.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;
using testing::IssuedCertificate;
using testing::ReplaceFile;
using testing::TestAuthority;

class CertificateFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string base =
        ::testing::TempDir() + "/" +
        ::testing::UnitTest::GetInstance()->current_test_info()->name();
    paths_ = {
        .certificate = base + ".crt", .key = base + ".key", .ca = base + ".ca"};
    ReplaceFile(paths_.ca, authority_.pem());
    Put(authority_.Issue({"one"}));
  }

  void Put(const IssuedCertificate& issued) const {
    ReplaceFile(paths_.certificate, issued.certificate);
    ReplaceFile(paths_.key, issued.key);
  }

  std::string ErrorNow() const {
    const auto files = CertificateFiles::Open(paths_);
    EXPECT_FALSE(files.ok());
    return std::string(files.status().message());
  }

  const TestAuthority authority_{"the authority"};
  CertificatePaths paths_;
  absl::Time now_ = absl::Now();
};

TEST_F(CertificateFilesTest, WhatDoesNotFitIsRefusedByName) {
  EXPECT_TRUE(CertificateFiles::Open(paths_).ok());
  ReplaceFile(paths_.key, authority_.Issue({"one"}).key);
  EXPECT_THAT(ErrorNow(), HasSubstr("another certificate's key"));
  ReplaceFile(paths_.key, "nothing");
  EXPECT_THAT(ErrorNow(), HasSubstr("has no private key"));
  Put(authority_.Issue({"one"}, {.ends = -absl::Minutes(1)}));
  EXPECT_THAT(ErrorNow(), HasSubstr("has expired at 2"));
  Put(authority_.Issue({"one"}, {.begins = absl::Minutes(1)}));
  EXPECT_THAT(ErrorNow(), HasSubstr("not valid until 2"));
  Put(authority_.Issue({"one"}));
  ReplaceFile(paths_.ca, authority_.pem() + "-----BEGIN CERTIFICATE-----\nx\n");
  EXPECT_THAT(ErrorNow(), HasSubstr("a certificate is damaged"));
  ReplaceFile(paths_.ca, "");
  EXPECT_THAT(ErrorNow(), HasSubstr("a file is empty"));
  paths_.ca += ".none";
  EXPECT_THAT(ErrorNow(), HasSubstr("cannot read " + paths_.ca));
}

TEST_F(CertificateFilesTest, ARotationIsSeenWhenAllFilesFit) {
  const auto files = CertificateFiles::Open(paths_);
  ASSERT_TRUE(files.ok()) << files.status();
  const auto first = (*files)->Current(now_);
  const IssuedCertificate next = authority_.Issue({"two"});
  ReplaceFile(paths_.certificate, next.certificate);
  EXPECT_EQ((*files)->Current(now_ + absl::Milliseconds(999)), first);
  EXPECT_EQ((*files)->Current(now_ += absl::Seconds(1)), first);
  ReplaceFile(paths_.key, next.key);
  const auto second = (*files)->Current(now_ += absl::Seconds(1));
  EXPECT_NE(second, first);
  EXPECT_EQ(second->key, next.key);
  EXPECT_EQ((*files)->Current(now_ += absl::Seconds(1)), second);
}

TEST_F(CertificateFilesTest, ARotationToWhatHasExpiredChangesNothing) {
  const auto files = CertificateFiles::Open(paths_);
  ASSERT_TRUE(files.ok()) << files.status();
  const auto first = (*files)->Current(now_);
  Put(authority_.Issue({"one"}, {.ends = -absl::Minutes(1)}));
  EXPECT_EQ((*files)->Current(now_ += absl::Seconds(1)), first);
  EXPECT_GT(first->expires, now_);
}

TEST_F(CertificateFilesTest, AClientNeedsNoCertificateOfItsOwn) {
  const auto files = CertificateFiles::Open({.ca = paths_.ca});
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ((*files)->Current(now_)->ca, authority_.pem());
  EXPECT_EQ((*files)->Current(now_)->expires, absl::InfiniteFuture());
}

}  // namespace
}  // namespace espalier
