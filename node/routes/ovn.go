package routes

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/internal/httpserve"
	"porthole.dev/porthole/internal/nodeapi"
	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/ovn"
	"porthole.dev/porthole/routes/podnet"
)

// OVN is the name of the mode that programs services too.
const OVN = "ovn"

// ovnKeeper is the mode ovn with what answers its CNI plugin.
type ovnKeeper struct {
	keeper
	mode *ovn.Mode
	pod  func(ctx context.Context, namespace, name string) (uid string, annotations map[string]string, err error)

	mu    sync.Mutex
	noted map[string]bool // remarks of the plugin that were logged
}

// Any process of the host can write remarks: that many are kept and logged, and so many bytes of each.
const (
	mostRemarks   = 50
	longestRemark = 200
)

func newOVN(e environment) (keeper, error) {
	o := e.OVN
	o.Node = e.Node
	o.Addr = e.Addr
	o.Cluster = e.Cluster
	o.Services = e.Services
	if !o.EncapIP.IsValid() {
		o.EncapIP = e.NodeIP
	}
	host, err := ovn.NewHost(o)
	if err != nil {
		return nil, err
	}
	mode := ovn.New(o, host)
	return &ovnKeeper{keeper: keep.New(mode, e.Keep), mode: mode, pod: e.Pod, noted: map[string]bool{}}, nil
}

// programmer implements programmer.
func (*ovnKeeper) programmer() string { return nodeapi.OVNProgrammer }

// checkRange implements ranged.
func (k *ovnKeeper) checkRange(ctx context.Context, subnet netip.Prefix) error {
	return k.mode.CheckRange(ctx, subnet)
}

// Run keeps the node, answers the plugin and looks for service proxies until ctx ends.
func (k *ovnKeeper) Run(ctx context.Context) {
	var looking sync.WaitGroup
	defer looking.Wait()
	looking.Go(func() { k.mode.WatchRivals(ctx, k.Changed) })
	listener, err := net.Listen("tcp", ovnet.AgentAddress)
	if err != nil {
		klog.FromContext(ctx).Error(err,
			"Pods cannot be attached: another program has the address at which the CNI plugin asks", "address",
			ovnet.AgentAddress)
		k.keeper.Run(ctx)
		return
	}
	stop := httpserve.Start(listener, ovnet.Handler(k.look, func(remark string) { k.note(ctx, remark) }),
		func(err error) {
			klog.FromContext(ctx).Error(err, "Answering the CNI plugin ended")
		})
	defer stop()
	k.keeper.Run(ctx)
}

// look answers a question of the plugin.
func (k *ovnKeeper) look(ctx context.Context, namespace, name string) (ovnet.Answer, error) {
	if k.mode.MTU() == 0 {
		return ovnet.Answer{}, fmt.Errorf(
			"the address of the tunnels is not on this host yet, so that the MTU of pods is not known")
	}
	uid, annotations, err := k.pod(ctx, namespace, name)
	return ovnet.Answer{UID: uid, Annotation: annotations[ovnet.Annotation], MTU: k.mode.MTU(),
		Network: podnet.NetworkName}, err
}

// note logs what the CNI plugin says of its configuration, each text once. After mostRemarks texts it logs no more.
func (k *ovnKeeper) note(ctx context.Context, remark string) {
	if len(remark) > longestRemark {
		remark = remark[:longestRemark]
	}
	remark = strings.ToValidUTF8(remark, "")
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.noted[remark] && len(k.noted) < mostRemarks {
		k.noted[remark] = true
		klog.FromContext(ctx).Info("The configuration of the CNI plugin", "remark", remark)
	}
}
