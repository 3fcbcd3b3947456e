// Package kube is the only user of client-go: it loads kubeconfigs and turns the Kubernetes API into the small interfaces
// that the products declare. Files called kubelet_*.go serve the kubelet, and so on.
package kube
