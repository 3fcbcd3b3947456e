/* nltest.exe: the part of Windows' nltest that asks which domain a machine is joined to. A container is joined to the one of its
 * credential spec: hcsd writes its name into the registry (emulator/hcsd/credential.go). No domain controller answers.
 * The words are those of kubernetes.io, Configure GMSA for Windows Pods and containers. */
#include <windows.h>

#include <stdio.h>
#include <string.h>

static const WCHAR netlogon[] = L"SYSTEM\\CurrentControlSet\\Services\\Netlogon\\Parameters";

static int failed(const char *what, unsigned code, const char *name)
{
	printf("%s failed: Status = %u 0x%x %s\n", what, code, code, name);
	return 1;
}

int main(int argc, char **argv)
{
	WCHAR domain[256] = { 0 };
	DWORD size = sizeof domain - sizeof *domain;
	BOOL joined = !RegGetValueW(HKEY_LOCAL_MACHINE, netlogon, L"CredentialSpecDomain", RRF_RT_REG_SZ, NULL, domain, &size) && *domain;

	if (argc == 2 && !_stricmp(argv[1], "/parentdomain")) {
		if (!joined)
			return failed("Getting parent domain", ERROR_NO_SUCH_DOMAIN, "ERROR_NO_SUCH_DOMAIN");
		printf("%ls. (1)\nThe command completed successfully\n", domain);
		return 0;
	}
	if (argc == 2 && (!_stricmp(argv[1], "/query") || !_strnicmp(argv[1], "/sc_reset:", 10)))
		return failed("I_NetLogonControl", RPC_S_SERVER_UNAVAILABLE, "RPC_S_SERVER_UNAVAILABLE");
	printf("Usage: nltest /PARENTDOMAIN | /QUERY | /SC_RESET:<DomainName>\n");
	return 1;
}
