/* Every call of weever.h, against a stack whose only neighbour sends every datagram back. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "expect.h"
#include "weever.h"

static weever_endpoint peer(uint16_t port)
{
    weever_endpoint end = {AF_INET, port, {10, 0, 0, 2}};
    return end;
}

/* The next event of a queue; the neighbour is quick, but the machine may be busy. */
static weever_event next(weever_aq *queue)
{
    weever_event event;
    for (;;) {
        int found = weever_aq_poll(queue, &event);
        if (found == WEEVER_POLL_EVENT)
            return event;
        if (found == WEEVER_POLL_NOTHING)
            EXPECT(weever_aq_wait(queue, 30000), 1);
        else
            EXPECT(found, WEEVER_POLL_WORKED);
    }
}

static weever_buf *filled(weever_aq *queue, const char *text)
{
    weever_buf *buf;
    EXPECT(weever_aq_buffer_alloc(queue, &buf), 0);
    EXPECT(weever_buf_capacity(buf) > 1000, 1);
    memcpy(weever_buf_data(buf), text, strlen(text));
    EXPECT(weever_buf_set_len(buf, strlen(text)), 0);
    EXPECT(weever_buf_set_len(buf, 1 << 20), -EMSGSIZE);
    return buf;
}

/* A stack of its own gives two plans, and the next one after a minute. */
static void flows_and_plans(void)
{
    weever_aq *queue;
    weever_socket *socket;
    weever_listener *listener;
    weever_dest at = {{AF_INET, 7100, {0}}, {0, 0, {0}}};
    weever_endpoint none = {AF_INET, 5, {0}};
    weever_endpoint any_port = peer(0), client = peer(9);
    uint32_t wait = 0;
    EXPECT(weever_aq_create(NULL, NULL, &queue), 0);
    EXPECT(weever_socket_create(queue, &socket), 0);
    EXPECT(weever_socket_register_flow(socket, NULL, 10), -EDESTADDRREQ);
    EXPECT(weever_socket_bind(socket, &at), 0);
    EXPECT(weever_socket_register_flow(socket, NULL, 10), 0);
    EXPECT(weever_socket_register_flow(socket, &any_port, 0), 0);
    EXPECT(weever_socket_register_flow(socket, &none, 0), -EINVAL);
    EXPECT(weever_socket_unregister_flow(socket, NULL), 0);
    EXPECT(weever_socket_unregister_flow(socket, NULL), -EINVAL);
    EXPECT(weever_listener_open(queue, &at.local, 8, 0, &listener), 0);
    EXPECT(weever_listener_register_flow(listener, &client, 1000), 0);
    EXPECT(weever_listener_unregister_flow(listener, &client), 0);
    EXPECT(weever_listener_unregister_flow(listener, &client), -EINVAL);
    if (strncmp(getenv("WEEVER_APPS"), "library:", 8) == 0) {
        /* A stack inside the program has no policy. */
        EXPECT(weever_aq_plan(queue, &wait), -EOPNOTSUPP);
    } else {
        EXPECT(weever_aq_plan(queue, &wait), 0);
        EXPECT(weever_aq_plan(queue, NULL), 0);
        EXPECT(wait, 0);
        EXPECT(weever_aq_plan(queue, &wait), -EAGAIN);
        EXPECT(wait > 1000 && wait <= 60000, 1);
        EXPECT(weever_aq_plan(queue, NULL), -EAGAIN);
    }
    EXPECT(weever_listener_close(listener), 0);
    EXPECT(weever_socket_close(socket), 0);
    EXPECT(weever_aq_destroy(queue), 0);
}

static void queues_and_slots(void)
{
    weever_aq *queue, *other;
    weever_state state;
    EXPECT(weever_aq_create("/nowhere", NULL, &queue), -ECONNREFUSED);
    EXPECT(strstr(weever_error(), "/nowhere") != NULL, 1);
    EXPECT(weever_aq_create(NULL, "slot", NULL), -EINVAL);
    EXPECT(weever_aq_create(NULL, "slot", &queue), 0);
    EXPECT(weever_aq_create(NULL, "slot", &other), -EBUSY);
    EXPECT(strstr(weever_error(), "occupied") != NULL, 1);
    EXPECT(weever_aq_create(NULL, "another slot", &other), 0);
    EXPECT(weever_aq_state(other, &state), 0);
    EXPECT(state.frames_free + state.frames_lent, state.frames);
    EXPECT(state.sockets + state.buffers, 0);
    EXPECT(weever_aq_destroy(other), 0);
    EXPECT(weever_aq_destroy(queue), 0);
    EXPECT(weever_aq_destroy(NULL), -EINVAL);
}

