/* Every call for listeners and streams, between two queues of one stack. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "expect.h"
#include "weever.h"

static weever_aq *client, *server;

static weever_dest at(uint16_t port)
{
    weever_dest ends = {{0, 0, {0}}, {AF_INET, port, {10, 0, 0, 1}}};
    return ends;
}

/* The next event of a queue, which has to be of this type. */
static weever_event next(weever_aq *queue, uint32_t type)
{
    weever_event event;
    for (;;) {
        int found = weever_aq_poll(queue, &event);
        if (found == WEEVER_POLL_EVENT) {
            EXPECT(event.type, type);
            return event;
        }
        if (found == WEEVER_POLL_NOTHING)
            EXPECT(weever_aq_wait(queue, 30000), 1);
        else
            EXPECT(found, WEEVER_POLL_WORKED);
    }
}

/* Reads as many octets as there have to be. */
static void read_all(weever_aq *queue, weever_stream *stream, char *to, size_t len)
{
    for (size_t done = 0; done < len;) {
        long now = weever_stream_read(stream, to + done, len - done);
        if (now == -EAGAIN) {
            EXPECT(weever_aq_wait(queue, 30000) >= 0, 1);
        } else {
            EXPECT(now > 0, 1);
            done += (size_t)now;
        }
    }
}

static long read_end(weever_aq *queue, weever_stream *stream)
{
    char octet;
    long now;
    while ((now = weever_stream_read(stream, &octet, 1)) == -EAGAIN)
        EXPECT(weever_aq_wait(queue, 30000) >= 0, 1);
    return now;
}

/* By reference: an answer in the frame of the question, and octets written where they lie. */
static void without_copies(weever_listener *listener)
{
    weever_stream *stream;
    weever_buf *buf;
    weever_state state;
    weever_dest ends, own, to = at((uint16_t)weever_listener_port(listener));
    EXPECT(weever_stream_connect(client, &to, &stream), 0);
    EXPECT(weever_stream_ends(stream, &ends), -ENOTCONN);
    EXPECT(weever_aq_commit(client), 0);
    weever_event accepted = next(server, WEEVER_EVENT_ACCEPTED);
    EXPECT(accepted.listener == listener, 1);
    EXPECT(next(client, WEEVER_EVENT_CONNECTED).stream == stream, 1);
    EXPECT(weever_stream_ends(stream, &ends), 0);
    EXPECT(weever_stream_ends(accepted.stream, &own), 0);
    EXPECT(memcmp(&ends.local, &own.remote, sizeof own.remote), 0);
    EXPECT(ends.remote.port, to.remote.port);
    weever_stream_opaque_set(stream, &ends);

    EXPECT(weever_stream_set(stream, WEEVER_STREAM_NODELAY, 1), 0);
    EXPECT(weever_stream_set(stream, WEEVER_STREAM_KEEPALIVE, 60), 0);
    EXPECT(weever_stream_set(stream, 99, 1), -EINVAL);
    EXPECT(weever_stream_set(stream, WEEVER_STREAM_CORK, 1 << 24), -EINVAL);
    EXPECT(weever_stream_set(stream, WEEVER_STREAM_TRAFFIC_CLASS, 0xb8), 0);
    EXPECT(weever_stream_set(stream, WEEVER_STREAM_TRAFFIC_CLASS, 256), -EINVAL);
    EXPECT(weever_stream_set(stream, WEEVER_STREAM_HOPS, 7), 0);
    EXPECT(weever_stream_set(stream, WEEVER_STREAM_HOPS, 256), -EINVAL);
    EXPECT(weever_listener_set(listener, WEEVER_STREAM_NODELAY, 1), 0);
    EXPECT(weever_listener_set(listener, WEEVER_STREAM_TRAFFIC_CLASS, 0xb8), 0);
    EXPECT(weever_listener_set(listener, WEEVER_STREAM_HOPS, 7), 0);
    EXPECT(weever_listener_set(listener, 99, 1), -EINVAL);
    unsigned char info[512];
    EXPECT(weever_stream_info(stream, info, sizeof info), 248);
    EXPECT(info[0], 1);
    EXPECT(weever_stream_info(stream, NULL, 8), -EINVAL);
    EXPECT(weever_stream_buffer_alloc(stream, &buf), 0);
    EXPECT(weever_buf_capacity(buf) > 1000, 1);
    memcpy(weever_buf_data(buf), "question", 8);
    EXPECT(weever_buf_set_len(buf, 8), 0);
    EXPECT(weever_stream_send(accepted.stream, buf), -EINVAL);
    EXPECT(weever_stream_send(stream, buf), 0);
    EXPECT(weever_aq_commit(client), 0);

    weever_event event = next(server, WEEVER_EVENT_OCTETS);
    EXPECT(event.stream == accepted.stream, 1);
    EXPECT(weever_buf_len(event.buf), 8);
    char *data = weever_buf_data(event.buf), text[16] = {0};
    EXPECT(weever_buf_copy(event.buf, text, sizeof text), 8);
    EXPECT(strcmp(text, "question"), 0);
    memcpy(data, "answer", 6);
    EXPECT(weever_buf_set_len(event.buf, 6), 0);
    EXPECT(weever_buf_data(event.buf) == data, 1);
    EXPECT(weever_stream_send(event.stream, event.buf), 0);
    EXPECT(weever_stream_finish(event.stream), 0);
    EXPECT(weever_stream_write(event.stream, "more", 4), -EPIPE);
    EXPECT(weever_aq_commit(server), 0);

    /* Half closed: what the client still sends is urgent, up to the mark. */
    EXPECT(weever_stream_set(stream, WEEVER_STREAM_CORK, 1), 0);
    EXPECT(weever_stream_write(stream, "stop!", 5), 5);
    EXPECT(weever_stream_set(stream, WEEVER_STREAM_URGENT, 0), 0);
    EXPECT(weever_stream_write(stream, "go", 2), 2);
    EXPECT(weever_stream_set(stream, WEEVER_STREAM_CORK, 0), 0);
    EXPECT(weever_aq_commit(client), 0);
    event = next(server, WEEVER_EVENT_URGENT);
    EXPECT(event.stream == accepted.stream && event.error == 5, 1);
    event = next(server, WEEVER_EVENT_OCTETS);
    EXPECT(weever_buf_len(event.buf), 7);
    EXPECT(weever_aq_buffer_free(server, event.buf), 0);

    event = next(client, WEEVER_EVENT_OCTETS);
    EXPECT(weever_stream_opaque_get(event.stream) == &ends, 1);
    EXPECT(memcmp(weever_buf_data(event.buf), "answer", 6), 0);
    EXPECT(weever_aq_state(client, &state), 0);
    EXPECT(state.streams + state.buffers, 2);
    EXPECT(weever_aq_destroy(client), -EBUSY);
    EXPECT(weever_aq_buffer_free(client, event.buf), 0);
    EXPECT(next(client, WEEVER_EVENT_FINISHED).stream == stream, 1);
    EXPECT(weever_stream_close(stream), 0);
    EXPECT(weever_aq_commit(client), 0);
    EXPECT(next(server, WEEVER_EVENT_FINISHED).stream == accepted.stream, 1);
    EXPECT(weever_stream_close(accepted.stream), 0);
}

