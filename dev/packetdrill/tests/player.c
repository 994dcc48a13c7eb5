/* Plays what packetdrill plays: loads the library, and is application, network and clock to it.
 * The table is written down here once more, so that a field out of its place fails. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

struct table {
	void *user;
	void (*free)(void *);
	int (*socket)(void *, int, int, int);
	int (*bind)(void *, int, const struct sockaddr *, socklen_t);
	int (*listen)(void *, int, int);
	int (*accept)(void *, int, struct sockaddr *, socklen_t *);
	int (*connect)(void *, int, const struct sockaddr *, socklen_t);
	ssize_t (*read)(void *, int, void *, size_t);
	ssize_t (*readv)(void *, int, const struct iovec *, int);
	ssize_t (*recv)(void *, int, void *, size_t, int);
	ssize_t (*recvfrom)(void *, int, void *, size_t, int, struct sockaddr *, socklen_t *);
	ssize_t (*recvmsg)(void *, int, struct msghdr *, int);
	ssize_t (*write)(void *, int, const void *, size_t);
	ssize_t (*writev)(void *, int, const struct iovec *, int);
	ssize_t (*send)(void *, int, const void *, size_t, int);
	ssize_t (*sendto)(void *, int, const void *, size_t, int, const struct sockaddr *, socklen_t);
	ssize_t (*sendmsg)(void *, int, const struct msghdr *, int);
	int (*fcntl)(void *, int, int, ...);
	int (*ioctl)(void *, int, unsigned long, ...);
	int (*close)(void *, int);
	int (*shutdown)(void *, int, int);
	int (*getsockopt)(void *, int, int, int, void *, socklen_t *);
	int (*setsockopt)(void *, int, int, int, const void *, socklen_t);
	int (*poll)(void *, struct pollfd *, nfds_t, int);
	int (*netdev_send)(void *, const void *, size_t);
	int (*netdev_receive)(void *, void *, size_t *, long long *);
	int (*usleep)(void *, useconds_t);
	int (*gettimeofday)(void *, struct timeval *, struct timezone *);
	int (*epoll_create)(void *, int);
	int (*epoll_ctl)(void *, int, int, int, struct epoll_event *);
	int (*epoll_wait)(void *, int, struct epoll_event *, int, int);
	int (*pipe)(void *, int[2]);
	int (*splice)(void *, int, loff_t *, int, loff_t *, size_t, unsigned);
};

static struct table t;
static int listener;

#define CHECK(truth) do { if (!(truth)) { fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #truth, errno); exit(1); } } while (0)

enum { FIN = 1, SYN = 2, RST = 4, PSH = 8, ACK = 16 };

/* A segment as it was received. */
struct seen { unsigned seq, ack, len; int flags; unsigned short port; long long at; };

static unsigned sum(const unsigned char *at, int len, unsigned sum)
{
	for (int i = 0; i < len; i++)
		sum += i & 1 ? at[i] : at[i] << 8;
	return sum;
}

