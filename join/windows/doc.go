// Package windows has the steps that make a Windows machine a node, once it has the node's certificate: programs,
// configuration, access control lists, services. Each step observes what there is, so that a second run writes
// nothing, and can be undone.
//
//	C:\Program Files\Porthole\versions\ID\  porthole.exe, kubelet.exe (the same file), kube-proxy.exe
//	C:\ProgramData\Porthole\                state of join and of routes, logs\
//	C:\etc\kubernetes\                      kubelet.conf, kube-proxy.yaml, pki\ca.crt
//	C:\var\lib\kubelet\                     config.yaml, instance-config.yaml, kubeadm-flags.env, pki\
//	C:\opt\cni\bin\, C:\etc\cni\net.d\      CNI, as containerd is configured for it
//
// What decides is in untagged files and is tested on every system. What touches the machine comes in as an interface,
// or is in package platform and in package services.
package windows
