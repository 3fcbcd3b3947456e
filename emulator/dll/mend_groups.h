/* What mend_user.c asks of mend_groups.c. */
#ifndef MEND_GROUPS_H
#define MEND_GROUPS_H

#include "mend.h"

/* Reports whether a user is one of Windows' own without an administrator's rights. */
BOOL is_plain_user(PSID sid);

/* Changes what NtQueryInformationToken has answered to what it answers for such a user. */
void as_plain_user(ULONG class, void *info);

#endif
