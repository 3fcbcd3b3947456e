package wine

import (
	"strings"
	"testing"
)

// The registry of a template has no device of Wine's, and no class, interface or type library of what Server Core does
// not have; all else stays as it is, byte by byte.
func TestTrim(t *testing.T) {
	stays := []string{
		"WINE REGISTRY Version 2\n;; All keys relative to \\\\Machine\n\n#arch=win64\n\n",
		"[Software\\\\Classes\\\\CLSID\\\\{11111111-0000-0000-0000-000000000001}] 1\n@=\"Shell\"\n\n",
		"[Software\\\\Classes\\\\CLSID\\\\{11111111-0000-0000-0000-000000000001}\\\\InProcServer32] 1\n@=\"C:\\\\windows\\\\system32\\\\shell32.dll\"\n\n",
		"[Software\\\\Classes\\\\Interface\\\\{22222222-0000-0000-0000-000000000001}\\\\TypeLib] 1\n@=\"{50A7E9B0-70EF-11D1-B75A-00A0C90564FE}\"\n\n",
		"[System\\\\CurrentControlSet\\\\Services\\\\winebus] 1\n\"Start\"=dword:00000004\n\"Text\"=\"[no key]\"\n",
	}
	goes := []string{
		"[Software\\\\Classes\\\\CLSID\\\\{33333333-0000-0000-0000-00000000000A}] 1\n@=\"Movie\"\n\n",
		"[Software\\\\Classes\\\\CLSID\\\\{33333333-0000-0000-0000-00000000000a}\\\\InprocServer32] 1\n@=\"C:\\\\windows\\\\system32\\\\Quartz.dll\"\n\n",
		"[Software\\\\Classes\\\\Interface\\\\{44444444-0000-0000-0000-000000000001}] 1\n@=\"IHTMLElement\"\n\n",
		"[Software\\\\Classes\\\\Interface\\\\{44444444-0000-0000-0000-000000000001}\\\\TypeLib] 1\n@=\"{3050F1C5-98B5-11CF-BB82-00AA00BDCE0B}\"\n\n",
		"[Software\\\\Classes\\\\Interface\\\\{44444444-0000-0000-0000-000000000002}\\\\ProxyStubClsid32] 1\n@=\"{33333333-0000-0000-0000-00000000000A}\"\n\n",
		"[Software\\\\Classes\\\\Typelib\\\\{3050F1C5-98B5-11CF-BB82-00AA00BDCE0B}\\\\4.0] 1\n@=\"MSHTML\"\n\n",
		"[System\\\\CurrentControlSet\\\\Enum\\\\ROOT\\\\WINE\\\\WINEBUS] 1\n\"Service\"=\"winebus\"\n\n",
		"[System\\\\ControlSet001\\\\Enum\\\\ROOT\\\\WINE\\\\WINEBTH] 1\n\"Service\"=\"winebth\"\n\n",
	}

	hive := stays[0] + goes[0] + stays[1] + goes[1] + goes[2] + stays[2] + strings.Join(goes[3:],
		"") + strings.Join(stays[3:], "")
	if got, want := trim(hive), strings.Join(stays, ""); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := trim("no hive"); got != "no hive" {
		t.Errorf("got %q", got)
	}
}
