package routes

import (
	"context"

	"porthole.dev/porthole/routes/podnet"
)

// hnsMaker makes the network of a Windows node. It is built on every system, so that it can be tested on a fake.
type hnsMaker struct {
	hns     podnet.HNS
	replace bool // a network that does not fit may be replaced although it holds endpoints
}

func (m hnsMaker) ensure(ctx context.Context, _ podnet.Options, wanted podnet.Network) (podnet.Made, error) {
	return m.hns.Ensure(ctx, wanted, m.replace)
}

func (m hnsMaker) conf(wanted podnet.Network) podnet.Conf { return wanted.WindowsConf }
