/* What mend_file.c asks of mend_link.c for each call that could be about a symbolic link. Each returns FALSE if it is not: then Wine
 * is asked. */
#ifndef MEND_LINK_H
#define MEND_LINK_H

#include "mend.h"

/* Classes of NtSetInformationFile that links answer themselves (ntifs.h). */
enum { LINK_BASIC = 4, LINK_RENAME = 10, LINK_DISPOSITION = 13, LINK_DISPOSITION_EX = 64, LINK_RENAME_EX = 65 };

/* NtCreateFile and NtOpenFile of a link itself, or by a caller that does not want to follow links. */
BOOL link_open(HANDLE *file, ULONG access, const OBJECT_ATTRIBUTES *name, IO_STATUS_BLOCK *io, ULONG disposition, ULONG options, NTSTATUS *status);

/* NtQueryAttributesFile, or with full NtQueryFullAttributesFile, of a link; neither follows it. */
BOOL link_query(const OBJECT_ATTRIBUTES *name, void *info, BOOL full);

/* NtSetInformationFile on a handle to a link. */
BOOL link_set(HANDLE file, IO_STATUS_BLOCK *io, const void *info, ULONG size, ULONG class, NTSTATUS *status);

/* Reports whether a handle is one to the file of a socket. */
BOOL link_is_socket(HANDLE file);

/* A list of a folder's files begins: with a pattern, or with restart from its first file. */
void list_begins(HANDLE folder, const UNICODE_STRING *mask, BOOLEAN restart);

/* Returns the number of the link without a target to add next to a folder's list, or -1. */
int list_next(HANDLE folder);

/* A folder's list is at its end. */
void list_ends(HANDLE folder);

#endif
