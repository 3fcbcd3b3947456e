package storage

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// errNotSupported is what the user of a volume of an unknown type sees, in the event FailedMount.
var errNotSupported = errors.New("this type of volume is not supported")

// Unsupported returns why a type of volume cannot be used, and what takes its place. Names of drivers are those that
// https://kubernetes-csi.github.io/docs/drivers.html lists. Types that became CSI drivers by migration do not come
// here.
func Unsupported(s *v1.VolumeSource) error {
	switch {
	case s.NFS != nil:
		return useDriver("nfs", "nfs.csi.k8s.io")
	case s.ISCSI != nil:
		return useDriver("iscsi", "iscsi.csi.k8s.io")
	case s.FC != nil:
		return useDriver("fc", "the CSI driver of the storage's vendor")
	case s.RBD != nil:
		return useDriver("rbd", "rbd.csi.ceph.com")
	case s.CephFS != nil:
		return useDriver("cephfs", "cephfs.csi.ceph.com")
	case s.FlexVolume != nil:
		return useDriver(fmt.Sprintf("flexVolume (%s)", s.FlexVolume.Driver),
			"the CSI driver of the storage's vendor; for SMB shares smb.csi.k8s.io")
	case s.ScaleIO != nil:
		return useDriver("scaleIO", "csi-vxflexos.dellemc.com")
	case s.StorageOS != nil:
		return useDriver("storageos", "a CSI driver")
	case s.Quobyte != nil:
		return useDriver("quobyte", "csi.quobyte.com")

	case s.Glusterfs != nil, s.Flocker != nil, s.PhotonPersistentDisk != nil:
		return errors.New("this type of volume is gone from Kubernetes: use a volume of a CSI driver")
	case s.GitRepo != nil:
		return errors.New("gitRepo volumes are disabled: clone the repository in an init container, into an emptyDir")
	}
	return errNotSupported
}

func useDriver(kind, driver string) error {
	return fmt.Errorf("%s volumes are not mounted by this kubelet: install a CSI driver (%s) and use its volumes", kind,
		driver)
}

// unsupportedPV is unsupported for a PersistentVolume.
func unsupportedPV(pv *v1.PersistentVolume) error {
	s, out := pv.Spec.PersistentVolumeSource, v1.VolumeSource{}
	switch {
	case s.NFS != nil:
		out.NFS = &v1.NFSVolumeSource{}
	case s.ISCSI != nil:
		out.ISCSI = &v1.ISCSIVolumeSource{}
	case s.FC != nil:
		out.FC = &v1.FCVolumeSource{}
	case s.RBD != nil:
		out.RBD = &v1.RBDVolumeSource{}
	case s.CephFS != nil:
		out.CephFS = &v1.CephFSVolumeSource{}
	case s.FlexVolume != nil:
		out.FlexVolume = &v1.FlexVolumeSource{Driver: s.FlexVolume.Driver}
	case s.ScaleIO != nil:
		out.ScaleIO = &v1.ScaleIOVolumeSource{}
	case s.StorageOS != nil:
		out.StorageOS = &v1.StorageOSVolumeSource{}

	case s.Quobyte != nil:
		out.Quobyte = &v1.QuobyteVolumeSource{}
	case s.Glusterfs != nil:
		out.Glusterfs = &v1.GlusterfsVolumeSource{}
	}
	return fmt.Errorf("PersistentVolume %s: %w", pv.Name, Unsupported(&out))
}
