/* What we change in mbedTLS's own configuration (included at its end). */

/* The self-tests count operations in globals without a lock: a data race between two handshakes. */
#undef MBEDTLS_SELF_TEST

/* Never negotiated (common/net_tls.c): without it a program is 70 KiB smaller, and its code cannot
 * be reached. */
#undef MBEDTLS_SSL_PROTO_TLS1_3
