/* What mend_link.c and mend_file.c ask of mend_pipe.c after a call about a file, with the status that Wine returned: if Wine refused, the file
 * may be a pipe of Linux. Each returns the status for the caller. */
#ifndef MEND_PIPE_H
#define MEND_PIPE_H

#include "mend.h"

/* NtQueryInformationFile: answers FilePipeInformation and FilePipeLocalInformation. */
NTSTATUS pipe_query(NTSTATUS status, HANDLE file, IO_STATUS_BLOCK *io, void *info, ULONG size, ULONG class);

/* NtSetInformationFile: takes FilePipeInformation. */
NTSTATUS pipe_set(NTSTATUS status, HANDLE file, IO_STATUS_BLOCK *io, const void *info, ULONG size, ULONG class);

/* NtFsControlFile: takes FSCTL_PIPE_PEEK. */
NTSTATUS pipe_control(NTSTATUS status, HANDLE file, IO_STATUS_BLOCK *io, ULONG code, void *out, ULONG size);

#endif
