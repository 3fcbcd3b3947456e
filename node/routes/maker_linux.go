package routes

import (
	"context"

	"porthole.dev/porthole/routes/podnet"
)

type linuxMaker struct{ nat *podnet.NAT }

func newMaker() (maker, error) {
	nat, err := podnet.NewNAT()
	return linuxMaker{nat}, err
}

func (m linuxMaker) ensure(ctx context.Context, o podnet.Options) (bool, error) {
	return m.nat.Ensure(ctx, o)
}

func (m linuxMaker) conf(o podnet.Options) (string, []byte, error) {
	data, err := o.LinuxConf()
	return podnet.LinuxConfName, data, err
}
