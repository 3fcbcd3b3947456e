// Package factlog writes what the kubelet learns about each pod, and what it decides, into one file per pod, for the case that
// something went wrong which has to be understood later. pod.Replay plays such a file again.
//
// It is off unless the kubelet is started with --record-facts. The files hold no secrets: package pod says what of a fact is
// recorded. They are bounded: a pod's file loses its older half when it is full, and says how much (then it can be read but
// not played again); when all files together are too large, the one goes that was not written to for the longest time.
package factlog
