/* Owners of files. Wine has that of Linux, who is the same for all files, and forgets one that is set. Here an extended attribute of the file
 * keeps the SID of its owner, also for the files of images (emulator/hcsd). What a program may do does not depend on it. */
#include "mend.h"

#include <string.h>

#include "linux.h"

enum { SYS_FSETXATTR = 190, SYS_FGETXATTR = 193 }; /* arch/x86/entry/syscalls/syscall_64.tbl */
enum { ROOM = 4096 /* for a descriptor of Wine's */ };

#define OWNER "user.porthole.owner" /* package emulator/hcsd/serve writes it too */
#define TOO_SMALL ((NTSTATUS)0xC0000023)

typedef NTSTATUS(NTAPI *query_security)(HANDLE, SECURITY_INFORMATION, PSECURITY_DESCRIPTOR, ULONG, ULONG *);
typedef NTSTATUS(NTAPI *set_security)(HANDLE, SECURITY_INFORMATION, PSECURITY_DESCRIPTOR);

static void *query_original, *set_original;

/* Calls Linux with the open file of a handle. A handle that is not one to a file is an error. */
static intptr_t on_file(HANDLE object, int number, void *value, size_t size)
{
	int(CDECL * to_fd)(HANDLE, unsigned, int *, unsigned *) = (void *)GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "wine_server_handle_to_fd");
	intptr_t result;
	int fd;

	if (!to_fd || to_fd(object, 0, &fd, NULL))
		return -1;
	result = linux_call(number, fd, (intptr_t)OWNER, (intptr_t)value, (intptr_t)size, 0);
	linux_call(SYS_CLOSE, fd, 0, 0, 0, 0);
	return result;
}

/* Puts a part at the end of a descriptor, and returns its place there; 0: there is no such part. */
static DWORD put(BYTE *descriptor, ULONG *length, const void *part, ULONG size)
{
	const ULONG place = *length;

	if (!part)
		return 0;
	memcpy(descriptor + place, part, size);
	*length += size;
	return place;
}

static const void *part_of(const BYTE *descriptor, DWORD place) { return place ? descriptor + place : NULL; }

/* Makes a descriptor like another with this owner. Returns its length. */
static ULONG with_owner(BYTE *to, const BYTE *from, PSID owner)
{
	const SECURITY_DESCRIPTOR_RELATIVE *old = (const void *)from;
	SECURITY_DESCRIPTOR_RELATIVE *head = (void *)to;
	const void *group = part_of(from, old->Group);
	const ACL *system = part_of(from, old->Sacl), *rights = part_of(from, old->Dacl);
	ULONG length = sizeof *head;

	*head = *old;
	head->Owner = put(to, &length, owner, GetLengthSid(owner));
	head->Group = put(to, &length, group, group ? GetLengthSid((PSID)group) : 0);
	head->Sacl = put(to, &length, system, system ? system->AclSize : 0);
	head->Dacl = put(to, &length, rights, rights ? rights->AclSize : 0);
	return length;
}

static NTSTATUS NTAPI query_security_object(HANDLE object, SECURITY_INFORMATION which, PSECURITY_DESCRIPTOR to, ULONG size, ULONG *needed)
{
	BYTE owner[SECURITY_MAX_SID_SIZE], have[ROOM], whole[ROOM + sizeof owner];
	query_security original = (query_security)query_original;
	ULONG length;
	NTSTATUS status;

	if (!(which & OWNER_SECURITY_INFORMATION) || on_file(object, SYS_FGETXATTR, owner, sizeof owner) < 8 || !IsValidSid(owner))
		return original(object, which, to, size, needed);
	status = original(object, which, have, sizeof have, &length);
	if (!STATUS_OK(status))
		return status;
	length = with_owner(whole, have, owner);
	if (needed)
		*needed = length;
	if (size < length)
		return TOO_SMALL;
	memcpy(to, whole, length);
	return status;
}

static NTSTATUS NTAPI set_security_object(HANDLE object, SECURITY_INFORMATION which, PSECURITY_DESCRIPTOR descriptor)
{
	BOOL by_default;
	PSID owner = NULL;

	if ((which & OWNER_SECURITY_INFORMATION) && GetSecurityDescriptorOwner(descriptor, &owner, &by_default) && owner &&
	    IsValidSid(owner) && on_file(object, SYS_FSETXATTR, owner, GetLengthSid(owner)) == 0)
		which &= ~OWNER_SECURITY_INFORMATION;
	return which ? ((set_security)set_original)(object, which, descriptor) : 0;
}

#define OWNERS "files have no owners"

struct mend owner_mends[] = {
	{ "NtQuerySecurityObject", OWNERS, (void *)query_security_object, &query_original, NULL, FALSE },
	{ "NtSetSecurityObject", OWNERS, (void *)set_security_object, &set_original, NULL, FALSE },
	{ 0 },
};
