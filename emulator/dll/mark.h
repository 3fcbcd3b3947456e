/* The mark by which the host's firewall knows the program of a socket (package emulator/firewall). */
#ifndef MARK_H
#define MARK_H

/* Has hnsd mark a socket of Linux with this program's mark: only who commands the network may. Without hnsd, and in a pod, which has no
 * firewall, it does nothing. */
void mark_socket(int fd);

#endif
