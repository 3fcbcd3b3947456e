/* ping.exe: ICMP echo requests as Windows' program sends and prints them. Wine's knows no -t, and has no echo requests of IPv6,
 * which this one has not either. */
#include <winsock2.h>
#include <ws2tcpip.h>

#include <windows.h>

#include <iphlpapi.h>
#include <icmpapi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What `ping /?` says of itself (learn.microsoft.com/windows-server/administration/windows-commands/ping). */
enum { COUNT = 4, BYTES = 32, MOST_BYTES = 65500, WAIT_MS = 4000, TTL = 128, EVERY_MS = 1000, REPLY_ROOM = 64 };

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

/* What Windows prints for a status of ICMP (ipexport.h). */
static const char *failure_of(IP_STATUS status)
{
	switch (status) {
	case IP_DEST_NET_UNREACHABLE:
		return "Destination net unreachable.";
	case IP_DEST_HOST_UNREACHABLE:
		return "Destination host unreachable.";
	case IP_DEST_PROT_UNREACHABLE:
		return "Destination protocol unreachable.";
	case IP_DEST_PORT_UNREACHABLE:
		return "Destination port unreachable.";
	case IP_TTL_EXPIRED_TRANSIT:
		return "TTL expired in transit.";
	case IP_PACKET_TOO_BIG:
		return "Packet needs to be fragmented but DF set.";
	}
	return NULL;
}

static void say_time(DWORD ms)
{
	if (ms)
		printf("time=%lums", ms);
	else
		printf("time<1ms");
}

/* Says what came of a request: why there is no answer, or whose answer it is. Returns FALSE if it was no answer to the request. */
static BOOL say_status(DWORD replies, IP_STATUS status, const char *from)
{
	if (!replies && (status == IP_REQ_TIMED_OUT || status == ERROR_TIMEOUT)) {
		puts("Request timed out.");
		return FALSE;
	}
	if (failure_of(status)) {
		printf("Reply from %s: %s\n", replies ? from : address, failure_of(status));
		return FALSE;
	}
	if (!replies || status != IP_SUCCESS) {
		puts("PING: transmit failed. General failure. ");
		return FALSE;
	}
	printf("Reply from %s: ", from);
	return TRUE;
}

static void ping(HANDLE icmp, const struct wanted *w, const struct sockaddr_in *to, void *data)
{
	IP_OPTION_INFORMATION options = { .Ttl = (BYTE)w->ttl, .Flags = w->whole ? IP_FLAG_DF : 0 };
	DWORD room = sizeof(ICMP_ECHO_REPLY) + w->bytes + REPLY_ROOM, replies;
	ICMP_ECHO_REPLY *reply = calloc(1, room);
	char from[INET_ADDRSTRLEN] = "";

	if (!reply)
		return;
	replies = IcmpSendEcho(icmp, to->sin_addr.s_addr, data, (WORD)w->bytes, &options, reply, room, w->wait);
	inet_ntop(AF_INET, &reply->Address, from, sizeof from);
	if (say_status(replies, replies ? reply->Status : GetLastError(), from)) {
		printf("bytes=%u ", reply->DataSize);
		say_time(reply->RoundTripTime);
		printf(" TTL=%u\n", reply->Options.Ttl);
		count_reply(reply->RoundTripTime);
	}
	free(reply);
}

/* Sends the requests, one each second, until there were as many as wanted or Ctrl+C came. */
static void ping_all(const struct wanted *w, const struct addrinfo *to)
{
	HANDLE icmp = IcmpCreateFile();
	char *data = malloc(w->bytes + 1);
	DWORD i, pause = 0;

	for (i = 0; data && i < w->bytes; i++)
		data[i] = (char)('a' + i % 23); /* as Windows: a to w */
	while (data && (w->endless || counted.sent < w->count) && WaitForSingleObject(stop, pause) == WAIT_TIMEOUT) {
		ULONGLONG begin = GetTickCount64(), took;

		counted.sent++;
		if (to->ai_family == AF_INET)
			ping(icmp, w, (struct sockaddr_in *)to->ai_addr, data);
		else
			puts("PING: transmit failed. General failure. ");
		if (InterlockedExchange(&asked, 0))
			say_statistics();
		took = GetTickCount64() - begin;
		pause = took < EVERY_MS ? (DWORD)(EVERY_MS - took) : 0;
	}
	free(data);
	IcmpCloseHandle(icmp);
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
	ping_all(&w, to);
	say_statistics();
	freeaddrinfo(to);
	if (WaitForSingleObject(stop, 0) == WAIT_OBJECT_0)
		puts("Control-C");
	return !counted.received;
}
