/* The volumes of layers. */
#ifndef MEND_VOLUME_H
#define MEND_VOLUME_H

/* The folder of C: in which the volume \\?\Volume{GUID} of a layer lies as {GUID}. Windows keeps its own data about volumes there. */
#define VOLUMES_FOLDER L"C:\\System Volume Information"

enum { START = 96 }; /* characters that a path of a volume's folder has room in */

#endif