/* With copies: several connections taken at once, more octets than there is room for, and a reset. */
static void with_copies(weever_listener *listener)
{
    enum { STREAMS = 5, OCTETS = 1000000 };
    weever_stream *streams[STREAMS], *accepted[STREAMS];
    weever_dest to = at((uint16_t)weever_listener_port(listener));
    EXPECT(weever_listener_accept(listener, accepted, 0), -EINVAL);
    EXPECT(weever_listener_accept(listener, accepted, STREAMS), 0);
    for (int i = 0; i < STREAMS; i++) {
        EXPECT(weever_stream_connect(client, &to, &streams[i]), 0);
        EXPECT(weever_stream_write(streams[i], "early", 5), 5);
    }
    for (int count = 0; count < STREAMS;) {
        int now = weever_listener_accept(listener, accepted + count, STREAMS - count);
        EXPECT(now >= 0, 1);
        count += now;
        if (now == 0)
            EXPECT(weever_aq_wait(server, 30000) >= 0, 1);
    }
    char text[16] = {0};
    /* The last first: what came for the others is kept. */
    for (int i = STREAMS; i-- > 0;) {
        read_all(server, accepted[i], text, 2);
        read_all(server, accepted[i], text + 2, 3);
        EXPECT(strcmp(text, "early"), 0);
        EXPECT(weever_stream_read(accepted[i], text, sizeof text), -EAGAIN);
    }

    char *out = malloc(OCTETS), *in = malloc(OCTETS);
    size_t sent = 0, got = 0;
    int held_up = 0;
    weever_event event;
    for (size_t i = 0; i < OCTETS; i++)
        out[i] = (char)(i % 251);
    weever_dest ends, own;
    EXPECT(weever_stream_ends(accepted[0], &ends), 0);
    int which = 0;
    for (; which < STREAMS; which++) {
        if (weever_stream_ends(streams[which], &own) == -ENOTCONN)
            (void)weever_stream_read(streams[which], text, 1);
        EXPECT(weever_stream_ends(streams[which], &own), 0);
        if (own.local.port == ends.remote.port)
            break;
    }
    /* The other side does not read: the writer is held up. */
    while (!held_up && sent < OCTETS) {
        long now = weever_stream_write(streams[which], out + sent, OCTETS - sent);
        held_up = now == -EAGAIN;
        EXPECT(held_up || now > 0, 1);
        sent += held_up ? 0 : (size_t)now;
    }
    EXPECT(held_up, 1);
    while (got < OCTETS) {
        long now = sent < OCTETS ? weever_stream_write(streams[which], out + sent, OCTETS - sent) : 0;
        if (now != -EAGAIN) {
            EXPECT(now >= 0, 1);
            sent += (size_t)now;
        }
        now = weever_stream_read(accepted[0], in + got, OCTETS - got);
        if (now == -EAGAIN) {
            EXPECT(weever_aq_wait(server, 10) >= 0, 1);
        } else {
            EXPECT(now > 0, 1);
            got += (size_t)now;
        }
        EXPECT(weever_aq_commit(server), 0);
        while (weever_aq_poll(client, &event) == WEEVER_POLL_EVENT)
            EXPECT(event.type == WEEVER_EVENT_WRITABLE || event.type == WEEVER_EVENT_CONNECTED, 1);
    }
    EXPECT(memcmp(in, out, OCTETS), 0);
    free(in);
    free(out);

    EXPECT(weever_stream_abort(streams[which]), 0);
    EXPECT(weever_aq_commit(client), 0);
    EXPECT(read_end(server, accepted[0]), -ECONNRESET);
    EXPECT(weever_stream_read(accepted[0], text, 1), -ECONNRESET);
    EXPECT(weever_stream_write(accepted[0], "x", 1), -ECONNRESET);
    EXPECT(weever_stream_close(accepted[0]), 0);
    for (int i = 0; i < STREAMS; i++)
        if (i != which)
            EXPECT(weever_stream_close(streams[i]), 0);
    EXPECT(weever_aq_commit(client), 0);
    for (int i = 1; i < STREAMS; i++) {
        EXPECT(read_end(server, accepted[i]), 0);
        EXPECT(weever_stream_read(accepted[i], text, 1), 0);
        EXPECT(weever_stream_close(accepted[i]), 0);
    }
}

