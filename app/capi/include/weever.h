/* weever.h - sockets on a weever stack, for C and C++.
 *
 * The manual, call by call, is docs/capi.md. In short: a queue (weever_aq) connects one thread with the
 * stack; sockets are on queues; what arrives comes out of weever_aq_poll() in buffers of the queue; what
 * is sent leaves at weever_aq_commit() or weever_aq_wait().
 *
 * Calls return 0 or a positive value on success and a negative errno on failure, unless said otherwise.
 * weever_error() has the last failure of the calling thread in words. A queue, its sockets and its
 * buffers are used by one thread at a time.
 */
#ifndef WEEVER_H
#define WEEVER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a program that was compiled before would not work any more. */
#define WEEVER_API_VERSION 2

typedef struct weever_aq weever_aq;
typedef struct weever_socket weever_socket;
typedef struct weever_listener weever_listener;
typedef struct weever_stream weever_stream;
typedef struct weever_buf weever_buf;

/* One end. family is AF_INET or AF_INET6, or 0 for "any" (and addr is not looked at); addr is in network
 * order, IPv4 in its first four bytes; port is in host order, 0 for "any". */
typedef struct weever_endpoint {
    uint16_t family;
    uint16_t port;
    uint8_t addr[16];
} weever_endpoint;

/* Where a socket is, and whom it talks to. Zeroes are wildcards. */
typedef struct weever_dest {
    weever_endpoint local;
    weever_endpoint remote;
} weever_dest;

/* What is known of a received datagram. */
typedef struct weever_info {
    weever_endpoint remote;
    weever_endpoint local;
    uint64_t timestamp; /* nanoseconds of CLOCK_MONOTONIC */
    uint32_t interface;
    uint8_t hops;
    uint8_t traffic_class;
    uint8_t is_group;
    uint8_t reserved;
} weever_info;

/* What weever_aq_poll() found. Pointers that an event does not concern are NULL. */
typedef struct weever_event {
    uint32_t type;  /* WEEVER_EVENT_… */
    int32_t error;  /* for WEEVER_EVENT_ERROR: an errno; for _URGENT: see there */
    weever_socket *socket;
    weever_buf *buf; /* for WEEVER_EVENT_PACKET and _OCTETS: yours, until it is freed or sent */
    weever_listener *listener; /* for WEEVER_EVENT_ACCEPTED */
    weever_stream *stream;     /* of all events of streams; an accepted one is yours to close */
} weever_event;

enum {
    WEEVER_EVENT_PACKET = 1,    /* a datagram is in buf */
    WEEVER_EVENT_ERROR = 2,     /* of the socket, or the stream has failed */
    WEEVER_EVENT_CLOSED = 3,    /* the stack has closed the socket, or the stream is over */
    WEEVER_EVENT_ACCEPTED = 4,  /* the listener has a new stream */
    WEEVER_EVENT_CONNECTED = 5, /* a stream that was asked for is connected */
    WEEVER_EVENT_OCTETS = 6,    /* octets of the stream are in buf */
    WEEVER_EVENT_WRITABLE = 7,  /* the stream had no room and has some again */
    WEEVER_EVENT_FINISHED = 8,  /* the peer of the stream sends no more */
    WEEVER_EVENT_URGENT = 9     /* the peer has announced urgent octets; the last is the error-th of those to come */
};

/* What weever_aq_poll() returns, besides a negative errno. */
enum {
    WEEVER_POLL_NOTHING = 0, /* nothing happened */
    WEEVER_POLL_EVENT = 1,   /* the event is filled in */
    WEEVER_POLL_WORKED = 2,  /* internal work was done; polling again may have an event at once */
    WEEVER_POLL_ABORT = 3    /* the stack has ended: weever_aq_reconnect(), or close and destroy */
};

/* Options of weever_socket_bind_with() and weever_listener_open(). */
enum {
    WEEVER_SPANNABLE = 1, /* it may be spanned over other queues */
    WEEVER_V6_ONLY = 2    /* "any" address means IPv6 only */
};

/* Options of weever_stream_set() and weever_listener_set(), with their values. */
enum {
    WEEVER_STREAM_NODELAY = 1,     /* 1: small segments are sent at once */
    WEEVER_STREAM_CORK = 2,        /* 1: segments that are not full are held back */
    WEEVER_STREAM_KEEPALIVE = 3,   /* seconds of idleness before the first probe; 0: none */
    WEEVER_STREAM_USER_TIMEOUT = 4, /* milliseconds without an acknowledgement; 0: the stack's default */
    WEEVER_STREAM_RESET_ON_CLOSE = 5, /* 1: closing resets the stream */
    WEEVER_STREAM_KEEPALIVE_INTERVAL = 6, /* seconds between probes */
    WEEVER_STREAM_KEEPALIVE_PROBES = 7, /* unanswered ones before the connection is given up */
    WEEVER_STREAM_QUICKACK = 8,    /* 1: the next segments are acknowledged at once */
    WEEVER_STREAM_MAXSEG = 9,      /* octets of the longest segment; 0: as the path allows */
    WEEVER_STREAM_CONGESTION = 10, /* 0: cubic, 1: reno, 2: dctcp */
    WEEVER_STREAM_RECEIVE_BUFFER = 11, /* octets that are received ahead of the program */
    WEEVER_STREAM_SEND_BUFFER = 12, /* octets that may be written and not acknowledged */
    WEEVER_STREAM_DEFER_ACCEPT = 13, /* of a listener: seconds that a stream waits for octets */
    WEEVER_STREAM_TRAFFIC_CLASS = 15, /* its upper six bits: the DSCP */
    WEEVER_STREAM_HOPS = 16,       /* time to live or hop limit; 0: the stack's default */
    WEEVER_STREAM_URGENT = 17,     /* 0: what was written so far is urgent, up to its last octet (MSG_OOB) */
    WEEVER_STREAM_FAST_OPEN = 14   /* 1, right after connecting: the SYN carries what is written next;
                                      of a listener: the most connections at a time whose SYN carried
                                      octets and whose handshake has not ended */
};

