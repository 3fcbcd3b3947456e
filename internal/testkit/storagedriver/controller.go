package storagedriver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"

	csi "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// controller is the driver's service for the cluster.
type controller struct {
	csi.UnimplementedControllerServer
	*Driver
}

// ControllerGetCapabilities is part of CSI.
func (d *controller) ControllerGetCapabilities(context.Context,
	*csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	out := &csi.ControllerGetCapabilitiesResponse{}
	for t, has := range map[csi.ControllerServiceCapability_RPC_Type]bool{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME:     true,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME:             true,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME: d.o.Attach,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME:            !d.o.NoExpand,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER: d.o.SingleNodeModes,
	} {
		if has {
			out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{
				Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}}})
		}
	}
	return out, nil
}

// defaultBytes is the size of a volume for which nobody asked for one.
const defaultBytes = 1 << 30

// maxBytes is the largest volume.
const maxBytes = 1 << 40

// CreateVolume is part of CSI.
func (d *controller) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	source, err := sourceOf(r)
	if err != nil {
		return nil, err
	}
	size := r.GetCapacityRange().GetRequiredBytes()
	if size == 0 {
		size = defaultBytes
	}
	if size > maxBytes {
		return nil, status.Errorf(codes.OutOfRange, "%d bytes are more than %d", size, int64(maxBytes))
	}
	block := false
	for _, c := range r.VolumeCapabilities {
		block = block || c.GetBlock() != nil
	}

	end, err := d.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	// The same name is the same volume: calls may be repeated.
	id := fmt.Sprintf("v%x", sha256.Sum256([]byte(r.Name)))[:20]
	v, err := d.ensure(id)
	if err != nil {
		return nil, err
	}
	isNew := v.Name == ""
	if !isNew && (v.Bytes != size || v.Source != source) {
		return nil, status.Errorf(codes.AlreadyExists, "volume %s has %d bytes and is a copy of %q", r.Name, v.Bytes,
			v.Source)
	}
	v.Name = r.Name
	v.Bytes = size
	v.Block = block
	v.Source = source
	// A volume that cannot be filled is removed, so that the next call begins anew.
	if isNew && source != "" {
		if err := d.fill(v, source); err != nil {
			return nil, errors.Join(err, d.remove(v))
		}
	}
	if block {
		if err := growBlock(d.folder(id)+".img", size); err != nil {
			return nil, err
		}
	}

	out := &csi.Volume{VolumeId: id, CapacityBytes: size, VolumeContext: r.Parameters,
		ContentSource: r.GetVolumeContentSource()}
	if len(d.o.Topology) > 0 {
		out.AccessibleTopology = []*csi.Topology{{Segments: d.o.Topology}}
	}
	return &csi.CreateVolumeResponse{Volume: out}, d.save()
}

// DeleteVolume is part of CSI.
func (d *controller) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	end, err := d.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	v := d.volumes[r.VolumeId]
	if v == nil {
		return &csi.DeleteVolumeResponse{}, nil
	}
	if len(v.Published)+len(v.Staged)+len(v.Attached) > 0 {
		return nil, d.violation("volume %s is deleted while it is in use", v.ID)
	}
	if err := d.remove(v); err != nil {
		return nil, err
	}
	return &csi.DeleteVolumeResponse{}, d.save()
}

// remove removes a volume and what is in it. The caller holds d.mu.
func (d *Driver) remove(v *Volume) error {
	if err := dropBlock(d.folder(v.ID) + ".img"); err != nil {
		return err
	}
	if err := os.RemoveAll(d.folder(v.ID)); err != nil {
		return err
	}
	delete(d.volumes, v.ID)
	return nil
}

// ControllerPublishVolume is part of CSI.
func (d *controller) ControllerPublishVolume(_ context.Context,
	r *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	if d.o.NodeID != "" && r.NodeId != d.o.NodeID {
		return nil, status.Errorf(codes.NotFound, "there is no node %q", r.NodeId)
	}
	end, err := d.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	v, err := d.find(r.VolumeId)
	if err != nil {
		return nil, err
	}
	put(&v.Attached, r.NodeId, true)
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{"attached": "yes"}}, d.save()
}

// ControllerUnpublishVolume is part of CSI.
func (d *controller) ControllerUnpublishVolume(_ context.Context,
	r *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	end, err := d.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	v := d.volumes[r.VolumeId]
	if v == nil {
		return &csi.ControllerUnpublishVolumeResponse{}, nil
	}
	if v.Staged[r.NodeId] != "" || v.published(r.NodeId) > 0 {
		return nil, d.violation("volume %s is detached while the node uses it", v.ID)
	}
	delete(v.Attached, r.NodeId)
	return &csi.ControllerUnpublishVolumeResponse{}, d.save()
}

// ValidateVolumeCapabilities is part of CSI.
func (d *controller) ValidateVolumeCapabilities(_ context.Context,
	r *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	end, err := d.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	if _, err := d.find(r.VolumeId); err != nil {
		return nil, err
	}
	return &csi.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: r.VolumeCapabilities}}, nil
}

// ControllerExpandVolume is part of CSI.
func (d *controller) ControllerExpandVolume(_ context.Context,
	r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	end, err := d.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	v, err := d.find(r.VolumeId)
	if err != nil {
		return nil, err
	}
	size := r.GetCapacityRange().GetRequiredBytes()
	if size > maxBytes {
		return nil, status.Errorf(codes.OutOfRange, "%d bytes are more than %d", size, int64(maxBytes))
	}
	v.Bytes = max(v.Bytes, size)
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: v.Bytes, NodeExpansionRequired: true}, d.save()
}

// Delete removes a volume as its controller does.
func (d *Driver) Delete(ctx context.Context, id string) error {
	_, err := (&controller{Driver: d}).DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
	return err
}
