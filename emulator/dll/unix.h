/* Sockets of the family AF_UNIX, which Windows has since 1803 and Wine 8.0 has not. */
#ifndef UNIX_H
#define UNIX_H

/* Each reports whether the call is about such a socket or such an address; then *result is what the call returns. */
BOOL unix_bind(SOCKET s, const struct sockaddr *name, int size, int *result);
BOOL unix_connect(SOCKET s, const struct sockaddr *name, int size, int *result);
BOOL unix_name(SOCKET s, BOOL peer, struct sockaddr *name, int *size, int *result);

void unix_start(void);

/* keep_alive sets when TCP probes a silent peer, for which Wine 8.0 has no options. FALSE: the option is another one, or is refused. It is in
 * ws2_32.c. */
BOOL keep_alive(SOCKET s, int level, int option, const char *value, int size);

#endif
