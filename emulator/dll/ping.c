/* ping.exe: ICMP echo requests as Windows' program sends and prints them. Wine's knows no -t, and works where its services run only. */
#include <winsock2.h>
#include <ws2tcpip.h>

#include <windows.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "echo.h"

/* What `ping /?` says of itself (learn.microsoft.com/windows-server/administration/windows-commands/ping). */
enum { COUNT = 4, BYTES = 32, MOST_BYTES = 65500, WAIT_MS = 4000, TTL = 128, EVERY_MS = 1000 };

struct wanted {
	const char *target;
	BOOL endless, whole, reverse; /* -t, -f: not to be fragmented, -a */
	int family;		      /* 0: as the name says */
	DWORD count, bytes, wait, ttl;
};

struct counted {
	DWORD sent, received, least, most;
	unsigned long long sum;
};

static HANDLE stop;		 /* set when Ctrl+C comes */
static volatile LONG asked;	 /* Ctrl+Break: statistics are wanted now */
static struct counted counted;
static char address[INET6_ADDRSTRLEN];

static BOOL WINAPI on_console(DWORD event)
{
	if (event == CTRL_BREAK_EVENT)
		InterlockedExchange(&asked, 1);
	else
		SetEvent(stop);
	return event == CTRL_BREAK_EVENT || event == CTRL_C_EVENT;
}

static void say_statistics(void)
{
	DWORD lost = counted.sent - counted.received;

	printf("\nPing statistics for %s:\n    Packets: Sent = %lu, Received = %lu, Lost = %lu (%lu%% loss),\n", address, counted.sent,
	       counted.received, lost, counted.sent ? 100 * lost / counted.sent : 0);
	if (counted.received)
		printf("Approximate round trip times in milli-seconds:\n    Minimum = %lums, Maximum = %lums, Average = %lums\n", counted.least,
		       counted.most, (DWORD)(counted.sum / counted.received));
}

static void count_reply(DWORD ms)
{
	if (!counted.received || ms < counted.least)
		counted.least = ms;
	if (ms > counted.most)
		counted.most = ms;
	counted.sum += ms;
	counted.received++;
}

/* What Windows prints for what came of a request. NULL: that it was answered, or not. */
static const char *failure_of(enum echo_status status)
{
	switch (status) {
	case ECHO_NET:
		return "Destination net unreachable.";
	case ECHO_HOST:
		return "Destination host unreachable.";
	case ECHO_PROTOCOL:
		return "Destination protocol unreachable.";
	case ECHO_PORT:
		return "Destination port unreachable.";
	case ECHO_TTL:
		return "TTL expired in transit.";
	case ECHO_TOO_BIG:
		return "Packet needs to be fragmented but DF set.";
	default:
		return NULL;
	}
}

static void say_time(DWORD ms)
{
	if (ms)
		printf("time=%lums", ms);
	else
		printf("time<1ms");
}

/* Says what came of a request. */
static void say_answer(int family, const struct echo_answer *a)
{
	static const BYTE none[sizeof a->from];
	char from[INET6_ADDRSTRLEN] = "";

	if (a->status == ECHO_TIMEOUT) {
		puts("Request timed out.");
		return;
	}
	if (a->status == ECHO_TOO_BIG) {
		puts(failure_of(a->status));
		return;
	}
	if (a->status == ECHO_FAILED) {
		puts("PING: transmit failed. General failure. ");
		return;
	}
	if (memcmp(a->from, none, sizeof none))
		inet_ntop(family, (void *)a->from, from, sizeof from);
	if (failure_of(a->status)) {
		printf("Reply from %s: %s\n", *from ? from : address, failure_of(a->status));
		return;
	}
	printf("Reply from %s: ", *from ? from : address);
	if (family == AF_INET)
		printf("bytes=%lu ", a->bytes);
	say_time(a->ms);
	if (family == AF_INET)
		printf(" TTL=%lu", a->ttl);
	puts("");
	count_reply(a->ms);
}

/* Sends the requests, one each second, until there were as many as wanted or Ctrl+C came. Returns FALSE if it may not. */
static BOOL ping_all(const struct wanted *w, const struct addrinfo *to)
{
	struct echo e = { .family = to->ai_family, .bytes = w->bytes, .ttl = w->ttl, .wait = w->wait, .whole = w->whole };
	const struct sockaddr_in6 *six = (const void *)to->ai_addr;
	DWORD pause = 0;
	int socket;

	if (e.family == AF_INET6) {
		memcpy(e.to, &six->sin6_addr, 16);
		e.scope = six->sin6_scope_id;
	} else {
		memcpy(e.to, &((const struct sockaddr_in *)(const void *)to->ai_addr)->sin_addr, 4);
	}
	socket = echo_open(&e);
	if (socket < 0) {
		puts("Unable to contact IP driver. General failure.");
		return FALSE;
	}
	while ((w->endless || counted.sent < w->count) && WaitForSingleObject(stop, pause) == WAIT_TIMEOUT) {
		ULONGLONG begin = GetTickCount64(), took;
		struct echo_answer a = echo_ask(socket, &e, (WORD)++counted.sent);

		say_answer(e.family, &a);
		if (InterlockedExchange(&asked, 0))
			say_statistics();
		took = GetTickCount64() - begin;
		pause = took < EVERY_MS ? (DWORD)(EVERY_MS - took) : 0;
	}
	return TRUE;
}