static void listeners(void)
{
    weever_listener *first, *second;
    weever_endpoint any = {0, 0, {0}}, taken;
    weever_stream *stream;
    weever_dest nowhere = at(0), closed = at(9), mixed = at(9);
    EXPECT(weever_listener_open(server, NULL, 8, 0, &first), -EINVAL);
    EXPECT(weever_listener_open(server, &any, 8, 64, &first), -EINVAL);
    EXPECT(weever_listener_open(server, &any, 8, WEEVER_SPANNABLE, &first), 0);
    taken = any;
    taken.port = (uint16_t)weever_listener_port(first);
    EXPECT(weever_listener_open(client, &taken, 8, 0, &second), -EADDRINUSE);
    EXPECT(weever_listener_span(first, client, &second), 0);
    EXPECT(weever_listener_port(second), taken.port);
    EXPECT(weever_listener_close(second), 0);
    without_copies(first);
    with_copies(first);
    EXPECT(weever_listener_close(first), 0);
    EXPECT(weever_listener_open(server, &any, 8, WEEVER_V6_ONLY, &first), 0);
    EXPECT(weever_listener_span(first, client, &second), -EOPNOTSUPP);
    EXPECT(weever_listener_close(first), 0);

    EXPECT(weever_stream_connect(client, &nowhere, &stream), -EDESTADDRREQ);
    mixed.local.family = AF_INET6;
    EXPECT(weever_stream_connect(client, &mixed, &stream), -EAFNOSUPPORT);
    EXPECT(weever_stream_connect(client, &closed, &stream), 0);
    EXPECT(weever_aq_commit(client), 0);
    weever_event event = next(client, WEEVER_EVENT_ERROR);
    EXPECT(event.error, ECONNREFUSED);
    EXPECT(event.stream == stream && event.socket == NULL, 1);
    EXPECT(next(client, WEEVER_EVENT_CLOSED).stream == stream, 1);
    EXPECT(weever_stream_read(stream, &event, 1), -ECONNREFUSED);
    EXPECT(weever_stream_close(stream), 0);
    EXPECT(weever_stream_close(NULL), -EINVAL);
}

int main(void)
{
    EXPECT(weever_api_version(), WEEVER_API_VERSION);
    EXPECT(weever_aq_create(NULL, "client", &client), 0);
    EXPECT(weever_aq_create(NULL, "server", &server), 0);
    listeners();
    EXPECT(weever_aq_destroy(client), 0);
    EXPECT(weever_aq_destroy(server), 0);
    puts("all calls answered as they should");
    return 0;
}
