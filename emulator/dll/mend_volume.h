/* The volumes of layers. */
#ifndef MEND_VOLUME_H
#define MEND_VOLUME_H

#include <windows.h>
#include <winternl.h>

/* The folder of C: in which the volume \\?\Volume{GUID} of a layer lies as {GUID}. Windows keeps its own data about volumes there. */
#define VOLUMES_FOLDER L"C:\\System Volume Information"

enum { START = 96 }; /* characters that a path of a volume's folder has room in */

/* A path that is passed to Wine in place of another. */
struct path {
	OBJECT_ATTRIBUTES attributes;
	UNICODE_STRING name;
	BOOL volume; /* it is a layer's volume itself, which programs open like a file */
};

/* Returns the name of the same file without the name of a volume, or given itself if that has none. path_release must follow (mend_file.c). */
OBJECT_ATTRIBUTES *by_letter(OBJECT_ATTRIBUTES *given, struct path *p);
void path_release(struct path *p);

#endif