static int usage(void)
{
	puts("\nUsage: ping [-t] [-a] [-n count] [-l size] [-f] [-i TTL]\n            [-w timeout] [-4] [-6] target_name\n\nOptions:\n"
	     "    -t             Ping the specified host until stopped.\n"
	     "                   To see statistics and continue - type Control-Break;\n"
	     "                   To stop - type Control-C.\n"
	     "    -a             Resolve addresses to hostnames.\n"
	     "    -n count       Number of echo requests to send.\n"
	     "    -l size        Send buffer size.\n"
	     "    -f             Set Don't Fragment flag in packet (IPv4-only).\n"
	     "    -i TTL         Time To Live.\n"
	     "    -w timeout     Timeout in milliseconds to wait for each reply.\n"
	     "    -4             Force using IPv4.\n"
	     "    -6             Force using IPv6.\n");
	return 1;
}

/* Reads the value of an option. Returns FALSE, and says so, if it is none from least to most. */
static BOOL value_of(const char *option, const char *text, DWORD least, DWORD most, DWORD *value)
{
	char *end;

	if (!text) {
		printf("Value must be supplied for option %s.\n", option);
		return FALSE;
	}
	*value = strtoul(text, &end, 10);
	if (*end || *value < least || *value > most) {
		printf("Bad value for option %s, valid range is from %lu to %lu.\n", option, least, most);
		return FALSE;
	}
	return TRUE;
}

/* Reads one option, and its value if it has one. Returns the number of arguments that it consists of; 0: it is none. */
static int option_of(char **argv, struct wanted *w)
{
	const char *o = argv[0];

	switch (strlen(o) == 2 ? o[1] : 0) {
	case 't':
		return w->endless = 1;
	case 'a':
		return w->reverse = 1;
	case 'f':
		return w->whole = 1;
	case '4':
		w->family = AF_INET;
		return 1;
	case '6':
		w->family = AF_INET6;
		return 1;
	case 'n':
		return value_of(o, argv[1], 1, 0xffffffff, &w->count) * 2;
	case 'l':
		return value_of(o, argv[1], 0, MOST_BYTES, &w->bytes) * 2;
	case 'i':
		return value_of(o, argv[1], 1, 255, &w->ttl) * 2;
	case 'w':
		return value_of(o, argv[1], 0, 0xffffffff, &w->wait) * 2;
	}
	printf("Bad option %s.\n", o);
	usage();
	return 0;
}

/* Says whom it will ask. The name is that of the address, if -a asks for it. */
static void say_target(const struct wanted *w, const struct addrinfo *to)
{
	char name[NI_MAXHOST];
	const char *shown = w->target;

	getnameinfo(to->ai_addr, (socklen_t)to->ai_addrlen, address, sizeof address, NULL, 0, NI_NUMERICHOST);
	if (w->reverse && !getnameinfo(to->ai_addr, (socklen_t)to->ai_addrlen, name, sizeof name, NULL, 0, NI_NAMEREQD))
		shown = name;
	if (strcmp(shown, address))
		printf("\nPinging %s [%s] with %lu bytes of data:\n", shown, address, w->bytes);
	else
		printf("\nPinging %s with %lu bytes of data:\n", address, w->bytes);
}

int main(int argc, char **argv)
{
	struct wanted w = { .count = COUNT, .bytes = BYTES, .wait = WAIT_MS, .ttl = TTL };
	struct addrinfo hints = { 0 }, *to;
	WSADATA data;
	int i, used;

	setvbuf(stdout, NULL, _IONBF, 0); /* each line at once, to a pipe too */
	for (i = 1; i < argc; i += used) {
		used = 1;
		if (argv[i][0] != '-' && argv[i][0] != '/')
			w.target = argv[i];
		else if (!(used = option_of(argv + i, &w)))
			return 1;
	}
	if (!w.target)
		return argc > 1 ? (puts("IP address must be specified."), 1) : usage();
	hints.ai_family = w.family;
	if (WSAStartup(MAKEWORD(2, 2), &data) || getaddrinfo(w.target, NULL, &hints, &to)) {
		printf("Ping request could not find host %s. Please check the name and try again.\n", w.target);
		return 1;
	}
	stop = CreateEventW(NULL, TRUE, FALSE, NULL);
	SetConsoleCtrlHandler(on_console, TRUE);
	say_target(&w, to);
	if (!ping_all(&w, to))
		return 1;
	say_statistics();
	freeaddrinfo(to);
	if (WaitForSingleObject(stop, 0) == WAIT_OBJECT_0)
		puts("Control-C");
	return !counted.received;
}
