// Package wine runs Windows programs on Linux: it finds Wine, keeps one prepared prefix per Windows build, and gives
// each emulated host its own copy-on-write view of it.
//
//	D/wine/template-20348/           made once: drive_c, registry of the build, our DLLs; never changed afterwards
//	   │ lower                       (programs in it: wineserver, services.exe, winedevice.exe; nothing else starts)
//	H/prefix/  = overlay mount  ◀── upper H/wine/upper, work H/wine/work
//	   └─ drive_c/                   the host's C: as seen from Linux
//
// A caller that runs programs of a host:
//
//	tools, err := wine.Find()
//	p := wine.Prefix{Dir: "H/prefix"}
//	server := tools.ServerCommand(p)                   // in the foreground, for a supervisor; one per prefix
//	cmd := tools.Command(ctx, p, `C:\app.exe`, args…)  // or a Linux path
//
// Programs find DLLs of ours in system32 that Wine lacks, and some that stand in front of Wine's own: combase.dll
// (COM's memory without the rest of COM; hosts only), iphlpapi.dll (routes; hosts only), nsi.dll (interfaces and
// addresses without a helper process), sechost.dll (services; hosts only), virtdisk.dll (disks of layers; hosts only)
// and ws2_32.dll (UDP for Go, AF_UNIX). pdh.dll (performance counters) takes the place of Wine's. What an environment
// must say so that they are taken is in Env. porthole-launch.exe is there too: it starts a program under the name that
// it was called by, where Wine's loader would give it its full path; porthole-pipe.exe serves a named pipe.
//
// Paths between the two worlds go through LinuxPath and WindowsPath.
package wine
