/* Mount points of volumes, which Wine does not have: hcsshim mounts the volume of a HostProcess container's layers on a folder. Here a
 * mount point is a link to the folder in which the volume lies. */
#include "mend.h"
#include "mend_link.h"
#include "mend_volume.h"

#include <stddef.h>
#include <string.h>
#include <wchar.h>

enum { LONGEST = 1024 }; /* characters of a path */

/* Copies the path of a mount point without its last backslash to to. Returns FALSE, with an error, if it has none: Windows wants it. */
static BOOL point_of(const WCHAR *point, WCHAR *to)
{
	size_t n = point ? wcslen(point) : 0;

	if (n < 2 || n >= LONGEST || point[n - 1] != '\\') {
		SetLastError(ERROR_INVALID_NAME);
		return FALSE;
	}
	memcpy(to, point, n * sizeof(WCHAR));
	to[n - 1] = 0;
	return TRUE;
}

static BOOL is_link(const WCHAR *path)
{
	DWORD attributes = GetFileAttributesW(path);

	return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_REPARSE_POINT);
}

/* Copies the path of the folder that is a volume to to. Returns FALSE, with an error, if there is no such volume. */
static BOOL folder_of(const WCHAR *volume, WCHAR *to)
{
	static const WCHAR head[] = L"\\\\?\\Volume{";
	const size_t n = COUNT(head) - 1, guid = 36;

	if (!volume || wcslen(volume) != n + guid + 2 || _wcsnicmp(volume, head, n) || wcscmp(volume + n + guid, L"}\\")) {
		SetLastError(ERROR_INVALID_NAME);
		return FALSE;
	}
	swprintf(to, START, L"%ls\\{%.*ls}", VOLUMES_FOLDER, (int)guid, volume + n);
	if (GetFileAttributesW(to) == INVALID_FILE_ATTRIBUTES) {
		SetLastError(ERROR_INVALID_PARAMETER);
		return FALSE;
	}
	return TRUE;
}

static BOOL WINAPI set_mount_point(const WCHAR *point, const WCHAR *volume)
{
	WCHAR path[LONGEST], target[START];
	DWORD error;

	if (!point_of(point, path) || !folder_of(volume, target))
		return FALSE;
	if (is_link(path)) {
		SetLastError(ERROR_DIR_NOT_EMPTY); /* a mount point already */
		return FALSE;
	}
	if (!RemoveDirectoryW(path))
		return FALSE;
	if (CreateSymbolicLinkW(path, target, SYMBOLIC_LINK_FLAG_DIRECTORY))
		return TRUE;
	error = GetLastError();
	CreateDirectoryW(path, NULL);
	SetLastError(error);
	return FALSE;
}

static BOOL WINAPI delete_mount_point(const WCHAR *point)
{
	WCHAR path[LONGEST];

	if (!point_of(point, path))
		return FALSE;
	if (!is_link(path)) {
		SetLastError(GetFileAttributesW(path) == INVALID_FILE_ATTRIBUTES ? ERROR_FILE_NOT_FOUND : ERROR_NOT_A_REPARSE_POINT);
		return FALSE;
	}
	return RemoveDirectoryW(path) && CreateDirectoryW(path, NULL);
}

/* Disks. What programs know as the volume of a layer is a folder here. Its disk is as long as the file system. */

enum { DISK_LENGTH = 0x7405C /* IOCTL_DISK_GET_LENGTH_INFO (winioctl.h) */, STANDARD = 5 /* FileStandardInformation */, FULL_SIZE = 7 /* FileFsFullSizeInformation */ };

typedef NTSTATUS(NTAPI *device_control)(HANDLE, HANDLE, void *, void *, IO_STATUS_BLOCK *, ULONG, void *, ULONG, void *, ULONG);

static void *control_original;

struct full_size {
	LARGE_INTEGER total, available, free;
	ULONG sectors, bytes; /* in a unit, in a sector */
};

