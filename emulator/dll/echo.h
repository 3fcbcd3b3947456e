/* Echo requests of ICMP by Linux' own sockets. Wine 8.0 sends them by way of its nsiproxy service, which containers do not have. */
#ifndef ECHO_H
#define ECHO_H

#include <winsock2.h>

#include <windows.h>

/* What is asked: an address of Windows, and how. */
struct echo {
	int family;    /* AF_INET or AF_INET6 */
	BYTE to[16];   /* the address */
	ULONG scope;   /* of a link-local one */
	DWORD bytes, ttl, wait; /* wait in milliseconds */
	BOOL whole;    /* not to be fragmented */
};

enum echo_status { ECHO_REPLY, ECHO_TIMEOUT, ECHO_FAILED, ECHO_NET, ECHO_HOST, ECHO_PROTOCOL, ECHO_PORT, ECHO_TTL, ECHO_TOO_BIG };

struct echo_answer {
	enum echo_status status;
	DWORD ms, ttl, bytes;
	BYTE from[16]; /* who answered, or refused; zeros: this machine */
};

/* Opens a socket for such requests; -1: this program has no right to. */
int echo_open(const struct echo *e);

/* Sends request number n and waits for what comes of it. */
struct echo_answer echo_ask(int socket, const struct echo *e, WORD n);

#endif
