/* shutdown.exe: restarts the host after a delay (/r /t), or takes that back (/a). It asks the service manager, which plays the system's
 * part. Options and texts are those of Windows; an emulated host cannot be turned off, so /s, /p, /h and /l are refused. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <wchar.h>

#include "wire.h"

#define FIELD L'\x1f' /* package emulator/wire */
#ifndef ERROR_SHUTDOWN_IS_SCHEDULED
#define ERROR_SHUTDOWN_IS_SCHEDULED 1190 /* winerror.h */
#endif
#define DEFAULT_DELAY 30
#define LONGEST_DELAY 315360000 /* ten years */

struct wish {
	BOOL restart, abort;
	unsigned long seconds;
	const WCHAR *comment;
};

static int usage(void)
{
	fputws(L"Usage: shutdown [/r | /a] [/f] [/t xxx] [/c \"comment\"] [/d [p|u:]xx:yy]\n\n"
	       L"    /r         Full shutdown and restart the computer.\n"
	       L"    /a         Abort a system shutdown.\n"
	       L"    /t xxx     Set the time-out period before shutdown to xxx seconds, 0-315360000, default 30.\n"
	       L"    /c         Comment on the reason for the restart.\n"
	       L"    /f         Force running applications to close without forewarning users.\n"
	       L"    /d         Provide the reason for the restart.\n", stdout);
	return 1;
}

/* Reads the arguments. FALSE if one of them is not known here. */
static BOOL read_wish(int argc, WCHAR **argv, struct wish *w)
{
	WCHAR *end;
	int i;

	for (i = 1; i < argc; i++) {
		const WCHAR *option = argv[i] + 1;

		if ((*argv[i] != L'/' && *argv[i] != L'-') || !*option)
			return FALSE;
		if (!_wcsicmp(option, L"r") || !_wcsicmp(option, L"g"))
			w->restart = TRUE;
		else if (!_wcsicmp(option, L"a"))
			w->abort = TRUE;
		else if (!_wcsicmp(option, L"f"))
			continue;
		else if (i + 1 == argc)
			return FALSE;
		else if (!_wcsicmp(option, L"c"))
			w->comment = argv[++i];
		else if (!_wcsicmp(option, L"d"))
			i++;
		else if (!_wcsicmp(option, L"t")) {
			w->seconds = wcstoul(argv[++i], &end, 10);
			if (*end || end == argv[i] || w->seconds > LONGEST_DELAY)
				return FALSE;
		} else
			return FALSE;
	}
	return w->restart != w->abort;
}

/* Returns the Windows error that the service manager answers. */
static DWORD ask(const WCHAR *function, const WCHAR *comment, const WCHAR *args)
{
	struct call c = { OP_SCM, 0, NULL, { function, comment, args }, { NULL, NULL } };
	HRESULT hr = wire_call(&c);

	return HRESULT_FACILITY(hr) == FACILITY_WIN32 && FAILED(hr) ? (DWORD)HRESULT_CODE(hr) : (DWORD)hr;
}

int wmain(int argc, WCHAR **argv)
{
	struct wish w = { .seconds = DEFAULT_DELAY, .comment = L"" };
	WCHAR args[16];
	DWORD error;

	if (!read_wish(argc, argv, &w))
		return usage();
	swprintf(args, 16, L"%lu%lc", w.seconds, FIELD);
	error = ask(w.abort ? L"abort" : L"initiate", w.comment, args);
	switch (error) {
	case ERROR_SUCCESS:
		break;
	case ERROR_NO_SHUTDOWN_IN_PROGRESS:
		fwprintf(stderr, L"Unable to abort the system shutdown because no shutdown was in progress.(%lu)\n", error);
		break;
	case ERROR_SHUTDOWN_IS_SCHEDULED:
		fwprintf(stderr, L"A system shutdown has already been scheduled.(%lu)\n", error);
		break;
	case ERROR_SHUTDOWN_IN_PROGRESS:
		fwprintf(stderr, L"A system shutdown is in progress.(%lu)\n", error);
		break;
	default: /* no service manager: its programs are not services, and nobody would be told */
		fwprintf(stderr, L"This host cannot be restarted from here.(%lu)\n", error);
	}
	return (int)error;
}