static unsigned short folded(unsigned sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static void put(unsigned char *at, unsigned long value, int len)
{
	while (len--)
		*at++ = value >> (8 * len);
}

static unsigned get(const unsigned char *at, int len)
{
	unsigned value = 0;
	while (len--)
		value = value << 8 | *at++;
	return value;
}

static void inject(unsigned short from, unsigned short to, int flags, unsigned seq, unsigned ack, const char *text)
{
	unsigned char packet[1500] = { 0x45 };
	unsigned char *ip = packet, *tcp = packet + 20;
	int len = strlen(text);
	put(ip + 2, 40 + len, 2);
	ip[8] = 64, ip[9] = 6;
	memcpy(ip + 12, (unsigned char[]){ 192, 0, 2, 1, 192, 168, 0, 1 }, 8);
	put(ip + 10, folded(sum(ip, 20, 0)), 2);
	put(tcp, from, 2), put(tcp + 2, to, 2);
	put(tcp + 4, seq, 4), put(tcp + 8, ack, 4);
	tcp[12] = 0x50, tcp[13] = flags;
	put(tcp + 14, 32792, 2);
	memcpy(tcp + 20, text, len);
	put(tcp + 16, folded(sum(tcp, 20 + len, sum(ip + 12, 8, 6 + 20 + len))), 2);
	CHECK(t.netdev_send(t.user, packet, 40 + len) == 0);
}

static struct seen departed(void)
{
	unsigned char packet[1500];
	size_t len = sizeof packet;
	struct seen seen = { 0 };
	CHECK(t.netdev_receive(t.user, packet, &len, &seen.at) == 0);
	CHECK(len >= 40 && packet[0] == 0x45 && folded(sum(packet, 20, 0)) == 0);
	unsigned char *tcp = packet + 20;
	CHECK(folded(sum(tcp, len - 20, sum(packet + 12, 8, 6 + len - 20))) == 0);
	seen.port = get(tcp, 2);
	seen.seq = get(tcp + 4, 4), seen.ack = get(tcp + 8, 4), seen.flags = tcp[13];
	seen.len = len - 20 - (tcp[12] >> 4) * 4;
	return seen;
}

static long long now(void)
{
	struct timeval time;
	CHECK(t.gettimeofday(t.user, &time, NULL) == 0);
	return time.tv_sec * 1000000LL + time.tv_usec;
}

static volatile int waiter;

/* packetdrill looks in /proc whether the other thread sleeps. */
static void await_sleep(void)
{
	char path[64], text[256], state = 0;
	while (!waiter)
		usleep(100);
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", waiter);
	for (int i = 0; i < 20000 && state != 'S'; i++) {
		FILE *file = fopen(path, "r");
		CHECK(file && fgets(text, sizeof text, file));
		fclose(file);
		state = *(strrchr(text, ')') + 2);
		usleep(100);
	}
	CHECK(state == 'S');
}

static void *accepting(void *unused)
{
	struct sockaddr_in peer;
	socklen_t len = sizeof peer;
	(void)unused;
	waiter = syscall(SYS_gettid);
	long fd = t.accept(t.user, listener, (void *)&peer, &len);
	CHECK(len == sizeof peer && peer.sin_port == htons(5000) && peer.sin_addr.s_addr == inet_addr("192.0.2.1"));
	return (void *)fd;
}

static long failure;

static void *reading(void *fd)
{
	char octet;
	waiter = syscall(SYS_gettid);
	long got = t.read(t.user, (long)fd, &octet, 1);
	failure = errno;
	return (void *)got;
}

static long in_thread(void *(*work)(void *), long argument, void (*meanwhile)(void))
{
	pthread_t thread;
	void *result;
	waiter = 0;
	CHECK(pthread_create(&thread, NULL, work, (void *)argument) == 0);
	await_sleep();
	meanwhile();
	CHECK(pthread_join(thread, &result) == 0);
	return (long)result;
}

static unsigned isn;

static void shake_hands(void)
{
	inject(5000, 8080, SYN, 100, 0, "");
	struct seen answer = departed();
	CHECK(answer.flags == (SYN | ACK) && answer.ack == 101);
	isn = answer.seq;
	inject(5000, 8080, ACK, 101, isn + 1, "");
}

static void reset(void)
{
	inject(5000, 8080, RST, 106, 0, "");
}

static void serve(void)
{
	struct sockaddr_in local = { .sin_family = AF_INET, .sin_port = htons(8080) };
	char text[16] = "";
	int on = 1, error = 0;
	socklen_t len = sizeof error;
	listener = t.socket(t.user, AF_INET, SOCK_STREAM, IPPROTO_TCP);
	CHECK(listener >= 0);
	CHECK(t.setsockopt(t.user, listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
	CHECK(t.bind(t.user, listener, (void *)&local, sizeof local) == 0);
	CHECK(t.listen(t.user, listener, 1) == 0);
	int fd = in_thread(accepting, 0, shake_hands);
	CHECK(fd > listener);

	CHECK(t.setsockopt(t.user, fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);

	/* A write leaves at once; without an acknowledgement it leaves again, later. */
	char block[1000] = { 0 };
	long long began = now();
	CHECK(t.write(t.user, fd, block, sizeof block) == 1000);
	struct seen first = departed(), again = departed();
	/* Without options a segment has 536 octets at the most (RFC 9293, 3.7.1). */
	CHECK(first.seq == isn + 1 && first.len == 536 && first.at <= began + 1000);
	CHECK(again.seq == isn + 1 + 536 && again.len == 464);
	again = departed();
	CHECK(again.len > 0 && again.at > first.at + 1000 && now() >= again.at);
	inject(5000, 8080, ACK, 101, isn + 1001, "");

	/* What arrives is read, by an edge of epoll, and acknowledged. */
	int poller = t.epoll_create(t.user, 1);
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u64 = 77 };
	CHECK(t.epoll_ctl(t.user, poller, EPOLL_CTL_ADD, fd, &event) == 0);
	CHECK(t.epoll_wait(t.user, poller, &event, 1, 0) == 0);
	inject(5000, 8080, PSH | ACK, 101, isn + 1001, "hello");
	CHECK(t.epoll_wait(t.user, poller, &event, 1, 0) == 1 && event.data.u64 == 77 && event.events == EPOLLIN);
	CHECK(t.epoll_wait(t.user, poller, &event, 1, 0) == 0);
	struct pollfd polled = { .fd = fd, .events = POLLIN | POLLOUT };
	CHECK(t.poll(t.user, &polled, 1, -1) == 1 && polled.revents == (POLLIN | POLLOUT));
	int waiting = 0;
	CHECK(t.ioctl(t.user, fd, 0x541bUL /* FIONREAD */, &waiting) == 0 && waiting == 5);
	struct iovec pieces[2] = { { text, 2 }, { text + 2, 14 } };
	CHECK(t.readv(t.user, fd, pieces, 2) == 5 && !strcmp(text, "hello"));
	CHECK(departed().ack == 106);
	CHECK(t.fcntl(t.user, fd, F_SETFL, O_RDWR | O_NONBLOCK) == 0);
	CHECK(t.fcntl(t.user, fd, F_GETFL, 0) == (O_RDWR | O_NONBLOCK));
	CHECK(t.recv(t.user, fd, text, 1, 0) == -1 && errno == EAGAIN);
	struct tcp_info info;
	len = sizeof info;
	CHECK(t.getsockopt(t.user, fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0);
	CHECK(info.tcpi_state == TCP_ESTABLISHED && info.tcpi_snd_mss == 536 && info.tcpi_unacked == 0);

	/* A blocked read ends with the connection, which says why once. */
	CHECK(t.fcntl(t.user, fd, F_SETFL, O_RDWR) == 0);
	CHECK(in_thread(reading, fd, reset) == -1 && failure == ECONNRESET);
	len = sizeof error;
	CHECK(t.getsockopt(t.user, fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0);
	CHECK(t.write(t.user, fd, "x", 1) == -1 && errno == EPIPE);
	CHECK(t.close(t.user, fd) == 0 && t.close(t.user, fd) == -1 && errno == EBADF);
	CHECK(t.close(t.user, listener) == 0);
}

static void ask(void)
{
	struct sockaddr_in peer = { .sin_family = AF_INET, .sin_port = htons(80), .sin_addr.s_addr = inet_addr("192.0.2.1") };
	char text[4];
	int fd = t.socket(t.user, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	CHECK(t.connect(t.user, fd, (void *)&peer, sizeof peer) == -1 && errno == EINPROGRESS);
	struct seen syn = departed();
	CHECK(syn.flags == SYN);
	/* A second one, a second later. */
	CHECK(departed().at - syn.at >= 900000);
	inject(80, syn.port, SYN | ACK, 500, syn.seq + 1, "");
	CHECK(departed().flags == ACK);
	CHECK(t.connect(t.user, fd, (void *)&peer, sizeof peer) == -1 && errno == EISCONN);
	inject(80, syn.port, FIN | ACK, 501, syn.seq + 1, "");
	CHECK(t.read(t.user, fd, text, 4) == 0);
	CHECK(t.close(t.user, fd) == 0);
	struct seen end = departed();
	CHECK(end.ack == 502);
	if (!(end.flags & FIN))
		end = departed();
	CHECK(end.flags & FIN);
	inject(80, syn.port, ACK, 502, end.seq + 1, "");
}

int main(int count, char **arguments)
{
	CHECK(count == 2);
	void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_DEEPBIND);
	if (!library)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(library);
	void (*init)(const char *, struct table *) = dlsym(library, "packetdrill_interface_init");
	CHECK(init);
	init("local=192.168.0.1,mtu=1500", &t);
	long long began = now();
	CHECK(t.usleep(t.user, 250000) == 0);
	long long passed = now() - began;
	CHECK(passed > 250000 && passed < 251000);
	serve();
	ask();
	/* Nothing is due any more: the search for a packet ends. */
	size_t len = 40;
	char packet[40];
	CHECK(t.netdev_receive(t.user, packet, &len, &began) == 0 && len == 0);
	CHECK(t.socket(t.user, AF_INET, SOCK_DGRAM, 0) == -1 && errno == EPROTONOSUPPORT);
	t.free(t.user);
	puts("done");
	return 0;
}
