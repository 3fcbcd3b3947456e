#include "echo.h"

#include <stdlib.h>
#include <string.h>

#include "linux.h"

/* Of Linux: socket.h, in.h, in6.h, icmp.h, icmpv6.h, errqueue.h, errno.h, poll.h. */
enum { LINUX_INET = 2, LINUX_INET6 = 10, LINUX_DGRAM = 2, LINUX_RAW = 3, LINUX_CLOEXEC = 02000000, LINUX_ICMP = 1, LINUX_ICMP6 = 58 };
enum { L_IP = 0, L_IP_TTL = 2, L_IP_MTU_DISCOVER = 10, L_IP_RECVERR = 11, L_IP_RECVTTL = 12 };
enum { L_IPV6 = 41, L_IPV6_UNICAST_HOPS = 16, L_IPV6_MTU_DISCOVER = 23, L_IPV6_RECVERR = 25, L_IPV6_RECVHOPLIMIT = 51, L_IPV6_HOPLIMIT = 52, WHOLE = 2 };
enum { L_EINTR = 4, L_EAGAIN = 11, L_EMSGSIZE = 90, L_EHOSTUNREACH = 113, L_POLLIN = 1, L_DONTWAIT = 0x40, L_ERRQUEUE = 0x2000, SYS_RECVMSG = 47 };
enum { ORIGIN_LOCAL = 1, ORIGIN_ICMP = 2, ORIGIN_ICMP6 = 3 };
enum { ECHO_REQUEST = 8, ECHO_ANSWER = 0, ECHO_REQUEST6 = 128, ECHO_ANSWER6 = 129, HEAD = 8, ROOM = 65600 };

struct linux_address {
	uint16_t family, port;
	union {
		struct {
			BYTE address[4], zero[8];
		} four;
		struct {
			uint32_t flow;
			BYTE address[16];
			uint32_t scope;
		} six;
	};
};

struct linux_vector {
	void *base;
	size_t length;
};

struct linux_message {
	void *name;
	uint32_t name_length;
	struct linux_vector *vector;
	size_t vectors;
	void *control;
	size_t control_length;
	int flags;
};

struct control {
	size_t length;
	int level, type;
	BYTE data[];
};

struct extended_error {
	uint32_t error;
	BYTE origin, type, code, pad;
	uint32_t info, data;
	struct linux_address offender;
};

struct poll {
	int fd;
	short events, seen;
};

/* What was received. */
struct received {
	BYTE data[ROOM], control[512];
	struct linux_address from;
	struct linux_message message;
	struct linux_vector vector;
};

static BOOL raw; /* the socket gets all that comes to this machine, with its IP header if that is of IPv4 */

int echo_open(const struct echo *e)
{
	BOOL six = e->family == AF_INET6;
	int family = six ? LINUX_INET6 : LINUX_INET, protocol = six ? LINUX_ICMP6 : LINUX_ICMP, level = six ? L_IPV6 : L_IP, one = 1, ttl = (int)e->ttl, whole = WHOLE;
	intptr_t s = linux_call(SYS_SOCKET, family, LINUX_DGRAM | LINUX_CLOEXEC, protocol, 0, 0);

	raw = s < 0;
	if (raw)
		s = linux_call(SYS_SOCKET, family, LINUX_RAW | LINUX_CLOEXEC, protocol, 0, 0);
	if (s < 0)
		return -1;
	linux_call(SYS_SETSOCKOPT, s, level, six ? L_IPV6_UNICAST_HOPS : L_IP_TTL, (intptr_t)&ttl, sizeof ttl);
	linux_call(SYS_SETSOCKOPT, s, level, six ? L_IPV6_RECVHOPLIMIT : L_IP_RECVTTL, (intptr_t)&one, sizeof one);
	linux_call(SYS_SETSOCKOPT, s, level, six ? L_IPV6_RECVERR : L_IP_RECVERR, (intptr_t)&one, sizeof one);
	if (e->whole)
		linux_call(SYS_SETSOCKOPT, s, level, six ? L_IPV6_MTU_DISCOVER : L_IP_MTU_DISCOVER, (intptr_t)&whole, sizeof whole);
	return (int)s;
}

