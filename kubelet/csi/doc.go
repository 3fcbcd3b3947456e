// Package csi speaks the Container Storage Interface with the storage drivers of the node. It is the only user of the
// CSI module.
//
//	registration ──> Registry ──NodeGetInfo──> driver
//	                    │ └──────────────────> CSINode, labels of the node
//	kubelet/volume ──> Driver ──NodeStageVolume, NodePublishVolume, …──> driver
//
// What is called when is decided by kubelet/volume.
package csi
