//go:build !debug

package kubelet

const debugBuild = false
