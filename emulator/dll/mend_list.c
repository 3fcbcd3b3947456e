/* Which folders are being listed, for mend_link.c. */
#include "mend_link.h"

/* Wine does not list a link whose target is absent. Such links are added at the end of a list, one with each call. lists keeps, for
 * the handles of folders that are being listed, how many of them were added. A list that begins again sets that to 0. */
static struct {
	HANDLE folder;
	int told; /* absent links that were added */
	BOOL all; /* the list has no pattern, or "*" */
} lists[64];
static SRWLOCK lists_lock = SRWLOCK_INIT;

/* Returns the index of a handle in lists, or -1. With make it adds the handle, perhaps in place of another one. */
static int list_of(HANDLE folder, BOOL make)
{
	static int next;
	int i;

	for (i = 0; i < (int)COUNT(lists); i++)
		if (lists[i].folder == folder)
			return i;
	if (!make)
		return -1;
	i = next++ % (int)COUNT(lists);
	lists[i].folder = folder;
	lists[i].all = TRUE;
	return i;
}

void list_begins(HANDLE folder, const UNICODE_STRING *mask, BOOLEAN restart)
{
	int i;

	AcquireSRWLockExclusive(&lists_lock);
	i = list_of(folder, TRUE);
	lists[i].told = 0;
	if (mask || restart)
		lists[i].all = !mask || !mask->Length || (mask->Length == sizeof(WCHAR) && mask->Buffer[0] == L'*');
	ReleaseSRWLockExclusive(&lists_lock);
}

int list_next(HANDLE folder)
{
	int i, n = -1;

	AcquireSRWLockExclusive(&lists_lock);
	i = list_of(folder, FALSE);
	if (i >= 0 && lists[i].all)
		n = lists[i].told++;
	ReleaseSRWLockExclusive(&lists_lock);
	return n;
}

void list_ends(HANDLE folder)
{
	int i;

	AcquireSRWLockExclusive(&lists_lock);
	i = list_of(folder, FALSE);
	if (i >= 0)
		lists[i].folder = NULL;
	ReleaseSRWLockExclusive(&lists_lock);
}
