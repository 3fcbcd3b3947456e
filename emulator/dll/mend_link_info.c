#include "mend_link_info.h"

#include <string.h>

ULONG tag_of(const struct linux_stat *s)
{
	if ((s->mode & S_IFMT_) == S_IFLNK_)
		return TAG_SYMLINK;
	return (s->mode & S_IFMT_) == S_IFSOCK_ ? TAG_SOCKET : 0;
}

struct standard {
	int64_t allocated, size;
	ULONG links;
	BOOLEAN deleting, folder;
	USHORT pad;
};

struct everything {
	struct basic basic;
	struct standard standard;
	uint64_t number;
	ULONG ea, access;
	int64_t position;
	ULONG mode, alignment, name_size;
	WCHAR name[1];
};

struct stat_of_windows { /* FILE_STAT_INFORMATION: what GetFileInformationByHandle of Wine 10.0 asks for */
	uint64_t number;
	int64_t created, read, written, changed, allocated, size;
	ULONG attributes, tag, links, access;
};

static int64_t file_time(int64_t seconds, int64_t ns) { return seconds * 10000000 + ns / 100 + 116444736000000000; }

struct basic basic_of(const struct linux_stat *s, BOOL folder)
{
	struct basic b = { file_time(s->mtime, s->mtime_ns), file_time(s->atime, s->atime_ns), file_time(s->mtime, s->mtime_ns),
			   file_time(s->ctime, s->ctime_ns), FILE_ATTRIBUTE_REPARSE_POINT, 0 };

	b.attributes |= folder ? FILE_ATTRIBUTE_DIRECTORY : FILE_ATTRIBUTE_ARCHIVE;
	return b;
}

struct network network_of(const struct basic *b)
{
	struct network n = { b->created, b->read, b->written, b->changed, 0, 0, b->attributes, 0 };
	return n;
}

/* The classes of NtQueryInformationFile that say something of a link (wdm.h). */
enum { BASIC = 4, STANDARD = 5, INTERNAL = 6, ALL = 18, NETWORK = 34, ATTRIBUTE_TAG = 35, ID = 59, STAT = 68 };

NTSTATUS link_describe(const struct linux_stat *s, BOOL folder, ULONG class, void *info, ULONG size, ULONG_PTR *used)
{
	struct everything all = { .basic = basic_of(s, folder), .standard = { 0, 0, 1, FALSE, (BOOLEAN)folder, 0 }, .number = s->ino };
	struct network network = network_of(&all.basic);
	ULONG tag[2] = { all.basic.attributes, tag_of(s) };
	uint64_t id[3] = { s->dev, s->ino, 0 };
	const struct basic *b = &all.basic;
	struct stat_of_windows stat = { s->ino, b->created, b->read, b->written, b->changed, 0, 0, b->attributes, tag[1], 1, 0 };
	const void *from;
	ULONG length;

	switch (class) {
	case BASIC:
		from = &all.basic, length = sizeof all.basic;
		break;
	case STANDARD:
		from = &all.standard, length = sizeof all.standard;
		break;
	case INTERNAL:
		from = &all.number, length = sizeof all.number;
		break;
	case ALL:
		from = &all, length = FIELD_OFFSET(struct everything, name);
		break;
	case NETWORK:
		from = &network, length = sizeof network;
		break;
	case ATTRIBUTE_TAG:
		from = tag, length = sizeof tag;
		break;
	case ID:
		from = id, length = sizeof id;
		break;
	case STAT:
		from = &stat, length = sizeof stat;
		break;
	default:
		return BAD_CLASS;
	}
	if (size < length)
		return TOO_SMALL;
	memcpy(info, from, length);
	*used = length;
	return 0;
}

void no_mount(ULONG class, void *info)
{
	ULONG *attributes, *tag = NULL;

	switch (class) {
	case BASIC:
	case ALL:
		attributes = &((struct basic *)info)->attributes;
		break;
	case NETWORK:
		attributes = &((struct network *)info)->attributes;
		break;
	case ATTRIBUTE_TAG:
		attributes = info;
		tag = attributes + 1;
		break;
	case STAT:
		attributes = &((struct stat_of_windows *)info)->attributes;
		tag = &((struct stat_of_windows *)info)->tag;
		break;
	default:
		return;
	}
	if (!(*attributes & FILE_ATTRIBUTE_REPARSE_POINT))
		return;
	*attributes &= ~FILE_ATTRIBUTE_REPARSE_POINT;
	if (tag)
		*tag = 0;
}
