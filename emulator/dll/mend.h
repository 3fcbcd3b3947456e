/* Mends what Wine does otherwise than Windows, for the whole process and before its own code runs: bcryptprimitives.dll, which
 * every Go program loads first, calls mend_all from its DllMain; ws2_32.dll loads it for other programs that use sockets. */
#ifndef MEND_H
#define MEND_H

#include <windows.h>
#include <winternl.h>

/* A function of the process that is replaced by one of ours. */
struct mend {
	const char *name;    /* of ntdll's system call, or of kernel32's function */
	const char *what;    /* is mended, for people */
	void *replacement;
	void **original;     /* gets the function as Wine has it; NULL for a function whose code is overwritten */
	BOOL (*missing)(void); /* only for kernel32: reports whether the function is not as on Windows */
	BOOL done;
	const WCHAR *library;  /* that has the function, if not ntdll or kernel32; its code is overwritten */
};

/* One list for each file mend_*.c; the last has no name. */
extern struct mend pipe_mends[], file_mends[], link_mends[], registry_mends[], job_mends[], backup_mends[], text_mends[], volume_mends[],
	console_mends[], service_mends[], process_mends[], user_mends[], owner_mends[], sleep_mends[], environment_mends[], exit_mends[], path_mends[];

/* The mends that can be left out one by one, with their names: of a list above, or of a part of what replaced functions
 * do. They are left out in a copy of the DLL that a probe makes (mend_switch.c). */
#define MEND_SWITCHES(S)                                                                                  \
	S(PIPE, "pipe") S(STANDARD_PIPE, "standard-pipe") S(REMOVE, "remove") S(ATTRIBUTES, "attributes") \
	S(LAYER, "layer") S(VOLUME_PATH, "volume-path") S(VOLUME, "volume") S(LINK, "link")               \
	S(PATH, "path") S(CONSOLE, "console") S(JOB, "job") S(BACKUP, "backup") S(REGISTRY, "registry")   \
	S(TEXT, "text") S(SERVICE, "service") S(MEMORY, "memory") S(WORKING_SET, "working-set")           \
	S(PROCESS, "process") S(USER, "user") S(OWNER, "owner") S(SLEEP, "sleep")                         \
	S(ENVIRONMENT, "environment") S(EXIT, "exit") S(ADMIN, "admin") S(STACK, "stack")

#define MEND_SWITCH(constant, name) MEND_##constant,
enum mend_switch { MEND_SWITCHES(MEND_SWITCH) SWITCHES };

/* Whether a mend is done. All are, but in a probe's copy of the DLL. Valid once mend_all has begun. */
extern BOOL mend_on[SWITCHES];

/* Reads the switches into mend_on. */
void switches_read(void);

/* Returns the name of a mend. */
const char *mend_name(enum mend_switch which);

/* Mends what it knows how to. Where Wine's code is not the one that it knows, it changes nothing there. Only once. */
void mend_all(void);

/* Notes whether the process is a service (mend_service.c). */
void service_begin(void);

/* Gives the process the token of an administrator, where Wine gave it less (mend_admin.c). */
void admin_begin(void);

/* Registers what ends the process at an event of a console that nobody handles (mend_console.c). */
void console_begin(void);

/* NtQueryInformationProcess(ProcessVmCounters) with the room of VM_COUNTERS_EX2, of which Wine's function does not know all. original is
 * Wine's. Returns FALSE if it is asked for something else. */
BOOL memory_counters(void *original, HANDLE process, ULONG class, void *info, ULONG size, ULONG *length, NTSTATUS *status);

/* Puts the host's own memory into what NtQuerySystemInformation answers, if it has one and the class is about memory. */
void memory_of_host(ULONG class, void *info, ULONG size);
/* Whether the host shall not answer this question: tests want that. */
BOOL question_fails(ULONG class);

#define STATUS_OK(status) ((NTSTATUS)(status) >= 0)
#define COUNT(array) (sizeof(array) / sizeof *(array))

#endif
