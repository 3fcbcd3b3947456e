// Package ownroot starts a program in a mount namespace in which /usr is a folder of ours: the one that tools/root
// makes of Debian's packages. So emulated hosts run with the same Wine on every machine, and nothing is installed.
//
//	/usr              DIR/usr, read-only
//	/usr/local        the machine's, and so is /usr/lib/porthole, if they are there
//	/bin, /lib, …     links into /usr, as in DIR
//	/etc              the machine's, but ld.so.cache is DIR's; users and groups of DIR/etc that the machine lacks are there too
//	all else          the machine's; what is mounted there is seen on both sides
//
// The program is in a mount namespace of its own. A machine whose mounts are not shared among mount namespaces shows
// nothing that is mounted in another one: Enter shares them, as systemd does at each boot.
package ownroot
