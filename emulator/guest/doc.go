// Package guest makes a Windows container of Linux' parts: what its programs find besides the files of its image.
// emulator/hcsd makes a container of runc with it.
//
//	/prefix           Wine prefix: the container's registry and drive letters (MakePrefix)
//	/prefix/drive_c   its C:, an overlay of the image's layers over the files of a fresh Windows (Mount)
//	/tmp              the socket of its wineserver
//	/usr, /lib        the machine's, read-only, for Wine itself
//
// A program is started by way of a launcher (Launcher), with an environment that Wine understands (Environment).
package guest
