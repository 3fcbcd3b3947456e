package csi

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	csi "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/registration"
)

// Driver is the node service of one storage driver. It is safe for concurrent use. Each call ends after CallTimeout at
// the latest.
type Driver struct {
	name, endpoint string
	conn           *grpc.ClientConn
	node           csi.NodeClient

	mu        sync.Mutex
	abilities *Abilities // nil until the driver was asked
}

// Dial connects to the driver called name at a socket. It does not wait for the driver. measure may be nil.
func Dial(name, socket string, measure func(driver, method, code string, took time.Duration)) (*Driver, error) {
	call := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption) error {
		ctx, cancel := context.WithTimeout(ctx, CallTimeout)
		defer cancel()
		began := time.Now()
		err := invoke(ctx, method, req, reply, cc, opts...)
		if measure != nil {
			measure(name, method, status.Code(err).String(), time.Since(began))
		}
		return err
	}

	// A driver that was away is tried again soon: pods wait for it.
	again := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
		MaxDelay: 2 * time.Second},
		MinConnectTimeout: 5 * time.Second}
	conn, err := registration.Dial(strings.TrimPrefix(socket, "unix://"), grpc.WithUnaryInterceptor(call),
		grpc.WithConnectParams(again))
	if err != nil {
		return nil, err
	}
	return &Driver{name: name, endpoint: socket, conn: conn, node: csi.NewNodeClient(conn)}, nil
}

// Close ends the calls that are under way.
func (d *Driver) Close() { _ = d.conn.Close() }

// Name returns the name of the driver.
func (d *Driver) Name() string { return d.name }

// failure words the error of a call.
func (d *Driver) failure(method string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s of CSI driver %s: %w", method, d.name, err)
}

// Info asks the driver what it says of this node.
func (d *Driver) Info(ctx context.Context) (NodeInfo, error) {
	got, err := d.node.NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
	if err != nil {
		return NodeInfo{}, d.failure("NodeGetInfo", err)
	}
	return NodeInfo{NodeID: got.NodeId, MaxVolumes: got.MaxVolumesPerNode,
		Topology: got.GetAccessibleTopology().GetSegments()}, nil
}

// Abilities asks the driver what it can do. The answer is kept: it stays the same as long as the driver is registered.
func (d *Driver) Abilities(ctx context.Context) (Abilities, error) {
	d.mu.Lock()
	known := d.abilities
	d.mu.Unlock()
	if known != nil {
		return *known, nil
	}

	got, err := d.node.NodeGetCapabilities(ctx, &csi.NodeGetCapabilitiesRequest{})
	if err != nil {
		return Abilities{}, d.failure("NodeGetCapabilities", err)
	}
	var a Abilities
	for _, c := range got.GetCapabilities() {
		switch c.GetRpc().GetType() {
		case csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME:
			a.Stage = true
		case csi.NodeServiceCapability_RPC_GET_VOLUME_STATS:
			a.Stats = true
		case csi.NodeServiceCapability_RPC_EXPAND_VOLUME:
			a.Expand = true
		case csi.NodeServiceCapability_RPC_VOLUME_CONDITION:
			a.Condition = true
		case csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP:
			a.MountGroup = true
		case csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER:
			a.SingleNodeModes = true
		}
	}
	d.mu.Lock()
	d.abilities = &a
	d.mu.Unlock()
	return a, nil
}

// Stage makes a volume available to the node, at a folder that exists. It may be repeated.
func (d *Driver) Stage(ctx context.Context, v Volume, staging string) error {
	can, err := d.Abilities(ctx)
	if err != nil {
		return err
	}
	_, err = d.node.NodeStageVolume(ctx,
		&csi.NodeStageVolumeRequest{VolumeId: v.ID, PublishContext: v.PublishContext, StagingTargetPath: staging,
			VolumeCapability: capability(v.Access, can), Secrets: v.Secrets, VolumeContext: v.Context})
	return d.failure("NodeStageVolume", err)
}

// Unstage undoes Stage. It may be repeated.
func (d *Driver) Unstage(ctx context.Context, id, staging string) error {
	_, err := d.node.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: staging})
	return d.failure("NodeUnstageVolume", err)
}

