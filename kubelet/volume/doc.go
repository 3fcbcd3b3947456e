// Package volume makes the volumes of a pod on disk, keeps their content up to date and removes them.
//
//	<root>/pods/<uid>/volumes/kubernetes.io~configmap/<name>/   one folder per volume, upstream's layout
//	<root>/pods/<uid>/volume-subpaths/<volume>/<container>/<n>  bind mounts of subPath mounts (Linux)
//	<root>/pods/<uid>/etc-hosts                                 hosts file of the pod
//
// Each type of volume is a kind (kind.go) and a line in the list of kinds (kinds.go). What kinds are made of is in the
// packages below this one, each of which uses what stands under it:
//
//	sources             what the files of volumes hold     storage         volumes of claims and drivers
//	podcert, token      certificates and tokens of pods    steps, records  what to do, and what was done
//	files               writing them                       measure         what volumes take
//	             subpath  paths inside volumes
//	             disk, paths  the calls of the system; names
//
// Prepare is called before the sandbox is made and again whenever the pod changes; it changes only what is not right.
// From then on one goroutine per pod rewrites files when a ConfigMap or Secret changes and when a token is due.
// Everything needed to tear a pod down is read from disk, so a restarted kubelet can remove what an earlier one made.
package volume
