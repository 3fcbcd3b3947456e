package routes

import (
	"porthole.dev/porthole/hns/hcn"
	"porthole.dev/porthole/routes/adapters"
	"porthole.dev/porthole/routes/podnet"
)

func newMaker(o Options) (maker, error) {
	client, keeper := hcn.New(hcn.Options{}), adapters.New(adapters.NewHost())
	return hnsMaker{
		hns:    &podnet.HNS{Reader: client, Writer: hcn.Host{Client: client}, Balancers: client, Adapters: keeper},
		keeper: keeper, replace: o.ReplaceNetwork, adapter: o.Adapter,
	}, nil
}
