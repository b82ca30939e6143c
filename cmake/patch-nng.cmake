# The changes to NNG 1.5.2, applied where the sources are unpacked (run there). All but the last six are about connections that end.
#
# A pipe that is closed on our side while a message arrives can hang for ever, and with it the one thread that takes all
# closed pipes away: the callback that has read a message's head asks for its body on an operation that the close has just
# stopped; NNG refuses that silently, so the callback never comes again and the protocol waits for its receive to end.
# The same holds for a partial write. Seen as a hang in nng_close (test_net under the thread sanitizer, 1 run in 20).
#
# Here closing ends the waiting operations itself, and a late callback that finds none does nothing.
#
# The exchange of greetings has the same gap when its listener or dialer closes, and a connection that has greeted and was
# not handed over yet is not taken away by anybody then: both leak the connection (test_net, servers that stop while clients
# come in, under the address sanitizer). There a late callback sees that the endpoint is closed, and closing takes the
# connections away.
#
# Besides, a reply that meets a pipe just being closed is refused by the transport without a word and stays in the pipe's
# operation, which is thrown away with it: the message leaks.
#
# TLS forgets that its TCP connection has ended when nothing was being sent or received at that moment: whoever receives later
# waits for ever, and a connection that is gone counts as one that is there (test_net_silence). Here it remembers; what came in
# before can still be read.
#
# The ten seconds that a handshake may last have no effect, because giving up an operation of TLS ends the TCP operation below
# it, and a handshake that waits for its peer has none of that direction. So whoever connected and said nothing held a
# descriptor for ever, and a dialer that met a silent server never tried again (test_net_silence). Here giving up ends the
# connection, which is what it did where it worked. A greeting that fails because its connection was closed under it must not
# look like a closed listener or dialer: those would never accept or dial again.
#
# And the pause before a dialer tries again is a random number modulo the back-off, taken from a *signed* number: half of the
# time it is negative, the dialer tries at once and doubles its back-off each time, so that a peer that was away for a few
# hundred milliseconds is tried again only after up to the longest pause. Seen as an agent that stayed away for a minute after
# a collector's restart of 0.3 s (chaos_collector with 60 kills). Here the number is unsigned. The longest pause, which may be set
# while a dialer is at work (net_dial_pause), is set under a lock and was read without it (test_net_rules under the thread sanitizer).
#
# Whether a new connection was closed while it was announced is read without the lock under which it is closed (test_net_judge under
# the thread sanitizer). Here it is read under it.
#
# A listener's or dialer's counters are appended to the tree of statistics after it was made public, without the lock under
# which nng_stats_get walks that tree (test_agent under the thread sanitizer). Here appending takes the lock.
#
# What is sent over TLS is a list of pieces, first the message's length, and each piece became a record and a write of its own: two
# for a reply of a few bytes, and a detour over another thread between any two. Here (bench_feed, bench_ingest_tls) a short piece
# shares its record with what follows, and records are made for as long as there is room for them.
#
# A publisher hands its messages on one by one, each with an operation, locks and threads to wake for each subscriber, which costs far
# more than a message of one event. Here (net_pub.c) it may send several as one *train*: a body that holds the first message, then each
# further one behind its length, as they stand on the wire. The train says how long the first one is in the place that names a
# received message's pipe; pipes never have that number's highest bit set. Subscribers see single messages.
#
# Whoever dials asks the system to connect, and it goes on asking for two minutes, with ever longer pauses; once connected, who only
# listens finds out after two hours that the other side lost its power. Here (test_net_dial, Linux) it gives up after 7 s (11 s where
# the first requests follow each other by the second), and connections end as on the listener's side (common/net/net_janitor_linux.c).
#
# Last, the HTTP server trusts whoever connects: a path that ends in an escape (`/%41`) is read and written behind its memory, lines
# of a request are taken without end, nobody has to hurry, connections are not counted, one that was refused goes on, and when
# descriptors are short it spins. Here (test_net_http) a request has 8 KiB and 10 s, a reply is taken within 10 s, of 64
# connections the oldest that no handler is at work for goes for a new one, a refusal ends its connection, and it pauses.

