/* A web server of one page over TCP: HTTP/1.1, with requests that follow each other on a connection.
 *
 *   weever up --dev eth0 --addr 192.0.2.10/24 --apps /run/weever/apps.sock
 *   ./web 80 "hello"
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weever.h"

/* A connection: how much of the end of a request has come, and the part of the answers that has not gone. */
struct connection {
    int seen;
    int ends;
    size_t waiting;
    size_t room;
    char *answers;
};

static void check(long result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "web: %s: %s\n", what, weever_error());
        exit(1);
    }
}

static void forget(struct connection *connection)
{
    if (connection)
        free(connection->answers);
    free(connection);
}

static void answer(struct connection *connection, const char *answer, size_t len)
{
    if (connection->waiting + len > connection->room) {
        connection->room = 2 * (connection->waiting + len);
        connection->answers = realloc(connection->answers, connection->room);
        if (!connection->answers)
            exit(1);
    }
    memcpy(connection->answers + connection->waiting, answer, len);
    connection->waiting += len;
}

/* Each empty line ends a request; what was asked for does not matter here. */
static void take(struct connection *connection, const char *octets, size_t len, const char *page,
                 size_t page_len)
{
    static const char end[] = "\r\n\r\n";
    for (size_t i = 0; i < len; i++) {
        connection->seen = octets[i] == end[connection->seen] ? connection->seen + 1 : octets[i] == '\r';
        if (connection->seen == 4) {
            connection->seen = 0;
            answer(connection, page, page_len);
        }
    }
}

/* Writes as much as there is room for; WEEVER_EVENT_WRITABLE follows if that is not all. */
static void go_on(weever_stream *stream, struct connection *connection)
{
    size_t done = 0;
    while (done < connection->waiting) {
        long written = weever_stream_write(stream, connection->answers + done, connection->waiting - done);
        if (written <= 0)
            break;
        done += (size_t)written;
    }
    connection->waiting -= done;
    memmove(connection->answers, connection->answers + done, connection->waiting);
    if (connection->ends && connection->waiting == 0) {
        forget(connection);
        check(weever_stream_close(stream), "close");
    }
}

static void handle(weever_aq *queue, const weever_event *event, const char *page, size_t page_len)
{
    struct connection *connection = event->stream ? weever_stream_opaque_get(event->stream) : NULL;
    switch (event->type) {
    case WEEVER_EVENT_ACCEPTED:
        connection = calloc(1, sizeof *connection);
        if (!connection)
            exit(1);
        weever_stream_opaque_set(event->stream, connection);
        break;
    case WEEVER_EVENT_OCTETS:
        take(connection, weever_buf_data(event->buf), weever_buf_len(event->buf), page, page_len);
        check(weever_aq_buffer_free(queue, event->buf), "free");
        go_on(event->stream, connection);
        break;
    case WEEVER_EVENT_WRITABLE:
        go_on(event->stream, connection);
        break;
    case WEEVER_EVENT_FINISHED:
        connection->ends = 1;
        go_on(event->stream, connection);
        break;
    case WEEVER_EVENT_CLOSED:
        if (event->stream) {
            forget(connection);
            check(weever_stream_close(event->stream), "close");
        }
        break;
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "web: PORT TEXT\n");
        return 1;
    }
    size_t room = strlen(argv[2]) + 128;
    char *page = malloc(room);
    if (!page)
        return 1;
    size_t page_len = (size_t)snprintf(page, room, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
                                       strlen(argv[2]), argv[2]);

    weever_aq *queue;
    weever_listener *listener;
    weever_endpoint local = {0, (uint16_t)atoi(argv[1]), {0}};
    check(weever_aq_create(NULL, NULL, &queue), "queue");
    check(weever_listener_open(queue, &local, 128, 0, &listener), "listen");
    printf("serving on port %d\n", weever_listener_port(listener));
    fflush(stdout);

    weever_event event;
    for (;;) {
        int found = weever_aq_poll(queue, &event);
        check(found, "poll");
        if (found == WEEVER_POLL_ABORT) {
            fprintf(stderr, "web: the stack has ended\n");
            return 1;
        }
        if (found == WEEVER_POLL_NOTHING)
            /* Hands over what was answered, and sleeps until there is more. */
            check(weever_aq_wait(queue, -1), "wait");
        else if (found == WEEVER_POLL_EVENT)
            handle(queue, &event, page, page_len);
    }
}
