// Package factlog writes what the kubelet learns about each pod, and what it decides, into one file per pod, so that a
// fault can be analysed later. pod.Replay plays such a file again.
//
// It is off unless the kubelet is started with --record-facts. The files hold no secrets: package pod says what of a
// fact is recorded. They are bounded: a pod's file loses its older half when it is full, and says how much (then it
// can be read but not played again). When all files together are too large, the least recently written one is removed.
package factlog