// Publish makes a volume available to a pod. The folder above the target exists; the driver makes the target. It may
// be repeated.
func (d *Driver) Publish(ctx context.Context, v Volume, at Target) error {
	can, err := d.Abilities(ctx)
	if err != nil {
		return err
	}
	_, err = d.node.NodePublishVolume(ctx,
		&csi.NodePublishVolumeRequest{VolumeId: v.ID, PublishContext: v.PublishContext, StagingTargetPath: at.Staging,
			TargetPath: at.Path, VolumeCapability: capability(v.Access, can), Readonly: at.ReadOnly, Secrets: v.Secrets,
			VolumeContext: v.Context})
	return d.failure("NodePublishVolume", err)
}

// Unpublish undoes Publish. It may be repeated.
func (d *Driver) Unpublish(ctx context.Context, id, target string) error {
	_, err := d.node.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: target})
	return d.failure("NodeUnpublishVolume", err)
}

// Expand makes the volume as large as its backing has become. It may be repeated.
func (d *Driver) Expand(ctx context.Context, v Volume, g Growth) error {
	can, err := d.Abilities(ctx)
	if err != nil {
		return err
	}
	_, err = d.node.NodeExpandVolume(ctx,
		&csi.NodeExpandVolumeRequest{VolumeId: v.ID, VolumePath: g.Path, StagingTargetPath: g.Staging,
			CapacityRange: &csi.CapacityRange{RequiredBytes: g.Bytes}, VolumeCapability: capability(v.Access, can),
			Secrets: v.Secrets})
	return d.failure("NodeExpandVolume", err)
}

// Stats measures a published volume.
func (d *Driver) Stats(ctx context.Context, id string, at Target) (Stats, error) {
	got, err := d.node.NodeGetVolumeStats(ctx,
		&csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: at.Path, StagingTargetPath: at.Staging})
	if err != nil {
		return Stats{}, d.failure("NodeGetVolumeStats", err)
	}

	var s Stats
	for _, u := range got.GetUsage() {
		switch u.GetUnit() {
		case csi.VolumeUsage_BYTES:
			s.UsedBytes = u.GetUsed()
			s.AvailableBytes = u.GetAvailable()
			s.CapacityBytes = u.GetTotal()
		case csi.VolumeUsage_INODES:
			s.UsedInodes = u.GetUsed()
			s.AvailableInodes = u.GetAvailable()
			s.CapacityInodes = u.GetTotal()
		}
	}
	if c := got.GetVolumeCondition(); c != nil {
		s.Condition = &Condition{Abnormal: c.GetAbnormal(), Message: c.GetMessage()}
	}
	return s, nil
}

// capability returns how a volume is used in CSI's words.
func capability(a Access, can Abilities) *csi.VolumeCapability {
	c := &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: accessMode(a.Mode, can.SingleNodeModes)}}
	if a.Block {
		c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		return c
	}
	c.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: a.FSType,
		MountFlags: a.MountFlags, VolumeMountGroup: a.Group}}
	return c
}

// accessMode translates an access mode. Kubernetes' ReadWriteOnce is about nodes: several pods of one node may write.
// Drivers that do not know this difference are told of one writer.
func accessMode(m v1.PersistentVolumeAccessMode, singleNodeModes bool) csi.VolumeCapability_AccessMode_Mode {
	switch {
	case m == v1.ReadOnlyMany:
		return csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	case m == v1.ReadWriteMany:
		return csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	case m == v1.ReadWriteOncePod && singleNodeModes:
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	case singleNodeModes:
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	}
	return csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
}

// Infeasible reports whether the error of a call says that a repetition cannot help (the codes that upstream's
// expander names).
func Infeasible(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.OutOfRange, codes.NotFound:
		return true
	}
	return false
}

// InUse reports whether the error of Expand says that the volume cannot grow while it is used.
func InUse(err error) bool { return status.Code(err) == codes.FailedPrecondition }

// ResourceExhausted is the code of an attachment that failed because the node has too many volumes.
const ResourceExhausted = int32(codes.ResourceExhausted)
