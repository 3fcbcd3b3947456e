// Package join tests `porthole join` and `porthole leave` against a control plane that kubeadm made.
//
// A machine is a network namespace of the lab with a mount and a UTS namespace of its own: its /etc/kubernetes,
// /var/lib/kubelet and so on are its own, and its containerd too. It has no systemd; a small supervisor starts what
// has its files, as kubeadm expects it of a machine without one. The control plane's machine runs `kubeadm init` of
// upstream, and our kubelet runs its static pods.
package join
