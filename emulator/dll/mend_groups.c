/* What the token of a user without an administrator's rights says. Wine's one token is that of an administrator, for all users. ContainerUser
 * is none: `whoami /user /groups` in a container of his lists S-1-5-93-2-2, Medium Mandatory Level, Users, and no Administrators
 * (moby/buildkit#5791). Programs ask for that: PostgreSQL refuses to run with an administrator's rights. What a program may do does not depend on
 * it: wineserver decides by Wine's own token. */
#include "mend_groups.h"

#include <string.h>

/* SECURITY_BUILTIN_DOMAIN_RID and DOMAIN_ALIAS_RID_ADMINS of S-1-5-32-544, SECURITY_MANDATORY_MEDIUM_RID (winnt.h). */
enum { BUILTIN = 32, ADMINISTRATORS = 544, MEDIUM = 0x2000 };

BOOL is_plain_user(PSID sid)
{
	static const DWORD container_user[] = { 93, 2, 2 };
	SID_IDENTIFIER_AUTHORITY nt = { SECURITY_NT_AUTHORITY };
	DWORD i;

	if (*GetSidSubAuthorityCount(sid) != COUNT(container_user) || memcmp(GetSidIdentifierAuthority(sid), &nt, sizeof nt))
		return FALSE;
	for (i = 0; i < COUNT(container_user); i++)
		if (*GetSidSubAuthority(sid, i) != container_user[i])
			return FALSE;
	return TRUE;
}

static BOOL is_administrators(PSID sid)
{
	return *GetSidSubAuthorityCount(sid) == 2 && *GetSidSubAuthority(sid, 0) == BUILTIN && *GetSidSubAuthority(sid, 1) == ADMINISTRATORS;
}

/* Takes Administrators out of a list of groups. */
static void leave_administrators(TOKEN_GROUPS *groups)
{
	DWORD i, kept = 0;

	for (i = 0; i < groups->GroupCount; i++)
		if (!is_administrators(groups->Groups[i].Sid))
			groups->Groups[kept++] = groups->Groups[i];
	groups->GroupCount = kept;
}

void as_plain_user(ULONG class, void *info)
{
	PSID level;

	switch (class) {
	case TokenGroups:
		leave_administrators(info);
		break;
	case TokenElevation:
		((TOKEN_ELEVATION *)info)->TokenIsElevated = 0;
		break;
	case TokenElevationType: /* there is no second token, with more rights */
		*(TOKEN_ELEVATION_TYPE *)info = TokenElevationTypeDefault;
		break;
	case TokenIntegrityLevel:
		level = ((TOKEN_MANDATORY_LABEL *)info)->Label.Sid;
		*GetSidSubAuthority(level, *GetSidSubAuthorityCount(level) - 1) = MEDIUM;
		break;
	}
}