NTSTATUS NTAPI NtQueryVolumeInformationFile(HANDLE, IO_STATUS_BLOCK *, void *, ULONG, FS_INFORMATION_CLASS);

/* Reports whether a handle is that of a folder. That it is a volume's cannot be seen: on Windows a folder that is none has no length. */
static BOOL is_folder(HANDLE file)
{
	struct standard {
		LARGE_INTEGER allocated, end;
		ULONG links;
		BOOLEAN deleting, folder;
	} info;
	IO_STATUS_BLOCK io;

	return STATUS_OK(NtQueryInformationFile(file, &io, &info, sizeof info, (FILE_INFORMATION_CLASS)STANDARD)) && info.folder;
}

static NTSTATUS NTAPI nt_device_control(HANDLE file, HANDLE event, void *apc, void *context, IO_STATUS_BLOCK *io, ULONG code, void *in,
					ULONG in_size, void *out, ULONG out_size)
{
	struct full_size size;
	IO_STATUS_BLOCK queried;
	NTSTATUS status;

	if (code != DISK_LENGTH || !out || out_size < sizeof(LONGLONG) || !is_folder(file))
		return ((device_control)control_original)(file, event, apc, context, io, code, in, in_size, out, out_size);
	status = NtQueryVolumeInformationFile(file, &queried, &size, sizeof size, (FS_INFORMATION_CLASS)FULL_SIZE);
	io->Status = status;
	io->Information = 0;
	if (!STATUS_OK(status))
		return status;
	*(LONGLONG *)out = size.total.QuadPart * size.sectors * size.bytes;
	io->Information = sizeof(LONGLONG);
	if (event)
		SetEvent(event);
	return status;
}

/* What a volume is called. Wine asks a driver (mountmgr.sys), which no container has: `dir` ends with "Invalid function" there. Volumes have
 * no label, and the serial number that Wine gives that of C: on the host. */

enum { VOLUME = 1 /* FileFsVolumeInformation */, SERIAL_OF_C = 0x43000000 };

#define NOT_IMPLEMENTED ((NTSTATUS)0xC0000002)

typedef NTSTATUS(NTAPI *query_volume)(HANDLE, IO_STATUS_BLOCK *, void *, ULONG, ULONG);

static void *query_original;

enum { DEVICE = 4, ON_DISK = 7 }; /* FileFsDeviceInformation, FILE_DEVICE_DISK (wdm.h) */

struct volume_information {
	LARGE_INTEGER created;
	ULONG serial, label_bytes;
	BOOLEAN objects;
	WCHAR label[1];
};

static NTSTATUS NTAPI query_volume_information(HANDLE file, IO_STATUS_BLOCK *io, void *info, ULONG size, ULONG class)
{
	NTSTATUS status = ((query_volume)query_original)(file, io, info, size, class);
	const struct volume_information unknown = { .serial = SERIAL_OF_C, .objects = TRUE };

	if (class == DEVICE && STATUS_OK(status) && link_is_socket(file)) /* Wine takes the file of a socket for a pipe */
		*(ULONG *)info = ON_DISK;
	if (class != VOLUME || status != NOT_IMPLEMENTED || size < sizeof unknown)
		return status;
	memcpy(info, &unknown, sizeof unknown);
	io->Status = 0;
	io->Information = offsetof(struct volume_information, label);
	return 0;
}

/* Wine's functions do nothing, whatever they are asked. */
static BOOL always(void) { return TRUE; }

#define POINTS "volumes cannot be mounted on folders"

struct mend volume_mends[] = {
	{ "NtDeviceIoControlFile", "the volume of a layer has no disk", (void *)nt_device_control, &control_original, NULL, FALSE },
	{ "NtQueryVolumeInformationFile", "volumes in containers have no name", (void *)query_volume_information, &query_original, NULL, FALSE },
	{ "SetVolumeMountPointW", POINTS, (void *)set_mount_point, NULL, always, FALSE },
	{ "DeleteVolumeMountPointW", POINTS, (void *)delete_mount_point, NULL, always, FALSE },
	{ 0 },
};
