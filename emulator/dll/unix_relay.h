/* Sockets of Linux behind those of the family AF_UNIX (unix.c). A program has a TCP socket of Wine on the loopback; what comes and goes there
 * passes through a real socket of Linux, which is a file: in shared folders it is reached from other network namespaces, and only by who
 * may open the file. */
#ifndef UNIX_RELAY_H
#define UNIX_RELAY_H

#include <winsock2.h>

#include <windows.h>

/* Makes a listening socket of Linux at a Windows path. Returns an error of Windows Sockets, 0 for none. */
int relay_listen(const WCHAR *path, int *listener);

/* Has a thread forward each connection to the listener to the TCP port of the loopback, until relay_stop. */
BOOL relay_serve(int listener, u_short port);
void relay_stop(int listener);

/* Connects to the socket of Linux at a Windows path. Returns an error of Windows Sockets, 0 for none. */
int relay_dial(const WCHAR *path, int *peer);

/* Listens at a port of the loopback, in network order, for one connection. -1: that failed. */
int relay_open(u_short *port);

/* Closes a descriptor of these; -1 is none. */
void relay_drop(int fd);

struct relay;

/* Returns, once, the connection of relay_serve that this process has made from this port of the loopback, in network order. NULL: it is a
 * stranger's. relay_end must follow. */
struct relay *relay_accepted(u_short port);

/* Takes the connection that comes from this port of the loopback and forwards it to peer. It closes both descriptors, also if it fails: then it
 * returns NULL. relay_end must follow. */
struct relay *relay_join(int opened, u_short from, int peer);

/* Waits, for a moment, until everything that the program has written is forwarded. NULL is nothing. */
void relay_end(struct relay *r);

#endif
