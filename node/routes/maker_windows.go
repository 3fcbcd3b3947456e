package routes

import (
	"porthole.dev/porthole/hns/hcn"
	"porthole.dev/porthole/routes/podnet"
)

func newMaker(replace bool) (maker, error) {
	client := hcn.New(hcn.Options{})
	return hnsMaker{hns: podnet.HNS{Reader: client, Writer: client}, replace: replace}, nil
}
