/* Named pipes. Windows 8 and later leave an instance that is made with neither read nor write access disconnected: it only keeps
 * the name. go-winio makes the first instance of each listener so (go-winio pull request 125). Wine lets a client connect to
 * it (server/named_pipe.c, create_pipe_server), and nobody ever answers that client. */
#include "mend.h"

#define PIPE_DISCONNECT CTL_CODE(FILE_DEVICE_NAMED_PIPE, 1, METHOD_BUFFERED, FILE_ANY_ACCESS) /* FSCTL_PIPE_DISCONNECT */
#define DATA_ACCESS (GENERIC_READ | GENERIC_WRITE | GENERIC_ALL | FILE_READ_DATA | FILE_WRITE_DATA)

typedef NTSTATUS(NTAPI *create_pipe)(HANDLE *, ULONG, OBJECT_ATTRIBUTES *, IO_STATUS_BLOCK *, ULONG, ULONG, ULONG, ULONG, ULONG,
				     ULONG, ULONG, ULONG, ULONG, LARGE_INTEGER *);

static void *original;

/* Disconnects an instance. Wine does that only after a client has connected, so a client connects first. */
static void disconnect(HANDLE pipe, OBJECT_ATTRIBUTES *name)
{
	OBJECT_ATTRIBUTES plain = *name;
	IO_STATUS_BLOCK io;
	HANDLE client;

	plain.SecurityDescriptor = NULL;
	if (STATUS_OK(NtOpenFile(&client, SYNCHRONIZE | FILE_READ_ATTRIBUTES, &plain, &io, FILE_SHARE_READ | FILE_SHARE_WRITE, 0)))
		NtClose(client);
	NtFsControlFile(pipe, NULL, NULL, NULL, &io, PIPE_DISCONNECT, NULL, 0, NULL, 0);
}

static NTSTATUS NTAPI create_named_pipe(HANDLE *pipe, ULONG access, OBJECT_ATTRIBUTES *name, IO_STATUS_BLOCK *io, ULONG share,
					ULONG disposition, ULONG options, ULONG type, ULONG read_mode, ULONG completion,
					ULONG instances, ULONG in, ULONG out, LARGE_INTEGER *timeout)
{
	NTSTATUS status = ((create_pipe)original)(pipe, access, name, io, share, disposition, options, type, read_mode, completion,
						  instances, in, out, timeout);

	if (STATUS_OK(status) && !(access & DATA_ACCESS))
		disconnect(*pipe, name);
	return status;
}

struct mend pipe_mends[] = {
	{ "NtCreateNamedPipeFile", "the first client of a named pipe of Go is never answered", (void *)create_named_pipe, &original, NULL, FALSE },
	{ 0 },
};
