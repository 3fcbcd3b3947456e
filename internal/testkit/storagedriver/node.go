package storagedriver

import (
	"context"
	"os"
	"path/filepath"
	"time"

	csi "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// NodeGetInfo is part of CSI.
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	out := &csi.NodeGetInfoResponse{NodeId: d.o.NodeID, MaxVolumesPerNode: d.o.MaxVolumes}
	if len(d.o.Topology) > 0 {
		out.AccessibleTopology = &csi.Topology{Segments: d.o.Topology}
	}
	return out, nil
}

// NodeGetCapabilities is part of CSI.
func (d *Driver) NodeGetCapabilities(context.Context,
	*csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	out := &csi.NodeGetCapabilitiesResponse{}
	for t, has := range map[csi.NodeServiceCapability_RPC_Type]bool{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME:     !d.o.NoStage,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS:         !d.o.NoStats,
		csi.NodeServiceCapability_RPC_VOLUME_CONDITION:         !d.o.NoStats,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME:            !d.o.NoExpand,
		csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP:       d.o.MountGroup,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER: d.o.SingleNodeModes,
	} {
		if has {
			out.Capabilities = append(out.Capabilities,
				&csi.NodeServiceCapability{
					Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: t}}})
		}
	}
	return out, nil
}

// NodeStageVolume is part of CSI.
func (d *Driver) NodeStageVolume(_ context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse,
	error) {
	end, err := d.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	v, err := d.find(r.VolumeId)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(r.StagingTargetPath); err != nil || !info.IsDir() {
		return nil, d.violation("volume %s: staging folder %s does not exist", v.ID, r.StagingTargetPath)
	}
	if d.o.Attach && !v.Attached[d.o.NodeID] {
		return nil, d.violation("volume %s is staged before it was attached", v.ID)
	}
	if at := v.Staged[d.o.NodeID]; at != "" && at != r.StagingTargetPath {
		return nil, d.violation("volume %s is staged at %s already", v.ID, at)
	}
	put(&v.Staged, d.o.NodeID, r.StagingTargetPath)
	return &csi.NodeStageVolumeResponse{}, d.save()
}

// NodeUnstageVolume is part of CSI.
func (d *Driver) NodeUnstageVolume(_ context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse,
	error) {
	end, err := d.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	v := d.volumes[r.VolumeId]
	if v == nil {
		return &csi.NodeUnstageVolumeResponse{}, nil
	}
	if n := v.published(d.o.NodeID); n > 0 {
		return nil, d.violation("volume %s is unstaged while it is published at %d places", v.ID, n)
	}
	delete(v.Staged, d.o.NodeID)
	return &csi.NodeUnstageVolumeResponse{}, d.save()
}

// NodePublishVolume is part of CSI.
func (d *Driver) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse,
	error) {
	end, err := d.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	// "As in a pod": either the driver was told that the volume is the pod's, or it was never made and never staged.
	ephemeral := r.VolumeContext["csi.storage.k8s.io/ephemeral"] == "true"
	if ephemeral {
		v, err := d.ensure(r.VolumeId)
		if err != nil {
			return nil, err
		}
		v.Ephemeral = true
	}
	v, err := d.find(r.VolumeId)
	if err != nil {
		return nil, err
	}
	if err := d.mayPublish(v, r); err != nil {
		return nil, err
	}

	mount := r.GetVolumeCapability().GetMount()
	block := r.GetVolumeCapability().GetBlock() != nil
	if block != v.Block {
		return nil, status.Errorf(codes.InvalidArgument, "volume %s: raw device %t, asked for as raw device %t", v.ID,
			v.Block, block)
	}
	if block {
		err = publishBlock(d.folder(v.ID)+".img", r.TargetPath)
	} else {
		err = publishFolder(d.folder(v.ID), r.TargetPath, mount.GetMountFlags(), r.Readonly)
	}
	if err != nil {
		return nil, status.Errorf(codes.Internal, "publishing volume %s: %v", v.ID, err)
	}

	put(&v.Published, r.TargetPath,
		Publication{Node: d.o.NodeID, ReadOnly: r.Readonly, FSType: mount.GetFsType(),
			Group: mount.GetVolumeMountGroup(), Flags: mount.GetMountFlags(),
			Mode: r.GetVolumeCapability().GetAccessMode().GetMode().String(), Context: r.VolumeContext,
			PublishContext: r.PublishContext, Secrets: r.Secrets,
			Times: v.Published[r.TargetPath].Times + 1, Last: time.Now()})
	return &csi.NodePublishVolumeResponse{}, d.save()
}

