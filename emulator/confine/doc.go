// Package confine keeps the Windows programs of an emulated host away from the machine that the host runs on.
//
// Wine is no sandbox: a Windows program can make system calls of Linux itself. So all that runs under the wineserver
// of a host is in a box (Enter): it has its own view of files and processes, runs as a user without rights
// (wine.Owner), has no capabilities, and a filter refuses it the system calls that containers are refused.
//
//	/                 a tmpfs, which only root can write
//	/usr, /lib, …     the machine's libraries and Wine, read-only
//	HOSTDIR           the host's folder, at the same path as outside; what hcsd mounts there is seen too
//	/tmp              HOSTDIR/tmp: the wineserver's socket
//	/proc, /dev       of the box: its processes, and the devices null, zero, full, random, urandom and tty
//
// The first process of a box is the host's wineserver. When it ends, Linux ends all other programs of the box.
// Programs are started in a box with Start. Its network is that of the host.
//
// Containers are confined by runc (emulator/hcsd/serve), with the same filter (Profile) and a user namespace of their
// own.
package confine
