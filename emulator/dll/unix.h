/* Sockets of the family AF_UNIX, which Windows has since 1803 and Wine 8.0 has not. */
#ifndef UNIX_H
#define UNIX_H

/* Each reports whether the call is about such a socket or such an address; then *result is what the call returns. */
BOOL unix_bind(SOCKET s, const struct sockaddr *name, int size, int *result);
BOOL unix_connect(SOCKET s, const struct sockaddr *name, int size, int *result);
BOOL unix_name(SOCKET s, BOOL peer, struct sockaddr *name, int *size, int *result);

void unix_start(void);

#endif
