/* What mend_file.c asks of mend_layer.c. */
#ifndef MEND_LAYER_H
#define MEND_LAYER_H

#include "mend.h"

/* Empties an open folder if it is in the folder Files of a layer that was imported, and reports whether it is. */
BOOL layer_empty(HANDLE folder);

#endif