static WORD checksum(const BYTE *data, size_t size)
{
	uint32_t sum = 0;
	size_t i;

	for (i = 0; i < size; i++)
		sum += (uint32_t)data[i] << (i % 2 ? 0 : 8);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (WORD)~sum;
}

static WORD number_at(const BYTE *at) { return (WORD)(at[0] << 8 | at[1]); }

static void put_number(BYTE *at, WORD n)
{
	at[0] = (BYTE)(n >> 8);
	at[1] = (BYTE)n;
}

/* Linux gives a socket that is not raw a number of its own in the place of ours. */
static WORD own_number(void) { return (WORD)GetCurrentProcessId(); }

static intptr_t send_request(int socket, const struct echo *e, WORD n)
{
	struct linux_address to = { .family = e->family == AF_INET6 ? LINUX_INET6 : LINUX_INET };
	BYTE *packet = calloc(1, HEAD + e->bytes);
	intptr_t sent;
	DWORD i;

	if (!packet)
		return -1;
	packet[0] = e->family == AF_INET6 ? ECHO_REQUEST6 : ECHO_REQUEST;
	put_number(packet + 4, own_number());
	put_number(packet + 6, n);
	for (i = 0; i < e->bytes; i++)
		packet[HEAD + i] = (BYTE)('a' + i % 23); /* as Windows: a to w */
	if (e->family == AF_INET6) {
		memcpy(to.six.address, e->to, 16);
		to.six.scope = e->scope;
	} else {
		memcpy(to.four.address, e->to, 4);
		put_number(packet + 2, checksum(packet, HEAD + e->bytes));
	}
	do {
		register intptr_t r9 __asm__("r9") = e->family == AF_INET6 ? 28 : 16;
		register intptr_t r8 __asm__("r8") = (intptr_t)&to;
		register intptr_t r10 __asm__("r10") = 0;

		__asm__ volatile("syscall"
				 : "=a"(sent)
				 : "a"((intptr_t)SYS_SENDTO), "D"((intptr_t)socket), "S"((intptr_t)packet), "d"((intptr_t)(HEAD + e->bytes)), "r"(r10), "r"(r8), "r"(r9)
				 : "rcx", "r11", "memory");
	} while (sent == -L_EINTR);
	free(packet);
	return sent;
}

static intptr_t receive(int socket, struct received *r, int flags)
{
	r->vector = (struct linux_vector){ r->data, sizeof r->data };
	r->message = (struct linux_message){ &r->from, sizeof r->from, &r->vector, 1, r->control, sizeof r->control, 0 };
	return linux_call(SYS_RECVMSG, socket, (intptr_t)&r->message, flags | L_DONTWAIT, 0, 0);
}

/* Finds what Linux says beside a packet; NULL: nothing of that kind, or too little. */
static const void *beside(const struct received *r, int level, int type, size_t size)
{
	size_t at = 0, left = r->message.control_length;

	while (left >= sizeof(struct control)) {
		const struct control *c = (const void *)(r->control + at);
		size_t whole = (c->length + 7) & ~(size_t)7;

		if (c->length < sizeof *c || c->length > left)
			return NULL;
		if (c->level == level && c->type == type && c->length - sizeof *c >= size)
			return c->data;
		if (whole > left)
			return NULL;
		at += whole;
		left -= whole;
	}
	return NULL;
}

static enum echo_status status_of(const struct extended_error *x)
{
	static const enum echo_status unreachable[] = { ECHO_NET, ECHO_HOST, ECHO_PROTOCOL, ECHO_PORT, ECHO_TOO_BIG };
	static const enum echo_status unreachable6[] = { ECHO_NET, ECHO_HOST, ECHO_HOST, ECHO_HOST, ECHO_PORT };