/* A copy of what a queue has. */
typedef struct weever_state {
    uint32_t sockets;     /* open on this queue */
    uint32_t listeners;   /* whose handles are not closed */
    uint32_t streams;     /* likewise */
    uint32_t workers;     /* of the stack, each with a channel */
    uint32_t frames;      /* of all channels */
    uint32_t frames_free; /* to send from */
    uint32_t frames_lent; /* to the stack, to receive into */
    uint32_t buffers;     /* in the program's hands */
    uint32_t zero_copy;   /* 1: the frames are those of packets */
} weever_state;

/* Queues */
int weever_aq_create(const char *stack, const char *slot, weever_aq **queue);
int weever_aq_destroy(weever_aq *queue);
int weever_aq_poll(weever_aq *queue, weever_event *event);
int weever_aq_commit(weever_aq *queue);
int weever_aq_wait(weever_aq *queue, int timeout_ms);
int weever_aq_fd(weever_aq *queue);
int weever_aq_arm(weever_aq *queue);
int weever_aq_acknowledge(weever_aq *queue);
int weever_aq_reconnect(weever_aq *queue);
int weever_aq_state(weever_aq *queue, weever_state *state);
int weever_aq_plan(weever_aq *queue, uint32_t *wait_ms);
int weever_aq_buffer_alloc(weever_aq *queue, weever_buf **buf);
int weever_aq_buffer_free(weever_aq *queue, weever_buf *buf);

/* Buffers */
void *weever_buf_data(weever_buf *buf);
size_t weever_buf_len(const weever_buf *buf);
size_t weever_buf_capacity(weever_buf *buf);
int weever_buf_set_len(weever_buf *buf, size_t len);
size_t weever_buf_copy(const weever_buf *buf, void *to, size_t len);
int weever_buf_info(const weever_buf *buf, weever_info *info);

/* Sockets */
int weever_socket_create(weever_aq *queue, weever_socket **socket);
int weever_socket_bind(weever_socket *socket, const weever_dest *dest);
int weever_socket_bind_with(weever_socket *socket, const weever_dest *dest, uint32_t options);
int weever_socket_connect(weever_socket *socket, const weever_endpoint *remote);
int weever_socket_span(weever_socket *original, weever_aq *queue, weever_socket *socket);
int weever_socket_close(weever_socket *socket);
int weever_socket_send(weever_socket *socket, weever_buf *buf, const weever_dest *dest);
int weever_socket_local_port(const weever_socket *socket);
long weever_socket_read(weever_socket *socket, void *to, size_t len, weever_endpoint *remote);
long weever_socket_write(weever_socket *socket, const void *from, size_t len,
                         const weever_endpoint *remote);
int weever_socket_register_flow(weever_socket *socket, const weever_endpoint *peer, uint64_t rate);
int weever_socket_unregister_flow(weever_socket *socket, const weever_endpoint *peer);
void *weever_socket_opaque_get(const weever_socket *socket);
void weever_socket_opaque_set(weever_socket *socket, void *opaque);

/* Listeners of TCP */
int weever_listener_open(weever_aq *queue, const weever_endpoint *local, uint32_t backlog,
                         uint32_t options, weever_listener **listener);
int weever_listener_span(weever_listener *original, weever_aq *queue, weever_listener **listener);
int weever_listener_accept(weever_listener *listener, weever_stream **streams, int most);
int weever_listener_port(const weever_listener *listener);
int weever_listener_set(weever_listener *listener, uint32_t option, uint32_t value);
int weever_listener_register_flow(weever_listener *listener, const weever_endpoint *peer,
                                  uint64_t rate);
int weever_listener_unregister_flow(weever_listener *listener, const weever_endpoint *peer);
int weever_listener_close(weever_listener *listener);

/* Streams of TCP */
int weever_stream_connect(weever_aq *queue, const weever_dest *ends, weever_stream **stream);
int weever_stream_ends(const weever_stream *stream, weever_dest *ends);
long weever_stream_read(weever_stream *stream, void *to, size_t len);
long weever_stream_write(weever_stream *stream, const void *from, size_t len);
int weever_stream_buffer_alloc(weever_stream *stream, weever_buf **buf);
int weever_stream_send(weever_stream *stream, weever_buf *buf);
int weever_stream_finish(weever_stream *stream);
int weever_stream_set(weever_stream *stream, uint32_t option, uint32_t value);
long weever_stream_info(weever_stream *stream, void *to, size_t len);
int weever_stream_close(weever_stream *stream);
int weever_stream_abort(weever_stream *stream);
void *weever_stream_opaque_get(const weever_stream *stream);
void weever_stream_opaque_set(weever_stream *stream, void *opaque);

/* Failures */
const char *weever_error(void);
int weever_api_version(void);

#ifdef __cplusplus
}
#endif

#endif
