/* Error texts. Programs and people look for what Windows says: tests compare "Access is denied.", Go prints the texts in its errors.
 * Wine has words of its own. These are Windows' in English: learn.microsoft.com, System Error Codes, and [MS-ERREF] 2.2; those of
 * sockets from Windows Sockets Error Codes and from what Go's issues quote. */
#include "mend.h"

#include <string.h>

struct text {
	DWORD code;
	const char *words;
};

/* In the order of their codes. */
static const struct text texts[] = {
	{ 2, "The system cannot find the file specified." },
	{ 3, "The system cannot find the path specified." },
	{ 5, "Access is denied." },
	{ 6, "The handle is invalid." },
	{ 13, "The data is invalid." },
	{ 15, "The system cannot find the drive specified." },
	{ 17, "The system cannot move the file to a different disk drive." },
	{ 18, "There are no more files." },
	{ 19, "The media is write protected." },
	{ 21, "The device is not ready." },
	{ 31, "A device attached to the system is not functioning." },
	{ 32, "The process cannot access the file because it is being used by another process." },
	{ 33, "The process cannot access the file because another process has locked a portion of the file." },
	{ 38, "Reached the end of the file." },
	{ 50, "The request is not supported." },
	{ 53, "The network path was not found." },
	{ 67, "The network name cannot be found." },
	{ 80, "The file exists." },
	{ 87, "The parameter is incorrect." },
	{ 109, "The pipe has been ended." },
	{ 112, "There is not enough space on the disk." },
	{ 122, "The data area passed to a system call is too small." },
	{ 123, "The filename, directory name, or volume label syntax is incorrect." },
	{ 126, "The specified module could not be found." },
	{ 127, "The specified procedure could not be found." },
	{ 145, "The directory is not empty." },
	{ 161, "The specified path is invalid." },
	{ 183, "Cannot create a file when that file already exists." },
	{ 206, "The filename or extension is too long." },
	{ 231, "All pipe instances are busy." },
	{ 232, "The pipe is being closed." },
	{ 233, "No process is on the other end of the pipe." },
	{ 258, "The wait operation timed out." },
	{ 259, "No more data is available." },
	{ 267, "The directory name is invalid." },
	{ 995, "The I/O operation has been aborted because of either a thread exit or an application request." },
	{ 1053, "The service did not respond to the start or control request in a timely fashion." },
	{ 1056, "An instance of the service is already running." },
	{ 1060, "The specified service does not exist as an installed service." },
	{ 1062, "The service has not been started." },
	{ 1072, "The specified service has been marked for deletion." },
	{ 1073, "The specified service already exists." },
	{ 1168, "Element not found." },
	{ 1314, "A required privilege is not held by the client." },
	{ 1326, "The user name or password is incorrect." },
	{ 1392, "The file or directory is corrupted and unreadable." },
	{ 1460, "This operation returned because the timeout period expired." },
	{ 1722, "The RPC server is unavailable." },
	{ 10013, "An attempt was made to access a socket in a way forbidden by its access permissions." },
	{ 10048, "Only one usage of each socket address (protocol/network address/port) is normally permitted." },
	{ 10049, "The requested address is not valid in its context." },
	{ 10051, "A socket operation was attempted to an unreachable network." },
	{ 10053, "An established connection was aborted by the software in your host machine." },
	{ 10054, "An existing connection was forcibly closed by the remote host." },
	{ 10060, "A connection attempt failed because the connected party did not properly respond after a period of time, or established "
		 "connection failed because connected host has failed to respond." },
	{ 10061, "No connection could be made because the target machine actively refused it." },
	{ 10065, "A socket operation was attempted to an unreachable host." },
	{ 11001, "No such host is known." },
};

enum { LONGEST = 256, SOURCES = FORMAT_MESSAGE_FROM_HMODULE | FORMAT_MESSAGE_FROM_STRING | FORMAT_MESSAGE_FROM_SYSTEM };

typedef DWORD(WINAPI *format_w)(DWORD, const void *, DWORD, DWORD, WCHAR *, DWORD, va_list *);
typedef DWORD(WINAPI *format_a)(DWORD, const void *, DWORD, DWORD, char *, DWORD, va_list *);

static void *original_w, *original_a;

/* The words for an error of the system, asked for in no language or in English; NULL if they are left to Wine. */
static const char *words_of(DWORD flags, DWORD code, DWORD language)
{
	size_t i;

	if ((flags & SOURCES) != FORMAT_MESSAGE_FROM_SYSTEM || (PRIMARYLANGID(language) != LANG_NEUTRAL && PRIMARYLANGID(language) != LANG_ENGLISH))
		return NULL;
	for (i = 0; i < COUNT(texts) && texts[i].code <= code; i++)
		if (texts[i].code == code)
			return texts[i].words;
	return NULL;
}

static DWORD own_source(DWORD flags)
{
	return (flags & ~FORMAT_MESSAGE_FROM_SYSTEM) | FORMAT_MESSAGE_FROM_STRING;
}

static DWORD WINAPI format_message_w(DWORD flags, const void *source, DWORD code, DWORD language, WCHAR *buffer, DWORD size, va_list *args)
{
	const char *words = words_of(flags, code, language);
	WCHAR wide[LONGEST], *end = wide;

	if (!words)
		return ((format_w)original_w)(flags, source, code, language, buffer, size, args);
	while (*words)
		*end++ = (WCHAR)*words++;
	lstrcpyW(end, L"\r\n");
	return ((format_w)original_w)(own_source(flags), wide, code, language, buffer, size, args);
}

static DWORD WINAPI format_message_a(DWORD flags, const void *source, DWORD code, DWORD language, char *buffer, DWORD size, va_list *args)
{
	const char *words = words_of(flags, code, language);
	char whole[LONGEST];

	if (!words)
		return ((format_a)original_a)(flags, source, code, language, buffer, size, args);
	lstrcpyA(whole, words);
	lstrcatA(whole, "\r\n");
	return ((format_a)original_a)(own_source(flags), whole, code, language, buffer, size, args);
}

static BOOL other_words(void)
{
	char text[LONGEST];

	return !FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, ERROR_ACCESS_DENIED, 0, text, sizeof text, NULL)
		|| strcmp(text, "Access is denied.\r\n");
}

#define TEXTS "errors have Wine's words"

struct mend text_mends[] = {
	{ "FormatMessageW", TEXTS, (void *)format_message_w, &original_w, other_words, FALSE },
	{ "FormatMessageA", TEXTS, (void *)format_message_a, &original_a, other_words, FALSE },
	{ 0 },
};
