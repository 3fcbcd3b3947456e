/* What mend_process.c asks of mend_user.c for a program that is made with the token of a user. */
#ifndef MEND_USER_H
#define MEND_USER_H

#include "mend.h"

/* Gives the parameters of a program the environment of the token's user, if it is one that this program logged on. Without a token (NULL), or
 * with another one, the program stays this program's user's. Returns the environment that they had, for user_environment_end, or NULL. */
void *user_environment(HANDLE token, RTL_USER_PROCESS_PARAMETERS *parameters);

/* GetEnvironmentVariableW as Wine has it, which finds what programs do not see (mend_environment.c). */
DWORD wine_variable(const WCHAR *name, WCHAR *value, DWORD size);

/* Gives the parameters their environment back. NULL: nothing. */
void user_environment_end(RTL_USER_PROCESS_PARAMETERS *parameters, void *before);

#endif