function(change before after)
  string(FIND "${text}" "${before}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "cmake/patch-nng.cmake does not fit this NNG: not found in ${file}:\n${before}")
  endif()
  string(REPLACE "${before}" "${after}" text "${text}")
  set(text "${text}" PARENT_SCOPE)
endfunction()

# Pauses.
set(file src/core/socket.c)
file(READ ${file} text)
if(NOT text MATCHES "procfleet")
  change("back_off ? (int) nni_random() % back_off : 0, &d->d_tmo_aio);" "/* Changed by procfleet, see cmake/patch-nng.cmake. */
\t    back_off ? (int) (nni_random() % (unsigned) back_off) : 0, &d->d_tmo_aio);")
  change("\tback_off = d->d_currtime;
\tif (d->d_maxrtime > 0) {
\t\td->d_currtime *= 2;
\t\tif (d->d_currtime > d->d_maxrtime) {
\t\t\td->d_currtime = d->d_maxrtime;
\t\t}
\t}" "\tback_off = d->d_currtime;
\tnni_mtx_lock(&d->d_mtx);
\tif (d->d_maxrtime > 0) {
\t\td->d_currtime *= 2;
\t\tif (d->d_currtime > d->d_maxrtime) {
\t\t\td->d_currtime = d->d_maxrtime;
\t\t}
\t}
\tnni_mtx_unlock(&d->d_mtx);")
  change("void
nni_dialer_add_pipe(nni_dialer *d, void *tpipe)
{" "static bool
pipe_was_closed(nni_pipe *p)
{
\tbool closed;

\tnni_mtx_lock(&p->p_mtx);
\tclosed = p->p_closed;
\tnni_mtx_unlock(&p->p_mtx);
\treturn (closed);
}

void
nni_dialer_add_pipe(nni_dialer *d, void *tpipe)
{")
  change("\tif (p->p_closed) {" "\tif (pipe_was_closed(p)) {")
  file(WRITE ${file} "${text}")
endif()

# Statistics.
set(file src/core/stats.c)
file(READ ${file} text)
if(NOT text MATCHES "procfleet")
  change("void
nni_stat_add(nni_stat_item *parent, nni_stat_item *child)
{" "/* Changed by procfleet, see cmake/patch-nng.cmake. */
static void
stat_append(nni_stat_item *parent, nni_stat_item *child)
{")
  change("\tnni_stat_add(&stats_root, child);" "\tstat_append(&stats_root, child);")
  change("// nni_stat_register registers a stat tree" "void
nni_stat_add(nni_stat_item *parent, nni_stat_item *child)
{
#ifdef NNG_ENABLE_STATS
\tnni_mtx_lock(&stats_lock);
\tstat_append(parent, child);
\tnni_mtx_unlock(&stats_lock);
#else
\tNNI_ARG_UNUSED(parent);
\tNNI_ARG_UNUSED(child);
#endif
}

// nni_stat_register registers a stat tree")
  file(WRITE ${file} "${text}")
endif()

# Dialling.
set(file src/platform/posix/posix_tcpdial.c)
file(READ ${file} text)
if(NOT text MATCHES "procfleet")
  change("#include <netinet/in.h>
" "#include <netinet/in.h>
#include <netinet/tcp.h>
")
  change("// We don't give local address binding support." "/* Changed by procfleet, see cmake/patch-nng.cmake. */
static void
tcp_expect_answers(int fd)
{
#ifdef TCP_USER_TIMEOUT
\tstatic const struct {
\t\tint name;
\t\tint value;
\t} options[] = {
\t\t{ TCP_SYNCNT, 2 },
\t\t{ TCP_USER_TIMEOUT, 60000 },
\t\t{ TCP_KEEPIDLE, 60 },
\t\t{ TCP_KEEPINTVL, 10 },
\t\t{ TCP_KEEPCNT, 3 },
\t};
\tfor (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
\t\t(void) setsockopt(fd, IPPROTO_TCP, options[i].name,
\t\t    &options[i].value, sizeof(int));
\t}
#else
\tNNI_ARG_UNUSED(fd);
#endif
}

// We don't give local address binding support.")
  change("\tnni_atomic_inc64(&d->ref);

\tif ((rv = nni_posix_tcp_alloc(&c, d)) != 0) {" "\ttcp_expect_answers(fd);
\tnni_atomic_inc64(&d->ref);

\tif ((rv = nni_posix_tcp_alloc(&c, d)) != 0) {")
  file(WRITE ${file} "${text}")
endif()

# HTTP.
set(file src/supplemental/http/http_server.c)
file(READ ${file} text)
if(NOT text MATCHES "procfleet")
  change("\t\t\ttmp += 3;
\t\t}" "\t\t\ttmp += 3;
\t\t\tcontinue; /* Changed by procfleet, see cmake/patch-nng.cmake. */
\t\t}")
  change("http_sconn_error(http_sconn *sc, uint16_t err)
{
\tnni_http_res *res;
" "http_sconn_error(http_sconn *sc, uint16_t err)
{
\tnni_http_res *res;

\tsc->close = true;")
  change("\t\tif (!s->closed) {
\t\t\t// try again?" "\t\tif (!s->closed) {
\t\t\tif ((rv == NNG_ENOFILES) || (rv == NNG_ENOMEM)) {
\t\t\t\tnni_msleep(10);
\t\t\t}
\t\t\t// try again?")
  change("\tsc->server = s;
\tnni_list_append(&s->conns, sc);
" "\tsc->server = s;
\tnni_aio_set_timeout(sc->rxaio, 10000);
\tnni_aio_set_timeout(sc->txaio, 10000);
\tNNI_LIST_FOREACH (&s->conns, other) {
\t\tif (!other->closed) {
\t\t\tif ((oldest == NULL) && (other->release == NULL)) {
\t\t\t\toldest = other;
\t\t\t}
\t\t\tlive++;
\t\t}
\t}
\tif ((live >= 64) && (oldest != NULL)) {
\t\thttp_sc_close_locked(oldest);
\t}
\tnni_list_append(&s->conns, sc);
")
  change("\t\tsc->release = NULL;
\t\tnni_http_handler_fini(h);" "\t\tnni_mtx_lock(&s->mtx);
\t\tsc->release = NULL;
\t\tnni_mtx_unlock(&s->mtx);
\t\tnni_http_handler_fini(h);")
  change("\tif (nni_aio_begin(sc->cbaio) != 0) {
\t\tnni_mtx_unlock(&s->mtx);
\t\treturn;" "\tif (nni_aio_begin(sc->cbaio) != 0) {
\t\tsc->release = NULL;
\t\tnni_mtx_unlock(&s->mtx);
\t\tnni_http_handler_fini(h);
\t\treturn;")
  change("\thttp_sconn *     sc;
\tint              rv;

\tnni_mtx_lock(&s->mtx);
\tif ((rv = nni_aio_result(aio)) != 0) {" "\thttp_sconn *     sc;
\thttp_sconn *     other;
\thttp_sconn *     oldest = NULL;
\tunsigned         live   = 0;
\tint              rv;

\tnni_mtx_lock(&s->mtx);
\tif ((rv = nni_aio_result(aio)) != 0) {")
  file(WRITE ${file} "${text}")
endif()
set(file src/supplemental/http/http_conn.c)
file(READ ${file} text)
if(NOT text MATCHES "procfleet")
  change("\tsize_t   rd_bufsz;
" "\tsize_t   rd_bufsz;
\tsize_t   rd_lines; /* bytes of requests. Changed by procfleet, see cmake/patch-nng.cmake. */
")
  change("\t\trv = nni_http_req_parse(
\t\t    nni_aio_get_prov_extra(aio, 1), rbuf, cnt, &n);
" "\t\trv = nni_http_req_parse(
\t\t    nni_aio_get_prov_extra(aio, 1), rbuf, cnt, &n);
\t\tconn->rd_lines += n;
\t\tif (conn->rd_lines > HTTP_BUFSIZE) {
\t\t\trv = NNG_EMSGSIZE;
\t\t}
")
  file(WRITE ${file} "${text}")
endif()

set(file src/sp/transport/tls/tls.c)
file(READ ${file} text)
if(text MATCHES "procfleet")
  return()
endif()

# Closing: no operation starts from here on, those that wait end. (Changed by procfleet.)
change("\ttlstran_pipe *p = arg;

\tnni_aio_close(p->rxaio);
\tnni_aio_close(p->txaio);
\tnni_aio_close(p->negoaio);

\tnng_stream_close(p->tls);
}" "\ttlstran_pipe *p = arg;
\tnni_aio      *aio;

\t/* Changed by procfleet, see cmake/patch-nng.cmake. */
\tnni_mtx_lock(&p->mtx);
\tp->closed = true;
\tnni_mtx_unlock(&p->mtx);

\tnni_aio_close(p->rxaio);
\tnni_aio_close(p->txaio);
\tnni_aio_close(p->negoaio);

\tnng_stream_close(p->tls);

\tnni_mtx_lock(&p->mtx);
\twhile (((aio = nni_list_first(&p->recvq)) != NULL) ||
\t    ((aio = nni_list_first(&p->sendq)) != NULL)) {
\t\tnni_aio_list_remove(aio);
\t\tnni_aio_finish_error(aio, NNG_ECLOSED);
\t}
\tnni_mtx_unlock(&p->mtx);
}")

# Late callbacks.
foreach(queue IN ITEMS sendq recvq)
  change("\taio = nni_list_first(&p->${queue});

" "\taio = nni_list_first(&p->${queue});
\tif (aio == NULL) { /* closed */
\t\tnni_mtx_unlock(&p->mtx);
\t\treturn;
\t}

")
endforeach()

# New operations.
foreach(cancel IN ITEMS send recv)
  change("\tnni_mtx_lock(&p->mtx);
\tif ((rv = nni_aio_schedule(aio, tlstran_pipe_${cancel}_cancel, p)) != 0) {" "\tnni_mtx_lock(&p->mtx);
\tif (p->closed) {
\t\tnni_mtx_unlock(&p->mtx);
\t\tnni_aio_finish_error(aio, NNG_ECLOSED);
\t\treturn;
\t}
\tif ((rv = nni_aio_schedule(aio, tlstran_pipe_${cancel}_cancel, p)) != 0) {")
endforeach()

# Greetings.
change("\tif ((rv = nni_aio_result(aio)) != 0) {
\t\tgoto error;
\t}

\t// We start transmitting before we receive." "\tif ((rv = ep->closed ? NNG_ECLOSED : nni_aio_result(aio)) != 0) {
\t\tgoto error;
\t}

\t// We start transmitting before we receive.")
# Trains.
change("\tlen = nni_msg_len(msg) + nni_msg_header_len(msg);

\tNNI_PUT64(p->txlen, len);" "\tlen = nni_msg_len(msg) + nni_msg_header_len(msg);
\tif ((nni_msg_get_pipe(msg) & 0x80000000u) != 0) {
\t\tlen = nni_msg_get_pipe(msg) & 0x7fffffffu;
\t}

\tNNI_PUT64(p->txlen, len);")
change("\tNNI_LIST_FOREACH (&ep->waitpipes, p) {
\t\ttlstran_pipe_close(p);
" "\tNNI_LIST_FOREACH (&ep->waitpipes, p) {
\t\ttlstran_pipe_close(p);
\t\ttlstran_pipe_reap(p);
")
change("\tif ((uaio = ep->useraio) != NULL) {
\t\tep->useraio = NULL;
\t\tnni_aio_finish_error(uaio, rv);
\t}
\tnni_mtx_unlock(&ep->mtx);
\ttlstran_pipe_reap(p);" "\tif ((uaio = ep->useraio) != NULL) {
\t\tep->useraio = NULL;
\t\tif (!ep->closed && ((rv == NNG_ECLOSED) || (rv == NNG_ECANCELED))) {
\t\t\trv = NNG_ECONNABORTED;
\t\t}
\t\tnni_aio_finish_error(uaio, rv);
\t}
\tnni_mtx_unlock(&ep->mtx);
\ttlstran_pipe_reap(p);")
file(WRITE ${file} "${text}")

# The end of a TCP connection, and giving up.
set(file src/supplemental/tls/tls_common.c)
file(READ ${file} text)
change("\tnni_aio *aio;
\tnng_stream_close(conn->tcp);
" "\tnni_aio *aio;
\tconn->closed = true; /* Changed by procfleet, see cmake/patch-nng.cmake. */
\tnng_stream_close(conn->tcp);
")
change("\tif (conn->closed) {
\t\tnni_mtx_unlock(&conn->lock);
\t\tnni_aio_finish_error(aio, NNG_ECLOSED);
\t\treturn;
\t}
\tif ((rv = nni_aio_schedule(aio, tls_cancel, conn)) != 0) {
\t\tnni_mtx_unlock(&conn->lock);
\t\tnni_aio_finish_error(aio, rv);
\t\treturn;
\t}

\tnni_list_append(&conn->recv_queue, aio);" "\tif ((rv = nni_aio_schedule(aio, tls_cancel, conn)) != 0) {
\t\tnni_mtx_unlock(&conn->lock);
\t\tnni_aio_finish_error(aio, rv);
\t\treturn;
\t}

\tnni_list_append(&conn->recv_queue, aio);")
change("\tif (aio == nni_list_first(&conn->recv_queue)) {
\t\tnni_aio_abort(&conn->tcp_recv, rv);
\t} else if (aio == nni_list_first(&conn->send_queue)) {
\t\tnni_aio_abort(&conn->tcp_send, rv);
\t} else if (nni_aio_list_active(aio)) {
\t\tnni_aio_list_remove(aio);
\t\tnni_aio_finish_error(aio, rv);
\t}" "\tif (nni_aio_list_active(aio)) {
\t\ttls_tcp_error(conn, rv);
\t}")
# Records and writes.
change("// tls_do_send attempts to send user data.
static void" "// tls_send_some sends what is left of an operation; its count says how much that is not. Changed by procfleet.
static int
tls_send_some(tls_conn *conn, nni_aio *aio)
{
\tuint8_t  record[16384]; // as much as one takes
\tnni_iov *iov;
\tunsigned nio;

\tnni_aio_get_iov(aio, &nio, &iov);
\tfor (;;) {
\t\tsize_t   skip = nni_aio_count(aio);
\t\tunsigned i    = 0;
\t\tuint8_t *buf;
\t\tsize_t   len;
\t\tint      rv;

\t\twhile ((i < nio) && (skip >= iov[i].iov_len)) {
\t\t\tskip -= iov[i].iov_len;
\t\t\ti++;
\t\t}
\t\tif (i == nio) {
\t\t\treturn (0);
\t\t}
\t\tbuf = (uint8_t *) iov[i].iov_buf + skip;
\t\tlen = iov[i].iov_len - skip;
\t\tif ((len <= 64) && (i + 1 < nio)) {
\t\t\tmemcpy(record, buf, len);
\t\t\tbuf = record;
\t\t\tfor (i++; (i < nio) && (len < sizeof(record)); i++) {
\t\t\t\tsize_t n = iov[i].iov_len;
\t\t\t\tif (n > sizeof(record) - len) {
\t\t\t\t\tn = sizeof(record) - len;
\t\t\t\t}
\t\t\t\tmemcpy(record + len, iov[i].iov_buf, n);
\t\t\t\tlen += n;
\t\t\t}
\t\t}
\t\trv = conn->ops.send((void *) (conn + 1), buf, &len);
\t\tif (rv != 0) {
\t\t\treturn (rv);
\t\t}
\t\tnni_aio_bump_count(aio, len);
\t}
}

// tls_do_send attempts to send user data.
static void")
change("\t\tuint8_t *buf = NULL;
\t\tsize_t   len = 0;
\t\tnni_iov *iov;
\t\tunsigned nio;
\t\tint      rv;

\t\tnni_aio_get_iov(aio, &nio, &iov);

\t\tfor (unsigned i = 0; i < nio; i++) {
\t\t\tif (iov[i].iov_len != 0) {
\t\t\t\tbuf = iov[i].iov_buf;
\t\t\t\tlen = iov[i].iov_len;
\t\t\t\tbreak;
\t\t\t}
\t\t}
\t\tif (len == 0 || buf == NULL) {
\t\t\tnni_aio_list_remove(aio);
\t\t\t// Presumably this means we've completed this
\t\t\t// one, lets preserve the count, and move to the
\t\t\t// next.
\t\t\tnni_aio_finish(aio, 0, nni_aio_count(aio));
\t\t\tcontinue;
\t\t}

\t\t// Ask the engine to send.
\t\trv = conn->ops.send((void *) (conn + 1), buf, &len);
\t\tif (rv == NNG_EAGAIN) {" "\t\tint rv = tls_send_some(conn, aio);

\t\tif (rv == NNG_EAGAIN) {")
change("\t\t\tnni_aio_list_remove(aio);
\t\t\tnni_aio_finish(aio, 0, len);
\t\t}
\t}
}

static void
tls_tcp_send_cb" "\t\t\tnni_aio_list_remove(aio);
\t\t\tnni_aio_finish(aio, 0, nni_aio_count(aio));
\t\t}
\t}
}

static void
tls_tcp_send_cb")
change("\tif (conn->closed) {
\t\treturn (NNG_ECLOSED);
\t}
\tif (conn->tcp_recv_len == 0) {
" "\tif (conn->tcp_recv_len == 0) {
\t\tif (conn->closed) {
\t\t\treturn (NNG_ECLOSED);
\t\t}
")
file(WRITE ${file} "${text}")

# Messages that were never sent. They are in the operation still; sent ones are not.
function(free_unsent protocol send before) # `send` may be unmade where a pipe's making has failed
  set(file src/sp/protocol/${protocol}.c)
  file(READ ${file} text)
  change("${before}" "\tif ((${send} != NULL) && (nni_aio_get_msg(${send}) != NULL)) {
\t\tnni_msg_free(nni_aio_get_msg(${send}));
\t\tnni_aio_set_msg(${send}, NULL);
\t}
${before}")
  file(WRITE ${file} "${text}")
endfunction()
free_unsent(reqrep0/rep "&p->aio_send" "\tnni_aio_fini(&p->aio_send);
\tnni_aio_fini(&p->aio_recv);
")
free_unsent(reqrep0/req "&p->aio_send" "\tnni_aio_fini(&p->aio_recv);
\tnni_aio_fini(&p->aio_send);
")
free_unsent(pubsub0/pub "p->aio_send" "\tnni_aio_free(p->aio_send);
\tnni_aio_free(p->aio_recv);
\tnni_lmq_fini")
