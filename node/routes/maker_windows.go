package routes

import (
	"context"

	"porthole.dev/porthole/hns/hcn"
	"porthole.dev/porthole/routes/podnet"
)

type windowsMaker struct{ client *hcn.Client }

func newMaker() (maker, error) { return windowsMaker{hcn.New(hcn.Options{})}, nil }

func (m windowsMaker) ensure(ctx context.Context, o podnet.Options) (bool, error) {
	return podnet.EnsureHNS(ctx, m.client, o)
}

func (m windowsMaker) conf(o podnet.Options) (string, []byte, error) {
	data, err := o.WindowsConf()
	return podnet.WindowsConfName, data, err
}
