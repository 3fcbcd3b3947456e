package guest

import "porthole.dev/porthole/emulator/wine"

// Places in a container, as Linux sees them.
const (
	Prefix = "/prefix"
	DriveC = Prefix + "/drive_c"
	// what the launchers of programs and the container's runtime tell each other: emulator/dll/launch.c
	Run   = Prefix + "/run"
	Pipes = Prefix + "/pipes" // sockets of mapped pipes
)

// Drive is the root of a drive: the folder that AddDrive makes, or DriveC.
func Drive(letter byte) string { return Prefix + "/" + driveFolder(letter) }

func driveFolder(letter byte) string { return "drive_" + string(letter) }

// HostsFile is where Windows programs have their hosts file, below C:. Wine resolves names with the Linux one.
const HostsFile = "windows/system32/drivers/etc/hosts"

// Variable is one of a program's environment.
type Variable struct{ Name, Value string }

// Environment is what each Linux process of a container gets: Wine's own settings. Its programs see none of them:
// their variables come to the launcher in a file, by which Linux' and Windows' do not mix (emulator/dll/launch.c,
// mend_environment.c).
//
// It starts no helper processes: without wineboot there is no service manager, no device manager and no
// desktop, as in a container that runs one program. Observed with Wine 8.0, 2026-11: 0.07 s instead of 0.43 s to a
// program's first line, and two processes instead of ten.
func Environment(tools wine.Tools) []Variable {
	return []Variable{
		{"HOME", "/nonexistent"}, // or Wine would link the user's folders into C:
		{"PATH", "/usr/bin:/bin"},
		{"LC_ALL", "C.UTF-8"},
		{"WINEARCH", "win64"},
		{"WINEDEBUG", "-all"},
		{"FONTCONFIG_FILE", Prefix + "/fonts.conf"},
		{"WINEDLLOVERRIDES",
			"mscoree,mshtml,winemenubuilder.exe,explorer.exe,wineboot.exe=;findstr.exe,hostname.exe,ipconfig.exe,kernelbase,nsi,ping.exe,ws2_32=n,b"},
		{"WINELOADER", tools.Loader},
		{"WINEPREFIX", Prefix},
		{"WINESERVER", tools.Server},
	}
}
