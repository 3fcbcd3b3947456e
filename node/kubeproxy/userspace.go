package kubeproxy

import (
	"cmp"
	"context"

	"porthole.dev/porthole/internal/bootrecord"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/proxy/service"
	proxy "porthole.dev/porthole/proxy/userspace"
)

// userspaceMode relays connections in this process. The addresses that it adds to the host are removed when it ends.
func (p *parts) userspaceMode(ctx context.Context) running {
	o := p.servingOptions()
	source := p.source(ctx, service.Carry)
	o.Take, o.Changed = source.take, source.changed
	return running{run: proxy.New(o).Run}
}

// servingOptions returns the options of a proxy that serves, without where its services come from.
func (p *parts) servingOptions() proxy.Options {
	o := p.userspaceOptions()
	o.Reporter = p.server
	o.Reserved = apiAddresses(p.api)
	if p.NodePortsPrimary {
		o.Primary = p.primaryAddresses
	}
	return o
}

// stateFile returns the file in which a mode remembers something between runs; that of mode kernelspace is part of the
// boot record.
func (given Options) stateFile(mode string) string {
	file := "/var/lib/kube-proxy/" + mode + ".json"
	switch {
	case mode == Kernelspace:
		file = bootrecord.Folder + `\` + bootrecord.Services
	case platform.IsWindows:
		file = `C:\var\lib\kube-proxy\` + mode + ".json"
	}
	return cmp.Or(given.StateFile, file)
}

func (given Options) userspaceOptions() proxy.Options {
	return proxy.Options{Interface: given.ServiceInterface, StateFile: given.stateFile(Userspace),
		NodePorts: given.NodePortRanges, Cluster: given.ClusterRanges, Settle: given.Settle, Period: given.Period}
}

// cleanupUserspace removes from the host what an earlier run left: a proxy without services removes all addresses, and
// this one ends at once.
func cleanupUserspace(ctx context.Context, given Options) error {
	o := given.userspaceOptions()
	o.Take = func() ([]service.State, bool) { return nil, false }
	ended, end := context.WithCancel(ctx)
	end()
	return proxy.New(o).Run(ended)
}
