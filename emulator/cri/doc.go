// Package cri is the container runtime of an emulated Windows host: a CRI server that takes what a kubelet on Windows
// sends and answers as containerd on Windows would, and that has a stock Linux containerd carry it out.
//
//	kubelet.exe ──CRI, C:\ paths──▶ Server ──CRI, Linux paths──▶ containerd ──▶ runc ──▶ wine64 C:\app.exe
//	                                  │ images, by containerd's client: Windows manifest in, Linux record out
//	                                  └ mounts: C: of a container
//
// Two overlays make up a container as Windows shows it:
//
//	/                    containerd's snapshot of the image: mount points, and the layers as they are (Files/…, Hives/…)
//	/prefix/drive_c      overlay: the layers' Files/ over the C: of a fresh Windows, upper = this container's own
//	/prefix/*.reg        the registry, a copy for each container
//
// The server keeps nothing in memory. What it must know about a container later lies in a folder of its own under the
// host's folder (cri/containers/<key>), and the container carries the key as an annotation; so it can be killed at any
// time. A folder whose container is gone is swept at the next start.
//
// What an emulated container is not: the image's registry hives and system files are not used, users are not told
// apart, and HostProcess containers get the host's network but not its C:.
package cri
