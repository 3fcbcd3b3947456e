// Package testkit helps tests that run real programs: a containerd, a control plane and kubelets in a network
// namespace of their own, and images that are made from one program, without any registry.
package testkit
