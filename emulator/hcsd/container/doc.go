// Package container runs the containers of an emulated host and the programs in them, with runc and Wine. It carries
// out; what is known of systems and processes is in package systems.
//
// A container is a PID namespace whose first process is its wineserver. It lives until the system is shut down;
// programs come and go in it. What hcsd and the launchers of programs tell each other is in files (runfolder_linux.go).
package container
