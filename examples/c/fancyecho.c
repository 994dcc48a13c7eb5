/* A UDP echo server with a queue for each of its threads, which share one socket by spanning it.
 *
 *   weever up --dev eth0 --addr 192.0.2.10/24 --apps /run/weever/apps.sock
 *   ./fancyecho 7777 2
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "weever.h"

#define MAX_THREADS 64

static void check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "fancyecho: %s: %s\n", what, weever_error());
        exit(1);
    }
}

/* One thread: all there is to do. */
static void *serve(void *argument)
{
    weever_aq *queue = argument;
    weever_event event;
    for (;;) {
        int found = weever_aq_poll(queue, &event);
        check(found, "poll");
        if (found == WEEVER_POLL_ABORT) {
            fprintf(stderr, "fancyecho: the stack has ended\n");
            exit(1);
        }
        if (found == WEEVER_POLL_NOTHING) {
            /* Hands over what was answered, and sleeps until there is more. */
            check(weever_aq_wait(queue, -1), "wait");
        } else if (found == WEEVER_POLL_EVENT && event.type == WEEVER_EVENT_PACKET) {
            /* Back to its sender, in the frame in which it came. A full ring costs this one. */
            (void)weever_socket_send(event.socket, event.buf, NULL);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    weever_dest dest = {{0, 7777, {0}}, {0, 0, {0}}};
    int threads = argc > 2 ? atoi(argv[2]) : 1;
    if (argc > 1)
        dest.local.port = (uint16_t)atoi(argv[1]);
    if (threads < 1 || threads > MAX_THREADS) {
        fprintf(stderr, "fancyecho: 1 to %d threads\n", MAX_THREADS);
        return 1;
    }

    weever_aq *queues[MAX_THREADS];
    weever_socket *sockets[MAX_THREADS];
    for (int i = 0; i < threads; i++) {
        check(weever_aq_create(NULL, NULL, &queues[i]), "queue");
        check(weever_socket_create(queues[i], &sockets[i]), "socket");
        if (i == 0)
            check(weever_socket_bind_with(sockets[0], &dest, WEEVER_SPANNABLE), "bind");
        else
            check(weever_socket_span(sockets[0], queues[i], sockets[i]), "span");
    }
    printf("echoing on port %d, %d threads\n", weever_socket_local_port(sockets[0]), threads);
    fflush(stdout);

    pthread_t others[MAX_THREADS];
    for (int i = 1; i < threads; i++)
        if (pthread_create(&others[i], NULL, serve, queues[i]) != 0)
            return 1;
    serve(queues[0]);
    return 0;
}