	if (x->error == L_EMSGSIZE)
		return ECHO_TOO_BIG;
	if (x->origin == ORIGIN_ICMP)
		return x->type == 11 ? ECHO_TTL : x->code < sizeof unreachable / sizeof *unreachable ? unreachable[x->code] : ECHO_HOST;
	if (x->origin == ORIGIN_ICMP6)
		return x->type == 3 ? ECHO_TTL : x->code < sizeof unreachable6 / sizeof *unreachable6 ? unreachable6[x->code] : ECHO_HOST;
	return x->error == L_EHOSTUNREACH ? ECHO_HOST : ECHO_FAILED;
}

/* Reads an error that came of an earlier request, if there is one. */
static BOOL read_error(int socket, const struct echo *e, struct received *r, struct echo_answer *a)
{
	BOOL six = e->family == AF_INET6;
	const struct extended_error *x;

	if (receive(socket, r, L_ERRQUEUE) < 0)
		return FALSE;
	x = beside(r, six ? L_IPV6 : L_IP, six ? L_IPV6_RECVERR : L_IP_RECVERR, 16);
	if (!x)
		return FALSE;
	a->status = status_of(x);
	if (x->origin != ORIGIN_LOCAL && beside(r, six ? L_IPV6 : L_IP, six ? L_IPV6_RECVERR : L_IP_RECVERR, sizeof *x - (six ? 0 : 12)))
		memcpy(a->from, six ? x->offender.six.address : x->offender.four.address, six ? 16 : 4);
	return TRUE;
}

/* Reports whether what was received answers request n. */
static BOOL is_answer(const struct echo *e, const struct received *r, size_t size, WORD n, struct echo_answer *a)
{
	BOOL six = e->family == AF_INET6;
	const BYTE *packet = r->data;
	const int *ttl;

	if (raw && !six) {
		size_t header = size ? (size_t)(packet[0] & 15) * 4 : 0;

		if (size < 20 || header > size)
			return FALSE;
		a->ttl = packet[8];
		packet += header;
		size -= header;
	}
	if (size < HEAD || packet[0] != (six ? ECHO_ANSWER6 : ECHO_ANSWER) || number_at(packet + 6) != n || (raw && number_at(packet + 4) != own_number()))
		return FALSE;
	ttl = beside(r, six ? L_IPV6 : L_IP, six ? L_IPV6_HOPLIMIT : L_IP_TTL, sizeof *ttl);
	if (ttl)
		a->ttl = (DWORD)*ttl;
	a->status = ECHO_REPLY;
	a->bytes = (DWORD)(size - HEAD);
	memcpy(a->from, six ? r->from.six.address : r->from.four.address, six ? 16 : 4);
	return TRUE;
}

struct echo_answer echo_ask(int socket, const struct echo *e, WORD n)
{
	static struct received r; /* too large for a stack */
	struct echo_answer a = { .status = ECHO_TIMEOUT };
	ULONGLONG begin = GetTickCount64(), now;
	intptr_t size = send_request(socket, e, n);

	if (size < 0) {
		a.status = size == -L_EMSGSIZE ? ECHO_TOO_BIG : size == -L_EHOSTUNREACH ? ECHO_HOST : ECHO_FAILED;
		return a;
	}
	for (now = begin; now - begin <= e->wait; now = GetTickCount64()) {
		struct poll p = { socket, L_POLLIN, 0 };
		ULONGLONG left = e->wait - (now - begin);

		linux_call(SYS_POLL, (intptr_t)&p, 1, (intptr_t)(left > 1000 ? 1000 : left), 0, 0);
		if (!p.seen && !left)
			break;
		size = receive(socket, &r, 0);
		a.ms = (DWORD)(GetTickCount64() - begin);
		if (size >= 0 && is_answer(e, &r, (size_t)size, n, &a))
			return a;
		if (size < 0 && read_error(socket, e, &r, &a))
			return a;
	}
	a.status = ECHO_TIMEOUT;
	return a;
}