// mayPublish refuses what a kubelet must not ask for; calls in the wrong order are noted as
// violations.
func (d *Driver) mayPublish(v *Volume, r *csi.NodePublishVolumeRequest) error {
	if _, err := os.Stat(filepath.Dir(r.TargetPath)); err != nil {
		return d.violation("volume %s: the folder of target %s does not exist", v.ID, r.TargetPath)
	}
	if v.Ephemeral {
		return nil
	}
	if d.o.Attach && !v.Attached[d.o.NodeID] {
		return d.violation("volume %s is published before it was attached", v.ID)
	}
	if at := v.Staged[d.o.NodeID]; !d.o.NoStage && (at == "" || at != r.StagingTargetPath) {
		return d.violation("volume %s, staged at %q, is published from %q", v.ID, at, r.StagingTargetPath)
	}
	single := r.GetVolumeCapability().GetAccessMode().
		GetMode() == csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	if _, here := v.Published[r.TargetPath]; single && len(v.Published) > 0 && !here {
		return status.Errorf(codes.FailedPrecondition, "volume %s is published for another writer", v.ID)
	}
	return nil
}

// NodeUnpublishVolume is part of CSI.
func (d *Driver) NodeUnpublishVolume(_ context.Context,
	r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	end, err := d.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	if err := withdraw(r.TargetPath); err != nil {
		return nil, status.Errorf(codes.Internal, "unpublishing volume %s: %v", r.VolumeId, err)
	}
	v := d.volumes[r.VolumeId]
	if v == nil {
		return &csi.NodeUnpublishVolumeResponse{}, nil
	}
	delete(v.Published, r.TargetPath)
	if v.Ephemeral && len(v.Published) == 0 {
		if err := d.remove(v); err != nil {
			return nil, err
		}
	}
	return &csi.NodeUnpublishVolumeResponse{}, d.save()
}

// NodeExpandVolume is part of CSI.
func (d *Driver) NodeExpandVolume(_ context.Context, r *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse,
	error) {
	end, err := d.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	v, err := d.find(r.VolumeId)
	if err != nil {
		return nil, err
	}
	if _, here := v.Published[r.VolumePath]; !here && v.Staged[d.o.NodeID] != r.VolumePath {
		return nil, d.violation("volume %s is expanded at %s, where it is not", v.ID, r.VolumePath)
	}
	v.NodeBytes = r.GetCapacityRange().GetRequiredBytes()
	if v.Block {
		if err := growBlock(d.folder(v.ID)+".img", v.NodeBytes); err != nil {
			return nil, err
		}
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: v.NodeBytes}, d.save()
}

// NodeGetVolumeStats is part of CSI.
func (d *Driver) NodeGetVolumeStats(_ context.Context,
	r *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	end, err := d.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	v, err := d.find(r.VolumeId)
	if err != nil {
		return nil, err
	}
	if _, here := v.Published[r.VolumePath]; !here {
		return nil, status.Errorf(codes.NotFound, "volume %s is not published at %s", v.ID, r.VolumePath)
	}

	total := max(v.Bytes, v.NodeBytes)
	out := &csi.NodeGetVolumeStatsResponse{VolumeCondition: &csi.VolumeCondition{Abnormal: v.Abnormal != "",
		Message: v.Abnormal}}
	if v.Block {
		out.Usage = []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: total}}
		return out, nil
	}
	// The size is not enforced: more may be used than there is.
	used, files := measure(d.folder(v.ID))
	const inodes = 1 << 16
	out.Usage = []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: total, Used: used,
		Available: max(total-used, 0)},
		{Unit: csi.VolumeUsage_INODES, Total: inodes, Used: files, Available: inodes - files}}
	return out, nil
}

// measure adds up the files of a folder.
func measure(dir string) (bytes, files int64) {
	_ = filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
		files++
		return nil
	})
	return bytes, files
}
