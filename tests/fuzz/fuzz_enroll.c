/* Any bytes as each message of the enrolment calls. What is accepted must be encoded and accepted
 * once more. */
#include "common/wire/wire_enroll.h"
#include "tests/fuzz/again.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

AGAIN(enroll, enroll)
AGAIN(renew, enroll_renew)
AGAIN(renew_expired, enroll_renew_expired)
AGAIN(certificate, enroll_certificate)

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    try_enroll(p, n);
    try_renew(p, n);
    try_renew_expired(p, n);
    try_certificate(p, n);
    return 0;
}
