/* Jobs. hcsshim makes the job of a HostProcess container a silo and sets its I/O attribution (internal/jobobject). Wine refuses both
 * classes of information; here they succeed and change nothing. */
#include "mend.h"

enum { CREATE_SILO = 35, IO_ATTRIBUTION = 42 }; /* JOBOBJECTINFOCLASS (winnt.h) */

typedef NTSTATUS(NTAPI *set_job)(HANDLE, ULONG, void *, ULONG);

static void *original;

static NTSTATUS NTAPI set_information_job(HANDLE job, ULONG class, void *info, ULONG size)
{
	NTSTATUS status = ((set_job)original)(job, class, info, size);

	return class == CREATE_SILO || class == IO_ATTRIBUTION ? 0 : status;
}

struct mend job_mends[] = {
	{ "NtSetInformationJobObject", "jobs cannot be silos", (void *)set_information_job, &original, NULL, FALSE },
	{ 0 },
};
