package scm

// builtin are services of Windows itself that programs open, or name as what theirs depends on. They run as long as
// the host does, accept no control, and are not in the database. Command lines, accounts and start types are
// unverified, no. 141.
var builtin = []Config{
	{Name: "LanmanServer", DisplayName: "Server", Path: `C:\windows\System32\svchost.exe -k netsvcs -p`,
		Account: "LocalSystem", Type: shareProcess, Start: StartAutomatic, ErrorControl: 1},
	{Name: "W32Time", DisplayName: "Windows Time", Path: `C:\windows\system32\svchost.exe -k LocalService`,
		Account: `NT AUTHORITY\LocalService`, Type: shareProcess, Start: StartAutomatic, ErrorControl: 1},
}

// shareProcess is SERVICE_WIN32_SHARE_PROCESS (winnt.h).
const shareProcess = 0x20

// addBuiltin adds these services, unless the database has one of that name.
func (m *Manager) addBuiltin() {
	for _, c := range builtin {
		if m.services[fold(c.Name)] != nil {
			continue
		}
		s := newService(c)
		s.builtin, s.status.State = true, Running
		m.services[fold(c.Name)] = s
	}
}