static void buffers_go_and_come(weever_aq *queue)
{
    weever_socket *socket, *second;
    weever_dest dest = {{0, 5000, {0}}, {0, 0, {0}}};
    EXPECT(weever_socket_create(queue, &socket), 0);
    EXPECT(weever_socket_send(socket, filled(queue, "too early"), NULL), -EDESTADDRREQ);
    EXPECT(weever_socket_bind(socket, &dest), 0);
    EXPECT(weever_socket_bind(socket, &dest), -EINVAL);
    EXPECT(weever_socket_local_port(socket), 5000);
    EXPECT(weever_socket_create(queue, &second), 0);
    EXPECT(weever_socket_bind(second, &dest), -EADDRINUSE);
    EXPECT(weever_socket_bind_with(second, &dest, 64), -EINVAL);
    EXPECT(weever_socket_close(second), 0);
    weever_socket_opaque_set(socket, &dest);

    EXPECT(weever_socket_send(socket, filled(queue, "nowhere"), NULL), -EDESTADDRREQ);
    dest.remote = peer(9);
    EXPECT(weever_socket_send(socket, filled(queue, "once"), &dest), 0);
    weever_event event = next(queue);
    EXPECT(event.type, WEEVER_EVENT_PACKET);
    EXPECT(weever_socket_opaque_get(event.socket) == &dest, 1);
    weever_info info;
    EXPECT(weever_buf_info(event.buf, &info), 0);
    EXPECT(memcmp(&info.remote, &dest.remote, sizeof info.remote), 0);
    EXPECT(info.local.port, 5000);
    char text[16] = {0};
    EXPECT(weever_buf_copy(event.buf, text, sizeof text), 4);
    EXPECT(strcmp(text, "once"), 0);

    /* Back in the same frame, with another text in it. */
    memcpy(weever_buf_data(event.buf), "twice", 5);
    EXPECT(weever_buf_set_len(event.buf, 5), 0);
    weever_state state;
    EXPECT(weever_aq_state(queue, &state), 0);
    EXPECT(state.buffers, 1);
    EXPECT(weever_aq_destroy(queue), -EBUSY);
    EXPECT(weever_socket_send(socket, event.buf, NULL), 0);
    event = next(queue);
    EXPECT(weever_buf_len(event.buf), 5);
    EXPECT(memcmp(weever_buf_data(event.buf), "twice", 5), 0);
    EXPECT(weever_aq_buffer_free(queue, event.buf), 0);
    EXPECT(weever_socket_close(socket), 0);
}

static void copies_and_notification(weever_aq *queue)
{
    weever_socket *one, *two;
    weever_endpoint remote = peer(7), from;
    char text[5000];
    memset(text, 'x', sizeof text);
    EXPECT(weever_socket_create(queue, &one), 0);
    EXPECT(weever_socket_create(queue, &two), 0);
    EXPECT(weever_socket_connect(one, &remote), 0);
    EXPECT(weever_socket_connect(two, &remote), 0);
    EXPECT(weever_socket_read(one, text, sizeof text, NULL), -EAGAIN);
    /* Frames that were sent before may come back first. */
    while (weever_aq_arm(queue) == 0)
        EXPECT(weever_aq_commit(queue), 0);
    EXPECT(weever_socket_write(two, "for two", 7, NULL), 7);
    EXPECT(weever_socket_write(one, text, sizeof text, NULL), sizeof text);
    struct pollfd fd = {weever_aq_fd(queue), POLLIN, 0};
    EXPECT(poll(&fd, 1, 30000), 1);
    EXPECT(weever_aq_acknowledge(queue), 0);
    long length;
    while ((length = weever_socket_read(one, text, 10, &from)) == -EAGAIN)
        EXPECT(weever_aq_wait(queue, 30000) >= 0, 1);
    EXPECT(length, sizeof text);
    EXPECT(memcmp(&from, &remote, sizeof from), 0);
    while ((length = weever_socket_read(two, text, sizeof text, NULL)) == -EAGAIN)
        EXPECT(weever_aq_wait(queue, 30000) >= 0, 1);
    EXPECT(length, 7);
    EXPECT(memcmp(text, "for two", 7), 0);
    EXPECT(weever_aq_wait(queue, 1), 0);
    EXPECT(weever_aq_commit(queue), 0);
    EXPECT(weever_socket_close(one), 0);
    EXPECT(weever_socket_close(two), 0);
}

static void spans(weever_aq *queue)
{
    weever_aq *other;
    weever_socket *first, *second, *plain;
    weever_dest dest = {{AF_INET, 0, {0}}, {0, 0, {0}}};
    EXPECT(weever_aq_create(NULL, NULL, &other), 0);
    EXPECT(weever_socket_create(queue, &first), 0);
    EXPECT(weever_socket_create(queue, &plain), 0);
    EXPECT(weever_socket_create(other, &second), 0);
    EXPECT(weever_socket_bind(plain, &dest), 0);
    EXPECT(weever_socket_span(plain, other, second), -EOPNOTSUPP);
    EXPECT(weever_socket_close(plain), 0);
    EXPECT(weever_socket_bind_with(first, &dest, WEEVER_SPANNABLE), 0);
    EXPECT(weever_socket_span(first, queue, second), -EINVAL);
    EXPECT(weever_socket_span(first, other, second), 0);
    EXPECT(weever_socket_local_port(second), weever_socket_local_port(first));
    /* One handle is closed, the socket is open in the other. */
    EXPECT(weever_socket_close(first), 0);
    EXPECT(weever_aq_destroy(other), -EBUSY);
    dest.remote = peer(9);
    EXPECT(weever_socket_send(second, filled(other, "spanned"), &dest), 0);
    weever_event event = next(other);
    EXPECT(event.socket == second, 1);
    EXPECT(weever_aq_buffer_free(queue, event.buf), -EINVAL);
    EXPECT(weever_aq_buffer_free(other, event.buf), 0);
    EXPECT(weever_socket_close(second), 0);
    EXPECT(weever_aq_reconnect(other), 0);
    EXPECT(weever_aq_destroy(other), 0);
}

int main(void)
{
    weever_aq *queue;
    EXPECT(weever_api_version(), WEEVER_API_VERSION);
    queues_and_slots();
    flows_and_plans();
    EXPECT(weever_aq_create(NULL, NULL, &queue), 0);
    buffers_go_and_come(queue);
    copies_and_notification(queue);
    spans(queue);
    EXPECT(weever_aq_destroy(queue), 0);
    puts("all calls answered as they should");
    return 0;
}
