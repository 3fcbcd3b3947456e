// Package volume makes the volumes of a pod on disk, keeps their content up to date and removes them.
//
//	<root>/pods/<uid>/volumes/kubernetes.io~configmap/<name>/   one folder per volume, upstream's layout
//	<root>/pods/<uid>/volume-subpaths/<volume>/<container>/<n>  bind mounts of subPath mounts (Linux)
//	<root>/pods/<uid>/etc-hosts                                 hosts file of the pod
//
// Each type of volume is a kind (kind.go): a file of its own, and a line in the list of kinds (kinds.go).
//
// Prepare is called before the sandbox is made and again whenever the pod changes; it changes only what is not right.
// From then on one goroutine per pod rewrites files when a ConfigMap or Secret changes and when a token is due.
// Everything needed to tear a pod down is read from disk, so a restarted kubelet can remove what an earlier one made.
package volume
